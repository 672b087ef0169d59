/*
 * What was used, kept so that no end of the process loses or resets it: one file of two places, written in turn, each
 * with a number and a sum of its own, so a torn write leaves the other one good. Figures are written when they come, before
 * what they count is passed on; the file is mapped, so that costs no call and waits for no disk, and the kernel has it
 * whatever becomes of the agent. (It is not synced: a machine that loses its power may forget the last seconds.)
 */
#ifndef AGENT_GATEWAY_USAGE_H
#define AGENT_GATEWAY_USAGE_H

#include "agent/gateway/budget.h"

struct usage {
    struct tokens total, session;
    uint64_t requests, cost_nano;
    struct window window;
    bool told; /* the chat heard that this window's budget is used up */
    /* the rest is usage.c's */
    int fd;
    char *map;
    uint64_t number;
};

/* `home`: the agent's folder. Reads what an earlier process kept. */
err_t usage_open(int home, struct usage *ret);
void usage_close(struct usage *u);

/* Writes all of it. */
void usage_write(struct usage *u);

#endif
