/*
 * `agent-cage probe KEY=VALUE…`: makes the attempts of rows.def, one after the other, each in a process of its own, and
 * prints a line for each: what it was, a tab, the answer. It judges nothing and changes nothing that lasts. The same program
 * is the control arm outside. Facts that it is given (row.h): `kind`, the room; `arm`, that it is a control arm; `wait`, to hold still at the end until
 * standard input ends, so that it can be looked at from outside; `six`, to ask for a way out by IPv6 before the first attempt that needs
 * one, and go on at a byte; and what single attempts need.
 */
#include "break/row.h"

#include "base/own.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

int probe_main(int argc, char **argv);

enum { ROW_SECONDS = 20 };

/* One line, whatever an attempt found; what could mean something to a terminal is a question mark. */
static void say(const char *what, const char *answer) {
    char line[ANSWER_MAX];
    size_t n = 0;
    for (; answer[n] && n + 1 < sizeof line; n++)
        line[n] = (answer[n] < ' ' || answer[n] > '~') ? '?' : answer[n];
    line[n] = 0;
    printf("%s\t%s\n", what, line);
    fflush(stdout);
}

static _Noreturn void attempt(const struct row *r, const struct facts *f, char *answer) {
    alarm(ROW_SECONDS);
    errno = 0;
    if (r->attempt(f, answer) < 0)
        snprintf(answer, ANSWER_MAX, "%s",
                 strerrorname_np(errno) ? strerrorname_np(errno) : "an unknown error");
    else if (!*answer)
        snprintf(answer, ANSWER_MAX, "OK");
    _exit(0);
}

/* The answer comes through memory that is shared, so that there is no descriptor of ours to be found. */
static int try_row(const struct row *r, const struct facts *f) {
    char *answer = mmap(NULL, ANSWER_MAX, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    int status = 0;
    if (answer == MAP_FAILED)
        return -1;
    pid_t child = fork();
    if (!child)
        attempt(r, f, answer);
    if (child < 0 || waitpid(child, &status, 0) < 0)
        return -1;
    if (WIFSIGNALED(status))
        snprintf(answer, ANSWER_MAX, "SIG%s", sigabbrev_np(WTERMSIG(status)));
    answer[ANSWER_MAX - 1] = 0;
    say(r->what, answer);
    munmap(answer, ANSWER_MAX);
    return 0;
}

static enum kind kind_of(const struct facts *f) {
    const char *name = fact(f, "kind", 0);
    for (enum kind k = 0; name && k < KIND_COUNT; k++)
        if (!strcmp(name, kind_name(k)))
            return k;
    return KIND_COUNT;
}

static bool tried_here(const struct row *r, enum kind kind, const struct facts *f) {
    return r->want[kind] && (!fact(f, "arm", 0) || row_needs_arm(r));
}

static int try_rows(enum kind kind, const struct facts *f) {
    bool asked = !fact(f, "six", 0);
    char byte;
    for (size_t i = 0; i < nrows; i++) {
        if (!tried_here(&rows[i], kind, f))
            continue;
        if (row_needs_six(&rows[i]) && !asked) {
            say("six", "");
            (void)!read(0, &byte, 1); /* whatever was said: the rows show it */
            asked = true;
        }
        if (try_row(&rows[i], f) < 0)
            return -1;
    }
    return 0;
}

/* So that somebody outside can find that nobody is let in. */
static int listen_here(void) {
    const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(PROBE_PORT)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return fd < 0 || bind(fd, (const struct sockaddr *)&any, sizeof any) || listen(fd, 1) ? -1 : fd;
}

int probe_main(int argc, char **argv) {
    struct facts f = {.n = 0};
    for (int i = 1; i < argc && f.n < FACTS_MAX; i++)
        f.word[f.n++] = argv[i];
    enum kind kind = kind_of(&f);
    if (kind == KIND_COUNT) {
        fprintf(stderr, "agent-cage probe: this is run by `agent-cage break` inside a cage\n");
        return 2;
    }
    if (try_rows(kind, &f) < 0) {
        fprintf(stderr, "agent-cage probe: %s\n", strerrordesc_np(errno));
        return 1;
    }
    if (fact(&f, "wait", 0)) {
        char byte;
        own_fd int listener = listen_here();
        (void)listener;
        say("over", "");
        while (read(0, &byte, 1) > 0)
            ;
    }
    return 0;
}
