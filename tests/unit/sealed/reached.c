/* Whom hostile code turned to: rooms added up, kept and read again, said; and a session that adds up those of its rooms. */
#include "sealed/reached.h"
#include "sealed/session.h"

#include "base/fs.h"
#include "base/own.h"
#include "../scratch.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

static struct nft_reached one(const char *proto, const char *address, unsigned port, uint64_t packets) {
    struct nft_reached r = {.port = port, .packets = packets};
    snprintf(r.proto, sizeof r.proto, "%s", proto);
    snprintf(r.address, sizeof r.address, "%s", address);
    return r;
}

static struct reached of(const struct nft_reached *to, size_t n) {
    struct reached r = {.sent = 2, .sent_bytes = 2048, .came = 1, .came_bytes = 60, .nto = n};
    r.to = calloc(n + 1, sizeof *to);
    memcpy(r.to, to, n * sizeof *to);
    return r;
}

static void says(const struct reached *r, size_t shown, const char *want) {
    own_buf struct buf out = {0};
    reached_say(r, shown, &out);
    assert_string_equal(buf_text(&out), want);
}

static void rooms_add_up(void **state) {
    (void)state;
    const struct nft_reached first[] = {one("tcp", "1.1.1.1", 443, 5), one("udp", "1.1.1.1", 53, 2)},
                             second[] = {one("udp", "1.1.1.1", 53, 9), one("tcp", "2606:4700::1", 443, 1),
                                         one("tcp", "1.1.1.1", 80, 1)};
    own_reached struct reached all = {0}, a = of(first, 2), b = of(second, 3);
    says(&all, 8, "  network   nothing went out\n");
    b.refused = 7;
    reached_add(&all, &a);
    reached_add(&all, &b);
    says(&all, 3,
         "  network   sent 4 packets (4.0 KiB) to the internet, 2 came back (120 B); 7 packets to local "
         "addresses "
         "were refused\n"
         "            udp 1.1.1.1:53, 11 times\n"
         "            tcp 1.1.1.1:443, 5 times\n"
         "            tcp 1.1.1.1:80, 1 time\n"
         "            and 1 more\n");
}

static void no_more_than_the_bound(void **state) {
    (void)state;
    own_reached struct reached all = {0};
    for (unsigned round = 0; round < 3; round++) {
        own_reached struct reached r = {.to = calloc(REACHED_MAX, sizeof *r.to), .nto = REACHED_MAX};
        for (unsigned i = 0; i < REACHED_MAX; i++)
            r.to[i] = one("tcp", "1.1.1.1", round * REACHED_MAX + i, round + 1);
        reached_add(&all, &r);
    }
    assert_int_equal(all.nto, REACHED_MAX);
    assert_int_equal(all.to[REACHED_MAX - 1].packets, 3); /* the most used stay */
}

static void kept_and_read_again(void **state) {
    (void)state;
    const struct nft_reached to[] = {one("tcp", "2606:4700:4700::1111", 443, UINT64_MAX),
                                     one("udp", "9.9.9.9", 53, 1)};
    own_reached struct reached a = of(to, 2), b = {0};
    a.gaps = true;
    assert_null(reached_keep(&a, "kept"));
    assert_null(reached_recall("kept", &b));
    assert_true(b.gaps && b.sent == a.sent && b.came_bytes == a.came_bytes);
    assert_int_equal(b.nto, 2);
    assert_memory_equal(b.to, to, sizeof to);
    own_reached struct reached none = {0};
    own_err err_t missing = reached_recall("nothing", &none);
    assert_int_equal(missing->status, EXIT_NOTFOUND);
    for (const char *const *bad =
             (const char *const[]){"", "1 2 3 4 5 6", "1 2 3 4 5 6 0\ntcp 1.1.1.1\n", NULL};
         *bad; bad++) {
        assert_null(fs_write("bad", *bad, strlen(*bad), geteuid(), getegid(), 0600));
        own_err err_t e = reached_recall("bad", &none);
        assert_non_null(e);
        assert_int_equal(e->status, EXIT_FAILED);
    }
}

/* What is not known is not passed off as nothing. */
static void a_gap_is_said(void **state) {
    (void)state;
    own_reached struct reached r = {.gaps = true};
    says(&r, 8,
         "  network   nothing that was seen went out\n"
         "            and what a room of it reached that ended while nobody watched is not known\n");
}

static void a_session_adds_up_its_rooms(void **state) {
    (void)state;
    AS_ROOT(); /* its folder is root's */
    const struct nft_reached to[] = {one("tcp", "1.1.1.1", 443, 5)};
    own_reached struct reached r = of(to, 1), all = {0};
    own_free char *dir = xasprintf("%s/session", scratch_dir), *before = xasprintf("%s/before", dir),
                  *file = xasprintf("%s/reached", dir);
    assert_null(sealed_session_reached(dir, &r)); /* none is open */
    assert_int_not_equal(access(dir, F_OK), 0);
    assert_null(fs_dir(dir, 0, 0, 0711));
    assert_null(fs_write(before, "", 0, 0, 0, 0600));
    assert_null(sealed_session_reached(dir, &r));
    assert_null(sealed_session_reached(dir, &r));
    assert_null(reached_recall(file, &all));
    assert_int_equal(all.sent, 4);
    assert_int_equal(all.to[0].packets, 10);
}

static char *under(const char *dir, const char *name) {
    return xasprintf("%s/%s", dir, name);
}

/* A folder of a session whose end was said, and whose removal was cut short: "before" went, the rest did not. */
static void a_session_has_nothing_of_a_former(void **state) {
    (void)state;
    AS_ROOT();
    const struct nft_reached to[] = {one("tcp", "1.1.1.1", 443, 5)};
    own_reached struct reached r = of(to, 1), all = {0};
    own_free char *dir = under(scratch_dir, "session"), *reached = under(dir, "reached"),
                  *inbox = under(dir, "inbox"), *sent = under(inbox, "secret"),
                  *ground = under(scratch_dir, "project"), *home = under(scratch_dir, "home");
    const char *folders[] = {dir, inbox, ground, home};
    for (size_t i = 0; i < COUNT(folders); i++)
        assert_null(fs_dir(folders[i], 0, 0, 0711));
    assert_null(reached_keep(&r, reached));
    assert_null(fs_write(sent, "x", 1, 0, 0, 0600));
    own_fd int fd = open(ground, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const struct sealed_session s = {.dir = dir, .agent = "a", .home = home};
    const struct project p = {.fd = fd};
    struct outbox_place box;
    assert_null(sealed_session_begin(&s, &p, &box));
    outbox_place_close(&box);
    assert_int_equal(access(inbox, F_OK), 0);
    assert_int_not_equal(access(sent, F_OK), 0);
    own_err err_t none = reached_recall(reached, &all);
    assert_int_equal(none->status, EXIT_NOTFOUND);
}

/* In the worker that ends it, not by the warden, which all agents wait for. */
static void the_in_tray_goes_with_the_end(void **state) {
    (void)state;
    AS_ROOT();
    own_free char *dir = under(scratch_dir, "session"), *inbox = under(dir, "inbox"),
                  *sent = under(inbox, "secret");
    assert_null(fs_dir(dir, 0, 0, 0711));
    assert_null(fs_dir(inbox, 0, 0, 0700));
    assert_null(fs_write(sent, "x", 1, 0, 0, 0600));
    own_buf struct buf said = {0};
    assert_null(sealed_session_end(dir, "/nowhere", scratch_dir, &said));
    assert_int_not_equal(access(inbox, F_OK), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rooms_add_up),
        cmocka_unit_test(no_more_than_the_bound),
        cmocka_unit_test_setup_teardown(kept_and_read_again, scratch_up, scratch_down),
        cmocka_unit_test(a_gap_is_said),
        cmocka_unit_test_setup_teardown(a_session_adds_up_its_rooms, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(a_session_has_nothing_of_a_former, scratch_up, scratch_down),
        cmocka_unit_test_setup_teardown(the_in_tray_goes_with_the_end, scratch_up, scratch_down),
    };
    return cmocka_run_group_tests_name("sealed/reached", tests, NULL, NULL);
}
