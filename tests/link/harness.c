/* The real harness room with harness `shell` and a scripted agent. Here /bin/bash is bash itself. */
#include "peer.h"
#include "base/buf.h"
#include "base/fs.h"
#include "base/own.h"

#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

struct heard {
    struct buf out, err;
    uint64_t bytes;
    char outcome[17], text[1025];
    int64_t status;
};

static void heard_free(struct heard *h) {
    buf_free(&h->out);
    buf_free(&h->err);
}
#define own_heard __attribute__((cleanup(heard_free)))

static struct peer p;
static int agent = -1;
static uint64_t next_id = 1;

static int set_up(void **state) {
    (void)state;
    peer_begin(&p, "harness");
    peer_start(&p);
    agent = peer_link(&p, LINK_agent_harness);
    peer_go(&p, 1 << 20);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    own_closep(&agent);
    peer_end(&p);
    return 0;
}

static uint64_t ask(const char *text) {
    struct msg m = {.type = MSG_turn_start};
    m.turn_start.id = next_id++;
    m.turn_start.text = bytes_of(text);
    say(agent, &m);
    return m.turn_start.id;
}

static void ask_stop(uint64_t id) {
    struct msg m = {.type = MSG_turn_stop};
    m.turn_stop.id = id;
    say(agent, &m);
}

/* Reads until the turn's end. */
static void listen_to(uint64_t id, struct heard *h) {
    for (int64_t until = now_ms() + DEADLINE_MS; now_ms() < until;) {
        own_msg struct msg m = {0};
        bool gone;
        if (!hear(agent, DEADLINE_MS, &m, &gone))
            break;
        if (m.type == MSG_turn_output) {
            assert_int_equal(m.turn_output.id, id);
            assert_in_range(m.turn_output.stream, 1, 2);
            struct buf *b = m.turn_output.stream == 1 ? &h->out : &h->err;
            h->bytes += m.turn_output.data.len;
            if (b->len < 1 << 20)
                buf_add(b, m.turn_output.data.p, m.turn_output.data.len);
            until = now_ms() + DEADLINE_MS;
        } else if (m.type == MSG_turn_end) {
            assert_int_equal(m.turn_end.id, id);
            snprintf(h->outcome, sizeof h->outcome, "%s", m.turn_end.outcome.p);
            snprintf(h->text, sizeof h->text, "%s", m.turn_end.text.p);
            h->status = m.turn_end.status;
            return;
        }
    }
    fail_msg("the turn did not end");
}

static void run(const char *text, struct heard *h) {
    listen_to(ask(text), h);
}

static void streams_apart_and_status(void **state) {
    (void)state;
    own_heard struct heard h = {0};
    run("echo out; echo err >&2; exit 7", &h);
    assert_string_equal(buf_text(&h.out), "out\n");
    assert_string_equal(buf_text(&h.err), "err\n");
    assert_string_equal(h.outcome, "done");
    assert_int_equal(h.status, 7);
}

static void odd_texts(void **state) {
    (void)state;
    static const struct {
        const char *text, *out;
        int status;
    } rows[] = {
        {"", "", 0},
        {"-x", "", 127}, /* a command of that name, not an option */
        {"+x; echo $?", "127\n", 0},
        {"echo '$(id)' \"a  b\"\necho c", "$(id) a  b\nc\n", 0},
        {"kill -9 $$", "", 137},
        {"kill -TERM $$", "", 143},
        {"echo \xc3\xa9 $0", "\xc3\xa9 bash\n", 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        own_heard struct heard h = {0};
        run(rows[i].text, &h);
        assert_string_equal(buf_text(&h.out), rows[i].out);
        assert_int_equal(h.status, rows[i].status);
    }
}

static void world_of_a_command(void **state) {
    (void)state;
    own_heard struct heard h = {0};
    run("pwd -P; readlink /proc/self/fd/0; echo $(ls /proc/self/fd | wc -l); env -u _ -u SHLVL -u PWD -u "
        "OLDPWD | sort | cut -d= -f1 | "
        "tr '\\n' ' '; cat; ps -o sid= -p $$ | grep -q $$ && echo leader; trap -p",
        &h);
    /* ls has its folder open as 3 */
    own_free char *want = xasprintf("%s/project\n/dev/null\n4\nHOME LANG PATH SHELL TMPDIR leader\n", p.dir);
    assert_string_equal(buf_text(&h.out), want);
}

static void binary_output_is_exact(void **state) {
    (void)state;
    own_heard struct heard h = {0};
    run("printf 'a\\0b\\377\\376\\355\\240\\200'", &h);
    assert_int_equal(h.out.len, 8);
    assert_memory_equal(h.out.p, "a\0b\xff\xfe\xed\xa0\x80", 8);
}

static void ends_although_a_survivor_holds_the_pipe(void **state) {
    (void)state;
    own_heard struct heard h = {0};
    int64_t before = now_ms();
    run("sleep 20 & echo $!", &h);
    assert_in_range(now_ms() - before, 0, 5000);
    kill((pid_t)strtol(buf_text(&h.out), NULL, 10), SIGKILL);
    own_heard struct heard loud = {0};
    run("(while :; do echo xxxxxxxxxxxxxxxx; done) & echo $! >&2", &loud);
    assert_in_range(now_ms() - before, 0, 5000);
    own_heard struct heard after = {0};
    run("echo next", &after);
    assert_string_equal(buf_text(&after.out), "next\n");
    kill((pid_t)strtol(buf_text(&loud.err), NULL, 10), SIGKILL);
}

static void survivor_goes_on_writing(void **state) {
    (void)state;
    own_heard struct heard h = {0};
    run("(sleep 0.3; echo late && echo late && touch written) & :", &h);
    own_free char *path = xasprintf("%s/project/written", p.dir);
    for (int64_t until = now_ms() + DEADLINE_MS; access(path, F_OK) < 0;) {
        assert_true(now_ms() < until);
        poll(NULL, 0, 10);
    }
}

static void stop_ends_what_ignores_it(void **state) {
    (void)state;
    own_heard struct heard h = {0};
    uint64_t id = ask("trap '' TERM; echo ready; while :; do sleep 60; done");
    own_msg struct msg m = {0};
    expect(agent, MSG_turn_output, &m);
    int64_t before = now_ms();
    ask_stop(id + 1); /* not this one: nothing happens */
    ask_stop(id);
    listen_to(id, &h);
    assert_in_range(now_ms() - before, 0, 2000);
    assert_int_equal(h.status, 137);
    ask_stop(id); /* late: fine */
    own_heard struct heard after = {0};
    run("echo next", &after);
    assert_string_equal(buf_text(&after.out), "next\n");
}

static void lost_agent_ends_the_turn(void **state) {
    (void)state;
    ask("echo $$; trap '' TERM; while :; do sleep 60; done");
    own_msg struct msg m = {0};
    expect(agent, MSG_turn_output, &m);
    pid_t bash = (pid_t)strtol(m.turn_output.data.p, NULL, 10);
    own_closep(&agent);
    own_msg struct msg lost = {0};
    expect(p.control, MSG_part_lost, &lost);
    agent = peer_link(&p, LINK_agent_harness);
    own_heard struct heard h = {0};
    run("echo again", &h); /* waits until the old one is dead */
    assert_string_equal(buf_text(&h.out), "again\n");
    assert_int_equal(kill(bash, 0), -1);
}

static void replaced_link_too(void **state) {
    (void)state;
    ask("sleep 60");
    int old = agent;
    agent = peer_link(&p, LINK_agent_harness);
    own_heard struct heard h = {0};
    run("echo again", &h);
    assert_string_equal(buf_text(&h.out), "again\n");
    close(old);
}

static void much_output_little_memory(void **state) {
    (void)state;
    own_heard struct heard h = {0};
    uint64_t id = ask("head -c 1073741824 /dev/zero"); /* one line, 1 GiB */
    poll(NULL, 0, 1000);                               /* nobody reads: it must wait, not hoard */
    listen_to(id, &h);
    assert_int_equal(h.bytes, UINT64_C(1) << 30);
    assert_in_range(peer_peak_kb(&p), 1, 48 * 1024);
}

static void no_project_is_refused(void **state) {
    (void)state;
    own_free char *from = xasprintf("%s/project", p.dir), *to = xasprintf("%s/moved", p.dir);
    assert_int_equal(rename(from, to), 0);
    own_heard struct heard h = {0};
    run("touch ran", &h);
    assert_string_equal(h.outcome, "refused");
    assert_non_null(strstr(h.text, "/project: No such file"));
    assert_int_equal(rename(to, from), 0);
    own_heard struct heard after = {0};
    run("ls", &after);
    assert_string_equal(buf_text(&after.out), "");
}

static size_t children(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    own_buf struct buf b = {0};
    assert_null(fs_read(path, 1 << 20, &b));
    size_t n = 0;
    for (size_t i = 0; i < b.len; i++)
        n += b.p[i] == ' ';
    return n;
}

static size_t descriptors(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *d = opendir(path);
    size_t n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

static void leaves_no_process_and_no_descriptor(void **state) {
    (void)state;
    size_t before = 0;
    for (int i = 0; i < 200; i++) {
        own_heard struct heard h = {0};
        run("(true &); true & exit 0", &h);
        if (i == 10)
            before = descriptors(p.pid);
    }
    for (int64_t until = now_ms() + DEADLINE_MS; children(p.pid) || descriptors(p.pid) > before;) {
        assert_true(now_ms() < until);
        poll(NULL, 0, 10);
    }
}

static void cannot_be_read_by_its_own_uid(void **state) {
    (void)state;
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/environ", (int)p.pid);
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_uid, 0); /* PR_SET_DUMPABLE 0: proc(5) */
}

static void before_go_nothing_runs(void **state) {
    (void)state;
    struct peer q;
    peer_begin(&q, "harness");
    peer_start(&q);
    int mine = agent;
    agent = peer_link(&q, LINK_agent_harness);
    uint64_t id = ask("echo hi");
    expect_none(agent, MSG_turn_end, 200);
    peer_go(&q, 1);
    own_heard struct heard h = {0};
    listen_to(id, &h);
    assert_string_equal(buf_text(&h.out), "hi\n");
    close(agent);
    agent = mine;
    peer_end(&q);
}

#define row(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
int main(int argc, char **argv) {
    peer_binary = argc > 1 ? argv[1] : "build/agent-cage";
    const struct CMUnitTest tests[] = {
        row(streams_apart_and_status),
        row(odd_texts),
        row(world_of_a_command),
        row(binary_output_is_exact),
        row(ends_although_a_survivor_holds_the_pipe),
        row(survivor_goes_on_writing),
        row(stop_ends_what_ignores_it),
        row(lost_agent_ends_the_turn),
        row(replaced_link_too),
        row(much_output_little_memory),
        row(no_project_is_refused),
        row(leaves_no_process_and_no_descriptor),
        row(cannot_be_read_by_its_own_uid),
        row(before_go_nothing_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
