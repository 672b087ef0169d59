/*
 * What the shim and the broker add to a command. In one run, turn by turn (so that a slow second of the machine
 * meets all alike): `bash -c true` started directly, the same through shim and broker in a cgroup, and the
 * binary alone (its start and end, without asking anybody).
 *
 *   command BINARY SHIM [TIMES]     prints JSON: microseconds of every start-to-end, p50, p99, and ratios to direct
 */
#include "../link/bed.h"
#include "base/clock.h"
#include "base/own.h"

#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WARM_UP = 20 };

struct row {
    const char *name, *path;
    char *const *argv;
    double *us;
};

static char *const bash_true[] = {(char *)"bash", (char *)"-c", (char *)"true", NULL};
static char *const help[] = {(char *)"agent-cage", (char *)"no-such-verb", NULL};

static struct row rows[] = {
    {"direct", "/bin/bash", bash_true, NULL},
    {"cage", "/cage/bin/bash", bash_true, NULL},
    {"binary", "/cage/agent-cage", help, NULL},
};

static double once(const struct row *r) {
    static char *const env[] = {(char *)"PATH=/usr/bin:/bin", (char *)"TMPDIR=/scratch", NULL};
    int64_t start = clock_mono_ns();
    pid_t pid;
    int status;
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", 1, 0);
    if (posix_spawn(&pid, r->path, &quiet, NULL, r->argv, env) != 0 || waitpid(pid, &status, 0) != pid)
        exit(1);
    double us = (double)(clock_mono_ns() - start) / 1000;
    posix_spawn_file_actions_destroy(&quiet);
    if (r->argv == bash_true && status != 0) {
        fprintf(stderr, "%s: status %d\n", r->name, status);
        exit(1);
    }
    return us;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void print(struct row *r, size_t times, double direct) {
    printf("  \"%s\": {\"us\": [", r->name);
    for (size_t i = 0; i < times; i++)
        printf("%s%.0f", i ? ", " : "", r->us[i]);
    qsort(r->us, times, sizeof *r->us, by_size);
    double p50 = r->us[times / 2];
    printf("], \"p50\": %.0f, \"p99\": %.0f, \"ratio\": %.3f},\n", p50, r->us[times * 99 / 100],
           direct > 0 ? p50 / direct : 1.0);
    fprintf(stderr, "%-8s p50 %5.0f us  p99 %5.0f us  %.2f x\n", r->name, p50, r->us[times * 99 / 100],
            direct > 0 ? p50 / direct : 1.0);
}

static void measure(size_t times) {
    if (setresgid(BED_HARNESS, BED_HARNESS, BED_HARNESS) < 0 ||
        setresuid(BED_HARNESS, BED_HARNESS, BED_HARNESS) < 0 || chdir("/project") < 0)
        exit(1);
    for (size_t k = 0; k < COUNT(rows); k++)
        rows[k].us = xcalloc(times, sizeof(double));
    for (size_t i = 0; i < times + WARM_UP; i++)
        for (size_t k = 0; k < COUNT(rows); k++) {
            double us = once(&rows[k]);
            if (i >= WARM_UP)
                rows[k].us[i - WARM_UP] = us;
        }
    printf("{\n");
    print(&rows[0], times, 0);
    double direct = rows[0].us[times / 2];
    for (size_t k = 1; k < COUNT(rows); k++)
        print(&rows[k], times, direct);
    printf("  \"times\": %zu\n}\n", times);
}

/* The agent: it settles every line of the account. */
static void settle_until(struct bed *b, pid_t harness) {
    int status;
    while (waitpid(harness, &status, WNOHANG) == 0)
        bed_settle(b, 100);
    if (status != 0)
        exit(1);
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    bed_root(argv[1], argv[2]);
    bed_up(&bed, BED_GROUPED);
    pid_t harness = fork();
    if (harness == 0) {
        measure(argc > 3 ? strtoul(argv[3], NULL, 10) : 500);
        exit(0);
    }
    settle_until(&bed, harness);
    bed_down(&bed);
    return 0;
}
