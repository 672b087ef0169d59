/*
 * `up`: the process in the foreground that keeps the warden alive.
 *
 * Theory. One loop over three descriptors: signals, the warden's death (a pidfd, whether it is a child or one that an
 * earlier `up` left behind), the operator's link to it. Stages follow each other:
 *
 *   AWAIT   the warden runs; op_ping is asked until the relay and the manager are up
 *   DEMO    the agent `demo` is made
 *   UP      the chat (with a terminal), or just being there
 *   DOWN    SIGTERM was passed to the warden; its end is awaited
 *
 * A warden that dies without having said that the fleet is down is started again: at once, then with a growing pause.
 * kill -9 of `up` leaves the warden alone; the next `up` finds it by its lock. A warden whose binary is another than the
 * installed one is asked to leave (the parts stay) and the new one takes over.
 */
#ifndef UP_SUPERVISE_H
#define UP_SUPERVISE_H

#include "base/err.h"

#include <stdbool.h>

struct supervise_how {
    bool demo;        /* make the agent `demo` if there is none */
    bool chat;        /* run `agent-cage chat` in the foreground; its end is the fleet's */
    const char *self; /* what a person calls this program */
};

/* In the environment of that chat, so that it says what leaving it does. */
#define UP_CHAT "AGENT_CAGE_CHAT_OF_UP"

/* Returns when the fleet is down. */
err_t supervise(const struct supervise_how *how);

#endif
