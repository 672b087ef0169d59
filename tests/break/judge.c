/*
 * judge KIND <ANSWERS: the probe's answers from a room that `agent-cage break` does not enter (a harness room), judged by the
 * product's own table with the product's own control arms. Prints a line a row: verdict, tab, row, tab, why.
 */
#include "base/own.h"
#include "break/control.h"
#include "break/judge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int probe_main(int argc, char **argv);

static void read_all(int fd, struct answers *a) {
    own_buf struct buf said = {0};
    char bytes[4096];
    for (ssize_t n; (n = read(fd, bytes, sizeof bytes)) > 0;)
        buf_add(&said, bytes, (size_t)n);
    answers_start(a);
    answers_read(a, buf_text(&said));
}

static void hear_arm(enum arm arm, const char *kind, struct answers *ret) {
    own_words struct words facts = {0};
    char dir[] = "/tmp/agent-cage-judge-XXXXXX";
    pid_t pid;
    int out;
    words_addf(&facts, "kind=%s", kind);
    if (!mkdtemp(dir))
        die(err_sys(errno, "mkdtemp"));
    err_t e = control_start(arm, dir, &facts, &pid, &out);
    if (e)
        die(e);
    read_all(out, ret);
    close(out);
    waitpid(pid, NULL, 0);
    rmdir(dir);
}

int main(int argc, char **argv) {
    static const char *const verdicts[] = {[GREEN] = "green", [RED] = "red", [NOT_JUDGED] = "not judged"};
    if (argc > 1 && !strcmp(argv[1], "probe"))
        return probe_main(argc - 1, argv + 1);
    enum kind kind = 0;
    while (kind < KIND_COUNT && (argc < 2 || strcmp(kind_name(kind), argv[1])))
        kind++;
    if (kind == KIND_COUNT)
        return 2;
    struct answers room, arms[ARMS_MAX] = {0};
    read_all(0, &room);
    for (enum arm a = 0; a < ARM_COUNT; a++)
        hear_arm(a, argv[1], &arms[a]);
    for (size_t i = 0; i < nrows; i++) {
        if (!rows[i].want[kind])
            continue;
        struct judged j = judge_row(i, kind, &room, arms);
        printf("%s\t%s\t%s\n", verdicts[j.verdict], rows[i].what, buf_text(&j.why));
        buf_free(&j.why);
    }
    return 0;
}
