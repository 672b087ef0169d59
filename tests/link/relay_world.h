/*
 * A real relay applet, started as the warden starts it (its listeners on descriptors 3 and 4, an account of its own), with
 * the test as warden, manager and front. Everything waits for a message with a deadline; what does not come fails the test.
 */
#ifndef LINK_RELAY_WORLD_H
#define LINK_RELAY_WORLD_H

#include "proto/msg.h"

#include <stdbool.h>
#include <sys/types.h>

struct world {
    char root[64]; /* AGENT_CAGE_ROOT of it */
    int listeners[2], web;
    unsigned port; /* of the web page, on 127.0.0.1 */
    pid_t relay;
    int control, manager; /* our ends */
};

enum { WAIT_MS = 10000 };

void world_start(struct world *w);
void world_stop(struct world *w);

/* Ends the relay by SIGKILL and starts another on the same listeners. */
void world_restart(struct world *w);

/* Gives the relay a fresh link to us as the manager, in place of what there was. */
void world_manager(struct world *w);

/* A front that has said hello. */
int world_front(struct world *w);

void say(int fd, const struct msg *m);

/* The next message there; it must be of this type. */
void hear(int fd, enum msg_type type, struct msg *ret);

/* The next message there, whatever it is. */
void hear_any(int fd, struct msg *ret);

/* True: the peer hangs up (what comes before is thrown away). */
bool hangs_up(int fd);

/* True: nothing comes within ms. */
bool silent(int fd, int ms);

/* ret_end for a cookie. */
void end(int fd, uint64_t cookie, uint64_t status, uint64_t id, const char *text);

/* Runs the real command line with this world's root. fds: its 0, 1, 2. */
pid_t world_cli(struct world *w, const int fds[3], char *const argv[]);

/* Its exit status (128+N for a signal), at most WAIT_MS later. */
int reap(pid_t pid);

#endif
