#include "relay/to_manager.h"
#include "base/log.h"
#include "base/own.h"
#include "part/part.h"
#include "wire/link.h"

#include <stdlib.h>

struct to_manager {
    struct event_base *base;
    struct part *part;
    const struct to_manager_ops *ops;
    void *ctx;
    struct link *link;
};

static void on_ret(void *ctx, struct link *l, struct msg *m) {
    (void)l;
    struct to_manager *t = ctx;
    t->ops->on_answer(t->ctx, m);
}

static void on_end(void *ctx, struct link *l, err_t why) {
    struct to_manager *t = ctx;
    if (why)
        log_warn("%s", err_text(why));
    t->link = NULL;
    link_free(l);
    part_lost(t->part, LINK_relay_manager, "");
    t->ops->on_down(t->ctx);
}

static void on_room(void *ctx, struct link *l) {
    (void)l;
    struct to_manager *t = ctx;
    t->ops->on_room(t->ctx);
}

static link_fn *const handlers[MSG_COUNT] = {
    [MSG_ret_agent] = on_ret,   [MSG_ret_status] = on_ret,   [MSG_ret_event] = on_ret, [MSG_ret_row] = on_ret,
    [MSG_ret_session] = on_ret, [MSG_ret_exec_end] = on_ret, [MSG_ret_end] = on_ret,
};
static const struct link_ops link_ops = {.on = handlers, .on_end = on_end, .on_room = on_room};

struct to_manager *to_manager_new(struct event_base *base, struct part *part,
                                  const struct to_manager_ops *ops, void *ctx) {
    struct to_manager *t = xcalloc(1, sizeof *t);
    *t = (struct to_manager){.base = base, .part = part, .ops = ops, .ctx = ctx};
    return t;
}

void to_manager_free(struct to_manager *t) {
    if (!t)
        return;
    link_free(t->link);
    free(t);
}

void to_manager_attach(struct to_manager *t, int fd) {
    if (t->link) {
        link_free(TAKE(t->link));
        t->ops->on_down(t->ctx);
    }
    t->link = link_new(t->base, fd, LINK_relay_manager, true, &link_ops, t);
    t->ops->on_up(t->ctx);
}

bool to_manager_up(const struct to_manager *t) {
    return t->link;
}

bool to_manager_full(const struct to_manager *t) {
    return t->link && link_full(t->link);
}

err_t to_manager_send(struct to_manager *t, const struct msg *m) {
    if (!t->link)
        return err_new(EXIT_FAILED, "no link to the manager");
    return link_send(t->link, m);
}
