/* A link under load: order, bounds, back-pressure, descriptors, and ends in every place where one can come. */
#include "base/clock.h"
#include "base/own.h"
#include "wire/link.h"
#include "wire/seq.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

struct end {
    struct link *link;
    int got, ended, refused, room;
    uint64_t next;                    /* value that the next op_ping must carry */
    bool free_in_handler, hold_after; /* what the handler does */
};

static struct event_base *base;
static struct end a, b; /* a commands: operator → warden, or relay → manager */
static int spare;

static int count_fds(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static void on_row(void *ctx, struct link *l, struct msg *m) {
    struct end *e = ctx;
    e->got++;
    if (m->type == MSG_op_ping)
        assert_int_equal(m->op_ping.cookie, e->next++);
    if (e->free_in_handler)
        link_free(l);
    else if (e->hold_after)
        link_hold(l, true);
}

static void on_end(void *ctx, struct link *l, err_t why) {
    struct end *e = ctx;
    e->ended++;
    e->refused += why != NULL;
    e->link = NULL;
    link_free(l);
}

static void on_room(void *ctx, struct link *l) {
    (void)l;
    ((struct end *)ctx)->room++;
}

static link_fn *on[MSG_COUNT];
static const struct link_ops ops = {.on = on, .on_end = on_end, .on_room = on_room};

static void join(enum link_id id) {
    int pair[2];
    assert_null(seq_pair(pair));
    a.link = link_new(base, pair[0], id, true, &ops, &a);
    b.link = link_new(base, pair[1], id, false, &ops, &b);
}

static void turn(int times) {
    for (int i = 0; i < times; i++)
        event_base_loop(base, EVLOOP_NONBLOCK);
}

static int set_up(void **state) {
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    for (int i = 0; i < MSG_COUNT; i++)
        on[i] = on_row;
    base = event_base_new();
    a = b = (struct end){0};
    spare = open("/dev/null", O_RDWR | O_CLOEXEC);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    link_free(a.link);
    link_free(b.link);
    event_base_free(base);
    close(spare);
    return 0;
}

static err_t ping(uint64_t n) {
    struct msg m = {.type = MSG_op_ping};
    m.op_ping.cookie = n;
    return link_send(a.link, &m);
}

static err_t hello(void) {
    struct msg m = {.type = MSG_op_hello};
    return link_send(a.link, &m);
}

static err_t exec_with(const char *text, size_t n) {
    struct bytes argv[] = {{text, n}};
    struct msg m = {.type = MSG_fleet_exec, .fds = {spare, spare, spare}, .nfds = 3};
    m.fleet_exec.argv = (struct list){argv, 1};
    return link_send(a.link, &m);
}

static void order_is_kept(void **state) {
    (void)state;
    join(LINK_operator_warden);
    assert_null(hello());
    for (uint64_t i = 0; i < 5000; i++)
        assert_null(ping(i));
    turn(200);
    assert_int_equal(b.got, 5001);
    assert_int_equal(b.ended, 0);
}

static void thousand_messages_leave_no_descriptor(void **state) {
    (void)state;
    join(LINK_relay_manager);
    own_free char *big = xmalloc(2 * MSG_INLINE_MAX);
    memset(big, 'x', 2 * MSG_INLINE_MAX);
    turn(1);
    int before = count_fds();
    for (int i = 0; i < 1000; i++) {
        assert_null(exec_with(big, i % 10 ? 10 : 2 * MSG_INLINE_MAX)); /* some in a memfd */
        turn(2);
    }
    turn(2);
    assert_int_equal(b.got, 1000);
    assert_int_equal(count_fds(), before);
}

static void what_was_not_sent_is_closed(void **state) {
    (void)state;
    int before = count_fds();
    join(LINK_relay_manager);
    for (int i = 0; i < 200; i++)
        assert_null(exec_with("x", 1));
    link_free(a.link);
    link_free(b.link);
    a.link = b.link = NULL;
    turn(2); /* opens nothing, but what is in the sockets goes with them */
    assert_int_equal(count_fds(), before);
}

static void full_then_room_then_end(void **state) {
    (void)state;
    join(LINK_relay_manager);
    own_free char *big = xmalloc(1 << 20);
    memset(big, 'x', 1 << 20);
    link_hold(b.link, true);
    int sent = 0;
    while (!link_full(a.link)) {
        assert_null(exec_with(big, 1 << 20));
        assert_true(++sent < 400);
        turn(1);
    }
    assert_int_equal(a.room, 0);
    link_hold(b.link, false);
    turn(50);
    assert_int_equal(a.room, 1);
    assert_int_equal(b.got, sent);
    assert_false(link_full(a.link));

    link_hold(b.link, true); /* a sender that does not look at link_full() */
    err_t e = NULL;
    for (int i = 0; i < 2000 && !e; i++)
        e = exec_with(big, 1 << 20);
    assert_non_null(e);
    err_free(e);
    turn(2);
    assert_int_equal(a.ended, 1);
    assert_int_equal(a.refused, 1);
    link_hold(b.link, false);
    turn(50);
    assert_int_equal(b.ended, 1);
    assert_int_equal(b.refused, 0);
}

/* Small messages, many descriptors: those of the sender are bounded too. */
static void descriptors_fill_a_link(void **state) {
    (void)state;
    join(LINK_relay_manager);
    link_hold(b.link, true);
    int before = count_fds(), sent = 0;
    for (; !link_full(a.link); sent++) {
        err_t e = exec_with("x", 1);
        if (e)
            fail_msg("%s", err_text(e));
        assert_true(count_fds() - before < 70);
    }
    link_hold(b.link, false);
    turn(sent);
    assert_int_equal(b.got, sent);
    assert_int_equal(a.room, 1);

    link_hold(b.link, true); /* a sender that does not look at link_full() */
    err_t e = NULL;
    while (!(e = exec_with("x", 1)))
        assert_true(count_fds() - before < 270);
    err_free(e);
    turn(2);
    assert_int_equal(a.refused, 1);
}

/* 0: all arrived, and the loop did not spin meanwhile. */
static int flood_of_descriptors(void) {
    enum { MESSAGES = 10, FILES = 24 };
    if (geteuid() == 0 && setresuid(65533, 65533, 65533) < 0)
        return 1;
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){FILES, FILES}); /* bounds those in flight, too (unix(7)) */
    join(LINK_relay_manager);
    link_hold(b.link, true);
    for (int i = 0; i < MESSAGES; i++)
        err_free(exec_with("x", 1));
    struct pollfd p = {spare, 0, 0};
    struct timespec before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    event_base_loopexit(base, &(struct timeval){0, 300000});
    event_base_dispatch(base);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    long spent_ms = (after.tv_sec - before.tv_sec) * 1000 + (after.tv_nsec - before.tv_nsec) / 1000000;
    link_hold(b.link, false);
    for (int i = 0; i < 500 && b.got < MESSAGES; i++) {
        turn(1);
        poll(&p, 0, 2);
    }
    return b.got == MESSAGES && spent_ms < 150 ? 0 : 2;
}

/* The socket takes no more descriptors although it is writable. */
static void too_many_in_flight(void **state) {
    (void)state;
    pid_t pid = fork();
    if (pid == 0) {
        event_reinit(base);
        _exit(flood_of_descriptors());
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void hold_stops_after_this_message(void **state) {
    (void)state;
    join(LINK_operator_warden);
    b.hold_after = true;
    assert_null(hello());
    assert_null(ping(0));
    assert_null(ping(1));
    turn(5);
    assert_int_equal(b.got, 1);
    link_hold(b.link, false);
    turn(5);
    assert_int_equal(b.got, 2);
}

static void a_handler_may_free_its_link(void **state) {
    (void)state;
    join(LINK_operator_warden);
    b.free_in_handler = true;
    assert_null(hello());
    assert_null(ping(0));
    turn(3);
    b.link = NULL;
    assert_int_equal(b.got, 1);
    assert_int_equal(b.ended, 0); /* whoever frees is not told */
    assert_int_equal(a.ended, 1);
    assert_int_equal(a.refused, 0);
}

static void end_comes_once_and_from_the_loop(void **state) {
    (void)state;
    join(LINK_operator_warden);
    link_free(TAKE(b.link));
    own_err err_t first = hello(); /* EPIPE is found out in here */
    assert_int_equal(a.ended, 0);
    own_err err_t second = ping(0);
    assert_non_null(second);
    turn(5);
    assert_int_equal(a.ended, 1);
}

static void flush_sends_the_last_word(void **state) {
    (void)state;
    join(LINK_operator_warden);
    assert_null(hello());
    for (uint64_t i = 0; i < 20; i++)
        assert_null(ping(i));
    link_flush(a.link, 1000);
    link_free(TAKE(a.link));
    turn(5);
    assert_int_equal(b.got, 21);
    assert_int_equal(b.ended, 1);
    assert_int_equal(b.refused, 0);
}

/* A peer that takes a little now and then does not hold a last word for longer than it may take. */
static void flush_ends_in_time(void **state) {
    (void)state;
    static char text[90000];
    int pair[2];
    assert_null(seq_pair(pair));
    memset(text, 'x', sizeof text);
    a.link = link_new(base, pair[0], LINK_relay_manager, true, &ops, &a);
    for (int i = 0; i < 40; i++)
        assert_null(exec_with(text, sizeof text));
    pid_t slow = fork();
    while (!slow) {
        enum seq_got got;
        own_msg struct msg m = {0};
        own_err err_t e = seq_recv(pair[1], &m, &got);
        if (e || got == SEQ_END)
            _exit(0);
        poll(NULL, 0, 50);
    }
    int64_t start = clock_mono_ns();
    link_flush(a.link, 200);
    assert_in_range((clock_mono_ns() - start) / 1000000, 150, 1000);
    kill(slow, SIGKILL);
    waitpid(slow, NULL, 0);
    close(pair[1]);
}

static void unhandled_or_unsayable(void **state) {
    (void)state;
    join(LINK_operator_warden);
    own_err err_t e = ping(0); /* before the hello */
    assert_non_null(e);
    on[MSG_op_ping] = NULL;
    assert_null(hello());
    assert_null(ping(0));
    turn(3);
    assert_int_equal(b.got, 1);
    assert_int_equal(b.refused, 1);
}

int main(void) {
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(order_is_kept),
        T(thousand_messages_leave_no_descriptor),
        T(what_was_not_sent_is_closed),
        T(full_then_room_then_end),
        T(descriptors_fill_a_link),
        T(too_many_in_flight),
        T(hold_stops_after_this_message),
        T(a_handler_may_free_its_link),
        T(end_comes_once_and_from_the_loop),
        T(flush_sends_the_last_word),
        T(flush_ends_in_time),
        T(unhandled_or_unsayable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
