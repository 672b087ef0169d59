/*
 * Questions of harnesses that are open: of each agent those that its link told, until it tells how they ended. In memory
 * only: a new link tells them again. Whoever begins to read an agent's events is told them too; what nobody reads UNREAD_MS
 * after it came is declined.
 */
#ifndef MANAGER_ASKED_H
#define MANAGER_ASKED_H

#include "manager/events.h"
#include "proto/msg.h"

enum { ASKED_MAX = 8, ASKED_UNREAD_MS = 5000 };

struct agent;
struct manager;

/* Takes what msg (a MSG_desk_ask) owns. Beyond ASKED_MAX nothing is kept; an agent has no more open either. */
void asked_put(struct manager *m, struct agent *a, struct msg *msg);
void asked_over(struct agent *a, uint64_t question);
void asked_drop(struct agent *a);

/* Hands the open questions of an agent ("": of all) to `give`, as events without a seq. */
typedef void asked_fn(void *ctx, const struct event *e);
void asked_give(struct manager *m, const char *agent, asked_fn *give, void *ctx);

/* The time is up for what nobody reads (the manager's timer m->unread). */
void asked_unread(struct manager *m);

#endif
