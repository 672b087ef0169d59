/* Messages: taken once, ended once; events with them, pruned. */
#include "manager/queue.h"
#include "manager/events.h"
#include "memory.h"

static uint64_t say(const char *key, const char *text) {
    struct queue_say q = {bytes_of(key), bytes_of("demo"), bytes_of("me"), bytes_of(text)};
    uint64_t id;
    bool is_new;
    assert_null(queue_say(db, &q, &id, &is_new));
    return id;
}

static bool end(uint64_t id, const char *agent, const char *outcome) {
    struct queue_end q = {.id = id,
                          .agent = bytes_of(agent),
                          .outcome = bytes_of(outcome),
                          .text = bytes_of("r"),
                          .output = bytes_of("")};
    bool is_new;
    assert_null(queue_finished(db, &q, &is_new));
    return is_new;
}

static void none(void *ctx, uint64_t id, struct bytes who, struct bytes text) {
    (void)ctx, (void)id, (void)who, (void)text;
}

static uint64_t next(uint64_t after) {
    uint64_t id;
    assert_null(queue_next(db, bytes_of("demo"), after, none, NULL, &id));
    return id;
}

struct seen {
    char kinds[256];
    int n, most;
};

static bool see(void *ctx, const struct event *e) {
    struct seen *s = ctx;
    if (s->n == s->most)
        return false;
    s->n++;
    size_t at = strlen(s->kinds);
    if (at + e->kind.len + 2 < sizeof s->kinds)
        snprintf(s->kinds + at, sizeof s->kinds - at, "%.*s ", (int)e->kind.len, e->kind.p);
    return true;
}

static void kinds(const char *want) {
    struct seen s = {.most = 1000000};
    uint64_t seq = 0;
    bool more;
    assert_null(events_after(db, bytes_of("demo"), 1000, see, &s, &seq, &more));
    assert_string_equal(s.kinds, want);
    assert_false(more);
}

static void a_life(void **state) {
    (void)state;
    uint64_t id = say("k", "hello");
    assert_int_equal(next(0), id);
    bool event;
    assert_null(queue_started(db, id, bytes_of("demo"), 5, &event));
    assert_true(event);
    assert_null(queue_started(db, id, bytes_of("demo"), 6, &event));
    assert_false(event);
    assert_int_equal(next(0), id); /* still to be delivered: the agent's journal decides */
    assert_false(end(id, "other", "done"));
    assert_true(end(id, "demo", "done"));
    assert_false(end(id, "demo", "unknown"));
    assert_null(queue_started(db, id, bytes_of("demo"), 7, &event));
    assert_false(event);
    assert_int_equal(next(0), 0);
    kinds("queued started report ");
}

static void ends_without_a_start(void **state) {
    (void)state;
    uint64_t a = say("a", "x"), b = say("b", "x");
    assert_true(end(a, "demo", "refused"));
    assert_int_equal(next(0), b);
    assert_true(end(b, "demo", "unknown"));
    kinds("queued queued refused unknown ");
    struct queue_end q = {.id = b, .agent = bytes_of("demo"), .outcome = bytes_of("perhaps")};
    bool is_new;
    own_err err_t e = queue_finished(db, &q, &is_new);
    assert_int_equal(e->status, EXIT_USAGE);
}

/* The id of a message that was pruned is not given to another: the agent's journal may still hold it. */
static void ids_are_not_used_again(void **state) {
    (void)state;
    uint64_t last = 0;
    for (int i = 0; i < QUEUE_KEEP + 5; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        uint64_t id = say(key, "x");
        assert_true(id > last);
        last = id;
        assert_true(end(id, "demo", "done"));
    }
    memory_again();
    assert_true(say("0", "an old key whose message was let go") > last);
}

static void abandoned(void **state) {
    (void)state;
    say("a", "x");
    say("b", "x");
    assert_null(queue_abandon(db, bytes_of("demo")));
    assert_int_equal(next(0), 0);
    kinds("queued queued unknown unknown ");
}

static uint64_t kept_events(uint64_t *ret_bytes) {
    bool row;
    assert_null(db_first(db, Q_kept, DB_VALUES(db_t(bytes_of("events")), db_t(bytes_of("demo"))), &row));
    uint64_t n = db_col_u(db, Q_kept, 0);
    *ret_bytes = db_col_u(db, Q_kept, 1);
    db_done(db, Q_kept);
    return n;
}

static void events_are_bounded(void **state) {
    (void)state;
    static char text[60000];
    memset(text, 'x', sizeof text - 1);
    struct event e = {
        .agent = bytes_of("demo"), .kind = bytes_of("note"), .who = bytes_of(""), .text = bytes_of("")};
    struct event other = {
        .agent = bytes_of("other"), .kind = bytes_of("note"), .who = bytes_of(""), .text = bytes_of("")};
    assert_null(events_note(db, &other));
    assert_null(db_begin(db, QUICK));
    for (int i = 0; i < EVENTS_KEEP + 500; i++)
        assert_null(events_add(db, &e, NULL));
    uint64_t bytes, n = kept_events(&bytes);
    assert_in_range(n, EVENTS_KEEP - 500, EVENTS_KEEP);
    e.text = bytes_of(text);
    for (int i = 0; i < EVENTS_KEEP_BYTES / 60000 + 100; i++)
        assert_null(events_add(db, &e, NULL));
    kept_events(&bytes);
    assert_in_range(bytes, EVENTS_KEEP_BYTES / 2, EVENTS_KEEP_BYTES);
    assert_null(db_end(db, NULL));
    uint64_t seq;
    assert_null(events_back(db, bytes_of("other"), 0, 0, &seq));
    assert_int_equal(seq, 1); /* nobody else's are pruned for it */
}

static void pages(void **state) {
    (void)state;
    for (int i = 0; i < 10; i++) {
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        say(key, "x");
    }
    struct seen s = {.most = 1000};
    uint64_t seq = 0;
    bool more;
    assert_null(events_after(db, bytes_of(""), 4, see, &s, &seq, &more));
    assert_int_equal(seq, 4);
    assert_true(more);
    s = (struct seen){.most = 2}; /* the link is full after two */
    assert_null(events_after(db, bytes_of(""), 4, see, &s, &seq, &more));
    assert_int_equal(seq, 6);
    assert_true(more);
    assert_null(events_back(db, bytes_of("demo"), 0, 3, &seq));
    assert_int_equal(seq, 7);
    assert_null(events_back(db, bytes_of("demo"), 0, 300, &seq));
    assert_int_equal(seq, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        CASE(a_life),    CASE(ends_without_a_start), CASE(ids_are_not_used_again),
        CASE(abandoned), CASE(events_are_bounded),   CASE(pages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
