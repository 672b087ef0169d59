/* The audit log: rows once each, in one chain over restarts, cut when they are huge, batches that wait and those that are full. */
#include "manager/audit.h"
#include "memory.h"

static struct event_base *base;
static struct audit *a;
static uint64_t head;
static int kept, batches;

static void on_head(void *ctx, uint64_t seq, const uint8_t hash[AUDIT_HASH]) {
    (void)ctx, (void)hash;
    assert_true(seq > head);
    head = seq;
}

static void on_kept(void *ctx, const char *agent, uint64_t row) {
    (void)ctx, (void)row;
    assert_string_equal(agent, "demo");
    kept++;
}

static void on_batch(void *ctx, const struct err *e) {
    (void)ctx;
    assert_null(e);
    batches++;
}

static const struct audit_ops ops = {on_head, on_kept, on_batch};

static int begin(void **state) {
    memory_open(state);
    base = event_base_new();
    head = 0;
    kept = batches = 0;
    return audit_new(base, db, &ops, NULL, &a) != NULL;
}

static int end(void **state) {
    audit_free(a);
    event_base_free(base);
    return memory_close(state);
}

static void add(uint64_t number, struct list argv) {
    struct audit_row r = {.agent = bytes_of("demo"),
                          .who = bytes_of(""),
                          .argv = argv,
                          .cwd = bytes_of("/\xff"),
                          .how = bytes_of("exit"),
                          .output = bytes_of("")};
    audit_add(a, number, 0, &r);
}

struct check {
    uint8_t hash[AUDIT_HASH];
    int n;
    size_t items, bytes;
};

static bool check(void *ctx, const struct audit_row *row, struct bytes hash) {
    struct check *c = ctx;
    assert_null(audit_hash(c->hash, row, c->hash));
    assert_int_equal(hash.len, AUDIT_HASH);
    assert_memory_equal(c->hash, hash.p, AUDIT_HASH);
    c->n++;
    c->items = row->argv.n;
    c->bytes = 0;
    for (size_t i = 0; i < row->argv.n; i++)
        c->bytes += row->argv.v[i].len + 1;
    return true;
}

static struct check whole(void) {
    struct check c = {0};
    uint64_t seq = 0;
    bool more = true;
    while (more)
        assert_null(audit_after(db, bytes_of(""), 100, check, &c, &seq, &more));
    uint8_t hash[AUDIT_HASH];
    assert_int_equal(audit_head(a, hash), seq);
    assert_memory_equal(hash, c.hash, AUDIT_HASH);
    return c;
}

static const struct bytes odd[] = {{"", 0}, {"\xff\n", 2}, {"", 0}};

static void once_each_over_restarts(void **state) {
    (void)state;
    for (int life = 0; life < 3; life++) {
        add(1, (struct list){odd, 3}); /* told again in each life */
        add(10 + (uint64_t)life, (struct list){odd, 3});
        add(10 + (uint64_t)life, (struct list){odd, 3});
        audit_flush(a);
        audit_free(a);
        memory_again();
        assert_null(audit_new(base, db, &ops, NULL, &a));
    }
    struct check c = whole();
    assert_int_equal(c.n, 4);
    assert_int_equal(c.items, 3);
    assert_int_equal(kept, 9); /* also what was known is told to be kept */
    assert_int_equal(head, 4);
}

static void batches_by_number_size_and_time(void **state) {
    (void)state;
    for (uint64_t i = 0; i < AUDIT_BATCH + 1; i++)
        add(i, (struct list){odd, 1});
    assert_int_equal(batches, 1);
    assert_int_equal(kept, AUDIT_BATCH);
    event_base_dispatch(base); /* until nothing is due any more */
    assert_int_equal(batches, 2);
    static char big[60000];
    memset(big, 'x', sizeof big);
    struct bytes argv = {big, sizeof big};
    for (uint64_t i = 0; i < 2 * AUDIT_BATCH_BYTES / sizeof big; i++)
        add(1000 + i, (struct list){&argv, 1});
    assert_true(batches >= 3);
    audit_flush(a);
    whole();
}

static void huge_commands_are_cut(void **state) {
    (void)state;
    static struct bytes many[65536];
    for (size_t i = 0; i < COUNT(many); i++)
        many[i] = bytes_of("argument");
    add(1, (struct list){many, COUNT(many)});
    audit_flush(a);
    struct check c = whole();
    assert_in_range(c.bytes, AUDIT_ARGV_MAX - 100, AUDIT_ARGV_MAX + 200);
    static char huge[AUDIT_ARGV_MAX];
    memset(huge, 'x', sizeof huge);
    struct bytes one = {huge, AUDIT_ARGV_MAX - 1};
    add(2, (struct list){&one, 1});
    audit_flush(a);
    assert_int_equal(whole().bytes, AUDIT_ARGV_MAX); /* exactly what is allowed stays whole */
    one.len++;
    add(3, (struct list){&one, 1});
    audit_flush(a);
    c = whole();
    assert_int_equal(c.items, 1);
    assert_in_range(c.bytes, 1, 200);
}

static void places(void **state) {
    (void)state;
    for (uint64_t i = 0; i < 10; i++)
        add(i, (struct list){odd, 1});
    audit_flush(a);
    uint64_t seq;
    assert_null(audit_back(db, bytes_of("demo"), 3, &seq));
    assert_int_equal(seq, 7);
    assert_null(audit_back(db, bytes_of(""), 0, &seq));
    assert_int_equal(seq, 10);
    assert_null(audit_back(db, bytes_of("other"), 0, &seq));
    assert_int_equal(seq, 0);
}

static void start(uint64_t number) {
    struct audit_row r = {.agent = bytes_of("demo"),
                          .who = bytes_of(""),
                          .argv = {odd, 3},
                          .cwd = bytes_of("/"),
                          .output = bytes_of("")};
    audit_begin(a, number, 0, &r);
}

static bool count_running(void *ctx, const struct audit_row *row, struct bytes hash) {
    assert_string_equal(row->how.p, "running");
    assert_int_equal(row->seq, 0);
    assert_int_equal(hash.len, 0);
    ++*(int *)ctx;
    return true;
}

static int run_now(void) {
    int n = 0;
    assert_null(audit_running(db, bytes_of("demo"), count_running, &n));
    return n;
}

/* What began has one row: its own, or "unknown" once none will come; over a restart, and whatever is said twice. */
static void begun_rows_end_once(void **state) {
    (void)state;
    for (uint64_t i = 1; i <= 4; i++)
        start(i);
    add(1, (struct list){odd, 3}); /* within the same batch */
    audit_flush(a);
    assert_int_equal(run_now(), 3);
    audit_free(a);
    memory_again();
    assert_null(audit_new(base, db, &ops, NULL, &a));
    add(2, (struct list){odd, 3});
    start(1); /* said again by an agent that did not hear */
    assert_null(audit_end_open(a, bytes_of("other"), INT64_MAX));
    assert_null(audit_end_open(a, bytes_of("demo"), 4));
    audit_flush(a);
    assert_int_equal(run_now(), 1);
    add(3, (struct list){odd, 3}); /* too late */
    audit_flush(a);
    struct check c = whole();
    assert_int_equal(c.n, 3);
    assert_int_equal(c.items, 3);
}

int main(void) {
#undef CASE
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
    const struct CMUnitTest tests[] = {CASE(once_each_over_restarts), CASE(batches_by_number_size_and_time),
                                       CASE(huge_commands_are_cut), CASE(places), CASE(begun_rows_end_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
