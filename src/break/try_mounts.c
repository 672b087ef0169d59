/* The mounts as the kernel tells them (proc(5), mountinfo), and the masks over what says too much about the host. */
#include "break/try.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/own.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { FIELDS_MAX = 24 };

struct mount {
    char *field[FIELDS_MAX]; /* of the line; 4 is the place, 5 the options, from 6 on the tags, until "-" */
    size_t n;
};

/* Calls `on` for each line of mountinfo. */
static long each_mount(void (*on)(const struct mount *m, char *answer), char *answer) {
    own_buf struct buf text = {0};
    own_err err_t e = fs_read("/proc/self/mountinfo", 1 << 20, &text);
    if (e)
        return try_fail(e->errnum ? e->errnum : EIO);
    char *lines = text.p;
    for (char *line; (line = strsep(&lines, "\n"));) {
        struct mount m = {.n = 0};
        for (char *word; m.n < FIELDS_MAX && (word = strsep(&line, " "));)
            m.field[m.n++] = word;
        if (m.n > 8)
            on(&m, answer);
    }
    return answer_done(answer);
}

static bool has_option(const char *options, const char *name) {
    size_t n = strlen(name);
    for (const char *at = options; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (!strncmp(at, name, n) && (!at[n] || at[n] == ','))
            return true;
    }
    return false;
}

static bool listed(const char *answer, const char *word) {
    size_t n = strlen(word);
    for (const char *at = answer; (at = strstr(at, word)); at++)
        if ((at == answer || at[-1] == ' ') && (!at[n] || at[n] == ' '))
            return true;
    return false;
}

static void on_writable(const struct mount *m, char *answer) {
    const char *place = m->field[4];
    struct stat st;
    if (stat(place, &st) || !S_ISDIR(st.st_mode) || access(place, W_OK) || listed(answer, place))
        return;
    answer_add(answer, "%s", place);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Puts the words of an answer in order. */
static void sort_words(char *answer) {
    char *word[128], copy[ANSWER_MAX], *rest = copy;
    size_t n = 0;
    strncpy(copy, answer, sizeof copy - 1);
    copy[sizeof copy - 1] = 0;
    while (n < COUNT(word) && (word[n] = strsep(&rest, " ")))
        n++;
    qsort(word, n, sizeof *word, by_text);
    *answer = 0;
    for (size_t i = 0; i < n; i++)
        answer_add(answer, "%s", word[i]);
}

long see_writable_mounts(char *answer) {
    long e = each_mount(on_writable, answer);
    sort_words(answer);
    return e;
}

/* The kernel's own, over which nobody can put anything: podman mounts no flags there. */
static bool is_kernels(const char *place) {
    return !strncmp(place, "/proc", 5) || !strncmp(place, "/sys", 4) || !strncmp(place, "/dev", 4);
}

static void on_unprotected(const struct mount *m, char *answer) {
    const char *place = m->field[4], *options = m->field[5];
    if (is_kernels(place) && strcmp(place, "/dev/shm") && strcmp(place, "/dev/mqueue"))
        return;
    if (!has_option(options, "nosuid") || !has_option(options, "nodev"))
        answer_add(answer, "%s:%s", place, options);
    if (!strcmp(place, "/") && !has_option(options, "ro"))
        answer_add(answer, "/:rw");
}

/* Mounts on which an id or a device would count, and a root that can be written. */
long see_unprotected(char *answer) {
    return each_mount(on_unprotected, answer);
}

static void on_shared(const struct mount *m, char *answer) {
    for (size_t i = 6; i < m->n && strcmp(m->field[i], "-"); i++)
        if (!strncmp(m->field[i], "shared:", 7) || !strncmp(m->field[i], "master:", 7))
            answer_add(answer, "%s", m->field[4]);
}

long see_propagation(char *answer) {
    return each_mount(on_shared, answer);
}

static void on_group(const struct mount *m, char *answer) {
    size_t i = 6;
    while (i < m->n && strcmp(m->field[i], "-"))
        i++;
    if (i + 1 < m->n && !strncmp(m->field[i + 1], "cgroup", 6) && !has_option(m->field[5], "ro"))
        answer_add(answer, "%s", m->field[4]);
}

long see_open_groups(char *answer) {
    return each_mount(on_group, answer);
}

/* ---- masks ---- */

/* Empty, or not to be opened. */
static bool masked_file(const char *path) {
    own_fd int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    char byte;
    return fd < 0 || read(fd, &byte, 1) <= 0;
}

static bool masked_folder(const char *path) {
    DIR *d = opendir(path);
    size_t n = 0;
    if (!d)
        return true;
    while (readdir(d))
        n++;
    closedir(d);
    return n <= 2;
}

static bool masked(const char *path) {
    struct stat st;
    if (lstat(path, &st))
        return true; /* this kernel has none */
    return S_ISDIR(st.st_mode) ? masked_folder(path) : masked_file(path);
}

long see_unmasked(char *answer) {
    static const char *const hidden[] = {"/proc/acpi",
                                         "/proc/kcore",
                                         "/proc/keys",
                                         "/proc/latency_stats",
                                         "/proc/sched_debug",
                                         "/proc/scsi",
                                         "/proc/timer_list",
                                         "/proc/timer_stats",
                                         "/proc/interrupts",
                                         "/proc/kallsyms",
                                         "/proc/config.gz",
                                         "/proc/modules",
                                         "/proc/slabinfo",
                                         "/proc/vmallocinfo",
                                         "/sys/firmware",
                                         "/sys/dev/block",
                                         "/sys/kernel/debug",
                                         "/sys/kernel/tracing",
                                         "/sys/fs/bpf",
                                         "/sys/kernel/security",
                                         "/sys/fs/selinux",
                                         "/sys/devices/virtual/powercap",
                                         "/sys/devices/virtual/dmi"};
    static const char *const closed[] = {"/proc/sys", "/proc/irq", "/proc/bus",
                                         "/proc/fs",  "/sys",      "/proc/sysrq-trigger"};
    for (size_t i = 0; i < COUNT(hidden); i++)
        if (!masked(hidden[i]))
            answer_add(answer, "%s", hidden[i]);
    for (size_t i = 0; i < COUNT(closed); i++) {
        struct statvfs v;
        if (!statvfs(closed[i], &v) && !(v.f_flag & ST_RDONLY))
            answer_add(answer, "%s:rw", closed[i]);
    }
    return answer_done(answer);
}
