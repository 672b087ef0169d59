#include "cli/cli.h"
#include "base/escape.h"
#include "base/own.h"
#include "base/paths.h"
#include "cli/self.h"
#include "cli/verb.h"

#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Standard descriptors that the caller closed would be taken by the next socket: they become /dev/null. */
static void fill_standard(void) {
    for (int fd = 0; fd <= 2; fd++)
        while (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            if (open("/dev/null", O_RDWR) < 0)
                _exit(EXIT_FAILED);
}

/* A static libc has no locale but C and C.UTF-8: text is UTF-8 here whatever the environment says. */
static void speak_utf8(void) {
    setlocale(LC_ALL, "C.UTF-8");
}

int cli_report(err_t e) {
    own_buf struct buf text = {0}, safe = {0};
    self_hints(&text, err_text(e));
    escape_text(&safe, ESCAPE_LINE, buf_text(&text), text.len);
    fprintf(stderr, "agent-cage: %s\n", buf_text(&safe));
    int status = e->status;
    err_free(e);
    return status;
}

/* Output that could not be written is a failure, said once (a full disk, a closed pipe). */
static int finish(int status) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    return cli_report(err_sys(errno, "cannot write to standard output"));
}

/* The words that are no verbs: for people who type them by habit, and for the build. */
static bool special(int argc, char **argv, int *ret_status) {
    const char *word = argv[1];
    *ret_status = 0;
    if (!strcmp(word, "--help") || !strcmp(word, "-h"))
        help_all(stdout);
    else if (!strcmp(word, "--version"))
        puts("agent-cage " AGENT_CAGE_VERSION);
    else if (!strcmp(word, "--emit-completion"))
        completion_emit(stdout);
    else if (!strcmp(word, "--emit-man") && argc == 3) {
        err_t e = man_emit(argv[2]);
        if (e)
            *ret_status = cli_report(e);
    } else
        return false;
    return true;
}

static err_t run(const struct verb *v, int argc, char **argv, int *ret_status) {
    struct call call;
    TRY(call_parse(v, argc, argv, &call));
    if (call.help) {
        help_verb(v, stdout);
        return NULL;
    }
    TRY(paths_open());
    /* cppcheck-suppress returnDanglingLifetime ; an error is a copy: it points into no call */
    return v->run(&call, ret_status);
}

int cli_main(int argc, char **argv) {
    fill_standard();
    speak_utf8();
    signal(SIGPIPE,
           SIG_DFL); /* whatever it was: a pager that left ends us quietly; who must not die so ignores it */
    if (argc < 2) {
        help_all(stderr);
        return EXIT_USAGE;
    }
    self_called(argv[0]);
    int status = 0;
    if (special(argc, argv, &status))
        return finish(status);
    const struct verb *v = verb_find(argv[1]);
    if (!v)
        return cli_report(err_new(EXIT_USAGE, "no such verb: %s; `agent-cage help` lists them", argv[1]));
    err_t e = run(v, argc - 2, argv + 2, &status);
    return e ? finish(cli_report(e)) : finish(status);
}
