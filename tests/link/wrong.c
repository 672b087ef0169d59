/*
 * Every message, on every link, in both directions, at every moment that a link can stand in: a real link
 * takes it exactly where its row says, and ends on anything else without a handler having seen it.
 */
#include "base/own.h"
#include "wire/link.h"
#include "wire/seq.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

struct seen {
    int handled, ended, refused;
};

static void on_any(void *ctx, struct link *l, struct msg *m) {
    (void)l, (void)m;
    ((struct seen *)ctx)->handled++;
}

static void on_end(void *ctx, struct link *l, err_t why) {
    struct seen *s = ctx;
    s->ended++;
    s->refused += why != NULL;
    link_free(l);
}

static link_fn *handlers[MSG_COUNT];
static const struct link_ops ops = {.on = handlers, .on_end = on_end};

/* A message with some value in each field and as many descriptors as its row asks for. */
static void sample(enum msg_type t, int spare, struct msg *m) {
    static const struct bytes items[] = {{"one", 3}, {"", 0}};
    *m = (struct msg){.type = t};
    char *at = (char *)&m->part_hello;
    for (size_t i = 0; i < msg_rows[t].nfields; i++) {
        enum field_type f = msg_rows[t].fields[i].type;
        if (f == F_LIST)
            *(struct list *)(void *)at = (struct list){items, COUNT(items)};
        else if (f == F_U64 || f == F_I64)
            *(uint64_t *)(void *)at = 1000 + i;
        else
            *(struct bytes *)(void *)at = (struct bytes){"value", 5};
        at += f == F_U64 || f == F_I64 ? 8 : sizeof(struct bytes);
    }
    m->nfds = msg_rows[t].fds_min;
    for (size_t i = 0; i < m->nfds; i++)
        m->fds[i] = spare;
}

/* Sends m to a fresh link end and lets it act. raw: the peer's end of the pair. */
static struct seen deliver(enum link_id id, bool me_commands, const struct msg *m) {
    struct event_base *base = event_base_new();
    struct seen seen = {0};
    int pair[2];
    assert_null(seq_pair(pair));
    struct link *l = link_new(base, pair[0], id, me_commands, &ops, &seen);
    assert_null(seq_send(pair[1], m));
    event_base_loop(base, EVLOOP_NONBLOCK);
    event_base_loop(base, EVLOOP_NONBLOCK);
    close(pair[1]);
    if (!seen.ended)
        link_free(l);
    event_base_free(base);
    return seen;
}

static void every_message_on_every_link(void **state) {
    (void)state;
    int spare = open("/dev/null", O_RDWR | O_CLOEXEC), taken = 0, refused = 0;
    for (int t = MSG_none + 1; t < MSG_COUNT; t++)
        for (int id = 0; id < LINK_COUNT; id++)
            for (int commands = 0; commands < 2; commands++) {
                struct msg m;
                sample(t, spare, &m);
                const struct msg_row *row = &msg_rows[t];
                bool right = row->link == (enum link_id)id && row->way == (commands ? UP : DOWN) &&
                             (row->at & AT(link_rows[id].first));
                struct seen seen = deliver(id, commands, &m);
                assert_int_equal(seen.handled, right);
                assert_int_equal(seen.refused, !right);
                *(right ? &taken : &refused) += 1;
            }
    close(spare);
    assert_true(taken > 20 && refused > 1000);
}

/* What may come first may not come again where its row moves the link on: a second hello, a second request.
 */
static void moments_pass(void **state) {
    (void)state;
    int spare = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int t = MSG_none + 1; t < MSG_COUNT; t++) {
        const struct msg_row *row = &msg_rows[t];
        if (row->next == SAME || (row->at & AT(row->next)) || !(row->at & AT(link_rows[row->link].first)))
            continue;
        struct event_base *base = event_base_new();
        struct seen seen = {0};
        int pair[2];
        assert_null(seq_pair(pair));
        link_new(base, pair[0], row->link, row->way == UP, &ops, &seen);
        struct msg m;
        sample(t, spare, &m);
        assert_null(seq_send(pair[1], &m));
        assert_null(seq_send(pair[1], &m));
        event_base_loop(base, EVLOOP_NONBLOCK);
        event_base_loop(base, EVLOOP_NONBLOCK);
        assert_int_equal(seen.handled, 1);
        assert_int_equal(seen.refused, 1);
        close(pair[1]);
        event_base_free(base);
    }
    close(spare);
}

/* Our own side is held to the same tables: it cannot send what it may not. */
static void own_side_too(void **state) {
    (void)state;
    int spare = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int t = MSG_none + 1; t < MSG_COUNT; t++) {
        struct event_base *base = event_base_new();
        struct seen seen = {0};
        int pair[2];
        assert_null(seq_pair(pair));
        struct link *l = link_new(base, pair[0], msg_rows[t].link, msg_rows[t].way == UP, &ops, &seen);
        struct msg m;
        sample(t, spare, &m);
        own_err err_t e = link_send(l, &m);
        assert_non_null(e);
        link_free(l);
        close(pair[1]);
        event_base_free(base);
    }
    close(spare);
}

int main(void) {
    for (int t = 0; t < MSG_COUNT; t++)
        handlers[t] = on_any;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_message_on_every_link),
        cmocka_unit_test(moments_pass),
        cmocka_unit_test(own_side_too),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
