/*
 * State of a link: its moment (proto/links.h), a queue of packets towards the peer, and whether it is over.
 * It is over once: on_end is called from the loop, never from inside link_send(), so a caller need not expect
 * its own end.
 */
#include "wire/link.h"
#include "base/clock.h"
#include "base/own.h"
#include "wire/seq.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>

struct queued {
    struct packet packet;
    struct queued *next;
};

struct link {
    int fd;
    enum link_id id;
    bool commands, held, was_full, over, in_handler, freed;
    enum link_moment moment;
    const struct link_ops *ops;
    void *ctx;
    struct event *readable, *writable, *again, *ending;
    struct queued *first, **last;
    size_t bytes;
    err_t why;
};

enum { HEAR_MAX = 4096, BATCH = 64 }; /* messages handled before the loop sees to other links */
enum { AGAIN_MS = 20 };               /* between attempts, when it is not the socket that is full */

static void end(struct link *l, err_t why) {
    if (l->over) {
        err_free(why);
        return;
    }
    l->over = true;
    l->why = why;
    event_del(l->readable);
    event_del(l->writable);
    event_del(l->again);
    event_active(l->ending, EV_TIMEOUT, 0);
}

static void drop_first(struct link *l) {
    struct queued *q = l->first;
    l->first = q->next;
    if (!l->first)
        l->last = &l->first;
    l->bytes -= q->packet.weight;
    packet_free(&q->packet);
    free(q);
}

/* A writable socket that takes nothing: too many descriptors of ours are in flight (ETOOMANYREFS), or no
 * memory. The loop would call us back at once, for ever. */
static void wait_to_send(struct link *l) {
    struct pollfd p = {l->fd, POLLOUT, 0};
    if (poll(&p, 1, 0) == 1 && p.revents == POLLOUT)
        event_add(l->again, &(struct timeval){0, AGAIN_MS * 1000});
    else
        event_add(l->writable, NULL);
}

/* Sends what the socket takes. */
static void push(struct link *l) {
    while (l->first && !l->over) {
        bool sent;
        err_t e = packet_send(l->fd, &l->first->packet, &sent);
        if (e) {
            end(l, e);
            return;
        }
        if (!sent) {
            wait_to_send(l);
            return;
        }
        drop_first(l);
    }
}

static void on_writable(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct link *l = arg;
    push(l);
    if (l->was_full && l->bytes < LINK_QUEUE_MAX / 2 && !l->over) {
        l->was_full = false;
        if (l->ops->on_room)
            l->ops->on_room(l->ctx, l);
    }
}

static void destroy(struct link *l) {
    while (l->first)
        drop_first(l);
    event_free(l->readable);
    event_free(l->writable);
    event_free(l->again);
    event_free(l->ending);
    own_closep(&l->fd);
    err_free(l->why);
    free(l);
}

/* Hands one message to its handler. False: the link is gone or over. */
static bool handle(struct link *l, struct msg *m) {
    const struct msg_row *row = &msg_rows[m->type];
    if (!msg_permitted(m->type, l->id, l->commands ? UP : DOWN, l->moment)) {
        end(l, err_new(EXIT_POLICY, "link %s: message %s may not come here now (%s)", link_rows[l->id].name,
                       row->name, link_moment_name(l->moment)));
        return false;
    }
    if (!l->ops->on[m->type]) {
        end(l, err_new(EXIT_FAILED, "link %s: nobody handles %s", link_rows[l->id].name, row->name));
        return false;
    }
    l->moment = msg_next(m->type, l->moment);
    l->in_handler = true;
    l->ops->on[m->type](l->ctx, l, m);
    l->in_handler = false;
    if (l->freed) {
        destroy(l);
        return false;
    }
    return !l->over && !l->held;
}

/* False: nothing has come, or the link is held, over or gone. */
static bool hear_one(struct link *l) {
    own_msg struct msg m = {0};
    enum seq_got got;
    err_t e = seq_recv(l->fd, &m, &got);
    if (e || got == SEQ_END) {
        end(l, err_wrap(e, "link %s", link_rows[l->id].name));
        return false;
    }
    return got != SEQ_AGAIN && handle(l, &m);
}

static void on_readable(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    for (int i = 0; i < BATCH && hear_one(arg); i++)
        continue;
}

void link_hear(struct link *l) {
    for (int i = 0; i < HEAR_MAX && !l->held && !l->over && hear_one(l); i++)
        continue;
}

static void on_ending(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    struct link *l = arg;
    l->in_handler = true;
    l->ops->on_end(l->ctx, l, l->why);
    l->in_handler = false;
    if (l->freed)
        destroy(l);
}

struct link *link_new(struct event_base *base, int fd, enum link_id id, bool me_commands,
                      const struct link_ops *ops, void *ctx) {
    struct link *l = xcalloc(1, sizeof *l);
    *l = (struct link){.fd = fd, .id = id, .commands = me_commands, .ops = ops, .ctx = ctx};
    l->moment = link_rows[id].first;
    l->last = &l->first;
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    l->readable = event_new(base, fd, EV_READ | EV_PERSIST, on_readable, l);
    l->writable = event_new(base, fd, EV_WRITE, on_writable, l);
    l->again = event_new(base, -1, 0, on_writable, l);
    l->ending = event_new(base, -1, 0, on_ending, l);
    event_add(l->readable, NULL);
    return l;
}

void link_free(struct link *l) {
    if (!l)
        return;
    if (l->in_handler) {
        l->freed = true;
        if (!l->over) {
            l->over = true;
            event_del(l->readable);
            event_del(l->writable);
            event_del(l->again);
        }
        return;
    }
    destroy(l);
}

err_t link_send(struct link *l, const struct msg *m) {
    if (l->over)
        return err_new(EXIT_FAILED, "link %s is over", link_rows[l->id].name);
    if (!msg_permitted(m->type, l->id, l->commands ? DOWN : UP, l->moment))
        return err_new(EXIT_FAILED, "link %s: %s may not be said now (%s)", link_rows[l->id].name,
                       m->type < MSG_COUNT ? msg_rows[m->type].name : "?", link_moment_name(l->moment));
    if (l->bytes >= LINK_QUEUE_END) {
        end(l, err_new(EXIT_FAILED, "link %s: the peer has not read for %d MiB", link_rows[l->id].name,
                       LINK_QUEUE_END >> 20));
        return err_new(EXIT_FAILED, "link %s is over: the peer does not read", link_rows[l->id].name);
    }
    own_packet struct packet p = {0};
    TRY(packet_make(m, &p));
    l->moment = msg_next(m->type, l->moment);
    struct queued *q = xcalloc(1, sizeof *q);
    q->packet = p;
    p = (struct packet){0};
    l->bytes += q->packet.weight;
    *l->last = q;
    l->last = &q->next;
    if (l->first == q)
        push(l);
    if (l->bytes >= LINK_QUEUE_MAX)
        l->was_full = true;
    return NULL;
}

bool link_full(const struct link *l) {
    return l->was_full;
}

void link_hold(struct link *l, bool hold) {
    l->held = hold;
    if (l->over)
        return;
    if (hold)
        event_del(l->readable);
    else
        event_add(l->readable, NULL);
}

void *link_ctx(const struct link *l) {
    return l->ctx;
}

void link_flush(struct link *l, int timeout_ms) {
    int64_t end = clock_mono_ns() + timeout_ms * INT64_C(1000000);
    for (int64_t left = 1; l->first && !l->over && left > 0; left = end - clock_mono_ns()) {
        push(l);
        if (event_pending(l->again, EV_TIMEOUT, NULL)) /* the socket would take it, and does not */
            poll(NULL, 0, AGAIN_MS);
        else
            poll(&(struct pollfd){l->fd, POLLOUT, 0}, l->first != NULL, (int)(left / 1000000));
    }
}
