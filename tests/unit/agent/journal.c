/* The journal remembers through any crash: every length of a torn end, every byte turned over, a full disk. */
#include "agent/journal.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/own.h"
#include "../scratch.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static struct journal *opened(void) {
    struct journal *j = NULL;
    err_t e = journal_open(scratch, &j);
    if (e)
        fail_msg("%s", err_text(e));
    return j;
}

static const struct ending done = {OUTCOME_DONE, -7, 1234, "report\xc3\xa9", "outputs/2"};

/* 1 settled, 2 finished, 3 started. */
static struct journal *three(void) {
    struct journal *j = opened();
    assert_null(journal_start(j, 1, "anna", 111));
    assert_null(journal_finish(j, 1, &done));
    assert_null(journal_settle(j, 1));
    assert_null(journal_start(j, 2, "b", 222));
    assert_null(journal_finish(j, 2, &done));
    assert_null(journal_start(j, 3, "", 333));
    return j;
}

static void assert_three(const struct journal *j) {
    const struct entry *e = journal_find(j, 1);
    assert_int_equal(e->state, ENTRY_SETTLED);
    assert_string_equal(e->who, "anna");
    assert_int_equal(e->end.span_ms, 1234);
    e = journal_find(j, 2);
    assert_int_equal(e->state, ENTRY_FINISHED);
    assert_int_equal(e->end.outcome, OUTCOME_DONE);
    assert_int_equal(e->end.status, -7);
    assert_string_equal(e->end.text, "report\xc3\xa9");
    assert_string_equal(e->end.output, "outputs/2");
    e = journal_find(j, 3);
    assert_int_equal(e->state, ENTRY_STARTED);
    assert_int_equal(e->start_wall_ms, 333);
    assert_int_equal(journal_untold(j), 1);
    assert_null(journal_find(j, 4));
}

static void remembers(void **state) {
    (void)state;
    struct journal *j = three();
    assert_three(j);
    journal_free(j);
    for (int i = 0; i < 3; i++) {
        j = opened();
        assert_three(j);
        journal_free(j);
    }
}

static void refuses_what_cannot_be(void **state) {
    (void)state;
    struct journal *j = three();
    own_err err_t twice = journal_finish(j, 2, &done), never = journal_finish(j, 9, &done);
    assert_non_null(twice);
    assert_non_null(never);
    assert_null(journal_settle(j, 9)); /* told twice: nothing to do */
    assert_null(journal_settle(j, 1));
    struct journal *second = NULL;
    own_err err_t locked = journal_open(scratch, &second);
    assert_non_null(locked);
    journal_free(j);
}

static void whole(struct buf *b) {
    own_free char *path = xasprintf("%s/journal", scratch_dir);
    assert_null(fs_read(path, 1 << 24, b));
}

static void replace(const void *p, size_t n) {
    own_free char *path = xasprintf("%s/journal", scratch_dir);
    assert_null(fs_write(path, p, n, getuid(), getgid(), 0600));
}

/* How far the entries are from "nothing" to "three": each record that survives adds one. */
static int progress(const struct journal *j) {
    int n = 0;
    for (const struct entry *e = journal_first(j); e; e = e->next)
        n += 1 + (int)e->state;
    return n;
}

static void torn_at_every_byte(void **state) {
    (void)state;
    journal_free(three());
    own_buf struct buf b = {0};
    whole(&b);
    int last = 0;
    for (size_t n = 0; n <= b.len; n++) {
        replace(b.p, n);
        struct journal *j = opened();
        int now = progress(j);
        assert_true(now == last || now == last + 1); /* nothing later without all that was before */
        last = now;
        assert_null(journal_start(j, 100, "after", 1)); /* and what comes then is read back */
        journal_free(j);
        j = opened();
        assert_int_equal(progress(j), now + 1);
        journal_free(j);
    }
    assert_int_equal(last, 6);
}

static void every_byte_turned(void **state) {
    (void)state;
    journal_free(three());
    own_buf struct buf b = {0};
    whole(&b);
    for (size_t i = 8; i < b.len; i++) {
        b.p[i] ^= 0x20;
        replace(b.p, b.len);
        struct journal *j = opened();
        assert_in_range(progress(j), 0, 5); /* the record it is in is not believed */
        journal_free(j);
        b.p[i] ^= 0x20;
    }
}

static void another_file_is_not_touched(void **state) {
    (void)state;
    static const char other[] = "#!/bin/sh\nrm -rf\n";
    replace(other, sizeof other);
    struct journal *j = NULL;
    own_err err_t e = journal_open(scratch, &j);
    assert_non_null(e);
    own_buf struct buf b = {0};
    whole(&b);
    assert_int_equal(b.len, sizeof other);
}

static void stays_small(void **state) {
    (void)state;
    static char text[60001];
    memset(text, 't', sizeof text - 1);
    struct ending big = {OUTCOME_DONE, 0, 1, text, ""};
    struct journal *j = opened();
    own_free char *path = xasprintf("%s/journal", scratch_dir);
    for (uint64_t id = 1; id <= 300; id++) {
        assert_null(journal_start(j, id, "a", id));
        assert_null(journal_finish(j, id, &big));
        assert_null(journal_settle(j, id));
        struct stat st;
        assert_int_equal(stat(path, &st), 0);
        assert_in_range(st.st_size, 1, JOURNAL_COMPACT_OVER + 70000);
    }
    assert_null(journal_start(j, 301, "last", 5));
    journal_free(j);
    j = opened();
    assert_int_equal(journal_find(j, 301)->state, ENTRY_STARTED);
    assert_int_equal(journal_find(j, 300)->state, ENTRY_SETTLED);
    assert_null(journal_find(j, 300 - JOURNAL_SETTLED_KEPT));
    journal_free(j);
}

/* No file may grow beyond this: writes are cut short and then fail, as on a full disk. */
static void limit_files(rlim_t bytes) {
    struct rlimit r;
    getrlimit(RLIMIT_FSIZE, &r);
    r.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &r);
}

static void full_disk(void **state) {
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    journal_free(three());
    own_buf struct buf b = {0};
    whole(&b);
    for (size_t room = 0; room < 60; room++) {
        replace(b.p, b.len);
        struct journal *j = opened();
        limit_files(b.len + room);
        own_err err_t start = journal_start(j, 4, "who", 4);
        own_err err_t finish = journal_finish(j, 3, &done);
        limit_files(RLIM_INFINITY);
        assert_true((start == NULL) == (journal_find(j, 4) != NULL)); /* not durable: not begun */
        assert_non_null(finish);
        assert_int_equal(journal_find(j, 3)->state, ENTRY_FINISHED); /* known until the end of this agent */
        assert_null(journal_start(j, 5, "later", 5));
        journal_free(j);
        j = opened();
        assert_int_equal(journal_find(j, 3)->state, ENTRY_STARTED);
        assert_non_null(journal_find(j, 5));
        journal_free(j);
    }
}

static void refused_is_told_and_forgotten(void **state) {
    (void)state;
    struct journal *j = three();
    journal_refuse(j, 8, "a", 1, &(struct ending){OUTCOME_REFUSED, 125, 0, "the disk is full", ""});
    assert_int_equal(journal_find(j, 8)->state, ENTRY_FINISHED);
    assert_int_equal(journal_untold(j), 2);
    assert_null(journal_settle(j, 8));
    assert_int_equal(journal_untold(j), 1);
    journal_free(j);
    j = opened();
    assert_three(j);
    assert_null(journal_find(j, 8));
    journal_free(j);
}

#define row(f) cmocka_unit_test_setup_teardown(f, scratch_up, scratch_down)
int main(void) {
    const struct CMUnitTest tests[] = {
        row(remembers),          row(refuses_what_cannot_be),
        row(torn_at_every_byte), row(every_byte_turned),
        row(stays_small),        row(another_file_is_not_touched),
        row(full_disk),          row(refused_is_told_and_forgotten),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
