/* The codec: what goes in comes out; whatever is cut, added or turned over is refused or decodes within its
 * bounds. */
#include "proto/msg.h"
#include "base/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

static void round_trip(void **state) {
    (void)state;
    struct bytes argv[] = {bytes_of("sh"), bytes_of("-c"), {"a \xff\n'", 5}, bytes_of("")};
    struct msg m = {.type = MSG_run_start};
    m.run_start.run = 7;
    m.run_start.who = bytes_of("operator");
    m.run_start.cwd = bytes_of("/project");
    m.run_start.argv = (struct list){argv, COUNT(argv)};
    own_buf struct buf b = {0};
    assert_null(msg_encode(&m, &b));
    own_msg struct msg got = {0};
    unsigned flags;
    assert_null(msg_decode(b.p, b.len, &got, &flags));
    assert_int_equal(got.type, MSG_run_start);
    assert_int_equal(got.run_start.run, 7);
    assert_string_equal(got.run_start.who.p, "operator");
    assert_int_equal(got.run_start.argv.n, 4);
    assert_memory_equal(got.run_start.argv.v[2].p, "a \xff\n'", 6);
    assert_int_equal(got.run_start.env.n, 0);
}

static void bounds(void **state) {
    (void)state;
    static char long_text[4097];
    memset(long_text, 'a', sizeof long_text - 1);
    struct msg m = {.type = MSG_op_rm};
    m.op_rm.agent = bytes_of(long_text);
    own_buf struct buf b = {0};
    own_err err_t e = msg_encode(&m, &b);
    assert_non_null(e);
    m.op_rm.agent = (struct bytes){"a\0b", 3};
    own_err err_t e2 = msg_encode(&m, &b);
    assert_non_null(e2);
    m.op_rm.agent = bytes_of("\xff");
    own_err err_t e3 = msg_encode(&m, &b);
    assert_non_null(e3);
    assert_int_equal(b.len, 0);
}

/* Every message with some value in each field. */
static void sample(enum msg_type t, struct msg *m) {
    static const struct bytes items[] = {{"one", 3}, {"", 0}};
    *m = (struct msg){.type = t};
    char *at = (char *)&m->part_hello;
    for (size_t i = 0; i < msg_rows[t].nfields; i++) {
        const struct field_row *f = &msg_rows[t].fields[i];
        if (f->type == F_U64 || f->type == F_I64) {
            *(uint64_t *)(void *)at = 1000 + i;
            at += 8;
        } else if (f->type == F_LIST) {
            *(struct list *)(void *)at = (struct list){items, 2};
            at += sizeof(struct list);
        } else {
            *(struct bytes *)(void *)at = (struct bytes){"value", 5};
            at += sizeof(struct bytes);
        }
    }
}

static void every_message_cut_and_grown(void **state) {
    (void)state;
    for (int t = MSG_none + 1; t < MSG_COUNT; t++) {
        struct msg m;
        sample(t, &m);
        own_buf struct buf b = {0};
        assert_null(msg_encode(&m, &b));
        unsigned flags;
        for (size_t n = 0; n < b.len; n++) {
            struct msg got = {0};
            own_err err_t e = msg_decode(b.p, n, &got, &flags);
            assert_non_null(e);
        }
        buf_add(&b, "x", 1);
        struct msg got = {0};
        own_err err_t e = msg_decode(b.p, b.len, &got, &flags);
        assert_non_null(e);
    }
}

static void every_byte_turned(void **state) {
    (void)state;
    static const unsigned char turns[] = {0x01, 0x80, 0xff};
    for (int t = MSG_none + 1; t < MSG_COUNT; t++) {
        struct msg m;
        sample(t, &m);
        own_buf struct buf b = {0};
        assert_null(msg_encode(&m, &b));
        for (size_t i = 0; i < b.len; i++)
            for (size_t k = 0; k < COUNT(turns); k++) {
                b.p[i] ^= (char)turns[k];
                own_msg struct msg got = {0};
                unsigned flags;
                own_err err_t e = msg_decode(b.p, b.len, &got, &flags);
                if (!e) { /* whatever was accepted encodes again to the same bytes */
                    own_buf struct buf again = {0};
                    assert_null(msg_encode(&got, &again));
                    if (!flags) {
                        assert_int_equal(again.len, b.len);
                        assert_memory_equal(again.p, b.p, b.len);
                    }
                }
                b.p[i] ^= (char)turns[k];
            }
    }
}

static void permits(void **state) {
    (void)state;
    /* Every message on every link, in both directions, at every moment: allowed exactly where its row says.
     */
    for (int t = MSG_none + 1; t < MSG_COUNT; t++)
        for (int l = 0; l < LINK_COUNT; l++)
            for (int w = DOWN; w <= UP; w++)
                for (int at = NEW; at < SAME; at++) {
                    const struct msg_row *r = &msg_rows[t];
                    bool want = r->link == (enum link_id)l && r->way == (enum link_way)w && (r->at & AT(at));
                    assert_int_equal(msg_permitted(t, l, w, at), want);
                }
    assert_true(msg_permitted(MSG_shim_run, LINK_shim_executor, DOWN, NEW));
    assert_false(msg_permitted(MSG_shim_run, LINK_shim_executor, DOWN, BUSY));
    assert_false(msg_permitted(MSG_ask_order, LINK_relay_manager, DOWN, OPEN));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(round_trip),
        cmocka_unit_test(bounds),
        cmocka_unit_test(every_message_cut_and_grown),
        cmocka_unit_test(every_byte_turned),
        cmocka_unit_test(permits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
