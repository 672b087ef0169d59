/* /sh: one command as the agent's executor, its output caught here, head and tail of it shown. */
#include "base/clock.h"
#include "base/own.h"
#include "cli/chat/chat.h"
#include "cli/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { HALF = SHOW_MOST / 2, ONCE = 1 << 20 };

struct shell {
    uint64_t cookie;
    int fd;     /* what the command writes */
    bool asked; /* an interrupt was sent: the next one kills */
    int64_t start_ms;
    uint64_t total;
    struct buf head, tail; /* at most HALF, at most 2 * HALF */
};

int shell_fd(const struct shell *s) {
    return s->fd;
}

static void keep(struct shell *s, const char *p, size_t n) {
    s->total += n;
    size_t room = HALF - s->head.len, first = n < room ? n : room;
    buf_add(&s->head, p, first);
    buf_add(&s->tail, p + first, n - first);
    if (s->tail.len > 2 * HALF)
        buf_drop(&s->tail, s->tail.len - HALF);
}

/* Reads what is there, at most `most` bytes. */
static void take(struct shell *s, size_t most) {
    char chunk[65536];
    while (s->fd >= 0 && most) {
        ssize_t n = read(s->fd, chunk, most < sizeof chunk ? most : sizeof chunk);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0) {
            own_closep(&s->fd);
            return;
        }
        keep(s, chunk, (size_t)n);
        most -= (size_t)n;
    }
}

void shell_heard(struct chat *c) {
    take(c->shell, sizeof(char[65536]));
}

void shell_end(struct chat *c) {
    struct shell *s = TAKE(c->shell);
    if (!s)
        return;
    own_closep(&s->fd);
    buf_free(&s->head);
    buf_free(&s->tail);
    free(s);
}

static void show(struct chat *c, struct shell *s, const struct msg_relay_exec_end *e) {
    take(s, ONCE); /* a pipe holds no more; a process that was left behind may write for ever */
    own_buf struct buf out = {0};
    if (s->tail.len > HALF)
        buf_drop(&s->tail, s->tail.len - HALF);
    uint64_t left_out = s->total - s->head.len - s->tail.len;
    if (!left_out) {
        buf_add(&s->head, s->tail.p, s->tail.len);
        buf_clear(&s->tail);
    }
    render_text(&out, s->head.p, s->head.len, 0);
    if (left_out)
        buf_printf(&out, "… %llu bytes left out …\n", (unsigned long long)left_out);
    render_text(&out, s->tail.p, s->tail.len, 0);
    char span[CLOCK_SPAN_MAX], foot[96];
    clock_span(span, clock_mono_ns() / 1000000 - s->start_ms);
    int status = exec_status(e);
    snprintf(foot, sizeof foot, "◷ %s · %s %lld", span, strcmp(e->how.p, "signal") ? "exit" : "signal",
             strcmp(e->how.p, "signal") ? (long long)status : (long long)e->status);
    render_in(&c->render, &out, status ? "31" : "2", foot);
    buf_adds(&out, "\n");
    chat_show(c, buf_text(&out));
    if (e->text.len)
        chat_tell(c, "▪ %s", e->text.p);
}

static void on_answer(struct chat *c, const char *data, const struct msg *m) {
    (void)data;
    if (m->type == MSG_relay_exec_end && c->shell)
        show(c, c->shell, &m->relay_exec_end);
    if (m->type == MSG_relay_exec_end || chat_failed(c, m) || m->type == MSG_relay_end)
        shell_end(c);
}

static void run(struct chat *c, const char *agent, const char *text, int null, int out) {
    struct bytes argv[] = {bytes_of("/bin/bash"), bytes_of("-c"), bytes_of(text)};
    struct bytes env[] = {bytes_of("TERM=dumb")};
    struct msg m = {.type = MSG_front_exec, .fds = {null, out, out}, .nfds = 3};
    m.front_exec.agent = bytes_of(agent);
    m.front_exec.cwd = bytes_of("");
    m.front_exec.argv = (struct list){argv, COUNT(argv)};
    m.front_exec.env = (struct list){env, COUNT(env)};
    chat_ask(c, &m, on_answer, NULL);
    if (c->shell)
        c->shell->cookie = c->client.last_cookie;
}

void chat_do_sh(struct chat *c, const char *agent, const char *rest) {
    if (!*rest || c->shell) {
        chat_tell(c, "▪ %s",
                  c->shell ? "one command at a time; Ctrl-C ends the one that runs" : "/sh wants a command");
        return;
    }
    int ends[2];
    own_fd int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || pipe2(ends, O_CLOEXEC) < 0) {
        own_err err_t e = err_sys(errno, "pipe");
        chat_tell(c, "▪ %s", err_text(e));
        return;
    }
    own_fd int out = ends[1];
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    struct shell *s = xcalloc(1, sizeof *s);
    *s = (struct shell){.fd = ends[0], .start_ms = clock_mono_ns() / 1000000};
    if (c->client.fd < 0) {
        own_closep(&s->fd);
        free(s);
        chat_tell(c, "▪ the fleet is away");
        return;
    }
    c->shell = s;
    run(c, agent, rest, null, out);
}

void shell_interrupt(struct chat *c) {
    struct msg m = {.type = MSG_front_signal};
    m.front_signal.cookie = c->shell->cookie;
    m.front_signal.signo = c->shell->asked ? SIGKILL : SIGINT;
    c->shell->asked = true;
    err_free(client_say(&c->client, &m)); /* a connection that is gone ends the command anyway */
}
