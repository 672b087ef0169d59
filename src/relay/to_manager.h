/* The one way down: the link to the manager. There is none to anybody else. */
#ifndef RELAY_TO_MANAGER_H
#define RELAY_TO_MANAGER_H

#include "base/err.h"
#include "proto/msg.h"

#include <event2/event.h>
#include <stdbool.h>

struct to_manager;
struct part;

struct to_manager_ops {
    void (*on_answer)(void *ctx, struct msg *m); /* a ret_* message */
    void (*on_up)(void *ctx);   /* a fresh link stands; whatever was asked before is not known there */
    void (*on_down)(void *ctx); /* the link is over */
    void (*on_room)(void *ctx); /* to_manager_full() is false again */
};

struct to_manager *to_manager_new(struct event_base *base, struct part *part,
                                  const struct to_manager_ops *ops, void *ctx);
void to_manager_free(struct to_manager *t);

/* Takes fd, in place of an older link (then on_down comes first). */
void to_manager_attach(struct to_manager *t, int fd);

bool to_manager_up(const struct to_manager *t);
bool to_manager_full(const struct to_manager *t);

/* As link_send(); an error also when there is no link. */
err_t to_manager_send(struct to_manager *t, const struct msg *m);

#endif
