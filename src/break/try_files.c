/* Attempts on the file system: writing where nothing may be written, running what was written, finding what was left. */
#include "break/try.h"

#include "base/own.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#define NAME "agent-cage-probe"

enum { WALK_ENTRIES = 400000, READ_BYTES = 1 << 16 };

long try_create_in(const char *dir) {
    own_free char *path = xasprintf("%s/" NAME, dir);
    int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0)
        unlink(path);
    return fd;
}

long try_list(const char *path) {
    DIR *dir = opendir(path);
    if (!dir)
        return -1;
    errno = 0;
    return readdir(dir) || !errno ? 0 : -1;
}

long try_write(const char *path) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -1 : write(fd, "", 0);
}

long try_touch(const char *path) {
    return utimensat(AT_FDCWD, path, NULL, 0);
}

long try_rename_binary(void) {
    return rename("/bin/true", "/bin/" NAME) ? -1 : rename("/bin/" NAME, "/bin/true");
}

static int copy_self(const char *path) {
    own_fd int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    own_fd int to = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0700);
    struct stat st;
    if (from < 0 || to < 0 || fstat(from, &st))
        return -1;
    for (off_t left = st.st_size; left > 0;) {
        char bytes[1 << 16];
        ssize_t n = read(from, bytes, sizeof bytes);
        if (n <= 0 || write(to, bytes, (size_t)n) != n)
            return -1;
        left -= n;
    }
    return 0;
}

static long run(const char *path) {
    pid_t pid = fork();
    int status;
    if (!pid) {
        own_fd int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(quiet, 1);
        execl(path, path, "version", NULL);
        _exit(errno);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return -1;
    return WIFEXITED(status) && WEXITSTATUS(status) ? try_fail(WEXITSTATUS(status)) : 0;
}

long try_exec_copy(const char *dir) {
    own_free char *path = xasprintf("%s/" NAME ".x", dir);
    long answer = copy_self(path);
    int error = errno;
    if (!answer && (answer = run(path)))
        error = errno;
    unlink(path);
    return answer < 0 ? try_fail(error) : answer;
}

long try_map_exec(const char *dir) {
    own_free char *path = xasprintf("%s/" NAME ".m", dir);
    own_fd int fd = open(path, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    unlink(path);
    if (ftruncate(fd, 4096))
        return -1;
    return mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) == MAP_FAILED ? -1 : 0;
}

/* Writes until it is refused, at most 64 MiB: for the small places. */
long try_fill(const char *dir) {
    static const char block[1 << 16];
    own_free char *path = xasprintf("%s/" NAME ".f", dir);
    own_fd int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0)
        return -1;
    unlink(path);
    for (int i = 0; i < 1024; i++)
        if (write(fd, block, sizeof block) < 0)
            return -1;
    return 0;
}

/* MiB. */
long see_space(const char *place, char *answer) {
    struct statvfs v;
    if (statvfs(place, &v))
        return -1;
    answer_add(answer, "%lu", (unsigned long)(v.f_blocks * v.f_frsize >> 20));
    return 0;
}

/* Descriptors beyond 0, 1, 2; and of these three, what is a terminal or a folder. */
long see_descriptors(char *answer) {
    for (int fd = 0; fd < 1024; fd++) {
        struct stat st;
        if (fstat(fd, &st))
            continue;
        if (fd > 2)
            answer_add(answer, "%d", fd);
        else if (isatty(fd) || S_ISDIR(st.st_mode) || S_ISREG(st.st_mode) || S_ISBLK(st.st_mode))
            answer_add(answer, "%d:%o", fd, st.st_mode & S_IFMT);
    }
    return answer_done(answer);
}

static int by_name(const struct dirent **a, const struct dirent **b) {
    return strcmp((*a)->d_name, (*b)->d_name);
}

long see_dev(char *answer) {
    struct dirent **names;
    int n = scandir("/dev", &names, NULL, by_name);
    if (n < 0)
        return -1;
    for (int i = 0; i < n; i++) {
        if (names[i]->d_name[0] != '.')
            answer_add(answer, "%s", names[i]->d_name);
        free(names[i]);
    }
    free(names);
    return answer_done(answer);
}

/* ---- the whole tree, below one place, on one file system or all; folders in turn, never through a link ---- */

struct walk {
    void (*on)(struct walk *w, const char *path, int dir, const char *name, const struct stat *st);
    bool one_device;
    dev_t device;
    char *answer;
    const char *token;
    size_t seen;
};

static void walk_entry(struct walk *w, const char *path, int dir, const char *name);

static void walk_folder(struct walk *w, const char *path, int dir, const char *name) {
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) {
        own_closep(&fd);
        return;
    }
    for (struct dirent *each; w->seen < WALK_ENTRIES && (each = readdir(d));)
        if (strcmp(each->d_name, ".") && strcmp(each->d_name, ".."))
            walk_entry(w, path, dirfd(d), each->d_name);
    closedir(d);
}

static void walk_entry(struct walk *w, const char *path, int dir, const char *name) {
    struct stat st;
    w->seen++;
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW))
        return;
    own_free char *here = xasprintf("%s/%s", strcmp(path, "/") ? path : "", name);
    w->on(w, here, dir, name, &st);
    if (S_ISDIR(st.st_mode) && (!w->one_device || st.st_dev == w->device) && strlen(here) < 2000)
        walk_folder(w, here, dir, name);
}

static long walk(struct walk *w, const char *from) {
    struct stat st;
    if (stat(from, &st))
        return -1;
    w->device = st.st_dev;
    walk_folder(w, from, AT_FDCWD, from);
    return answer_done(w->answer);
}

static void on_armed(struct walk *w, const char *path, int dir, const char *name, const struct stat *st) {
    (void)dir, (void)name;
    bool capable =
        S_ISREG(st->st_mode) && st->st_mode & 0111 && lgetxattr(path, "security.capability", NULL, 0) > 0;
    if ((S_ISREG(st->st_mode) && st->st_mode & (S_ISUID | S_ISGID)) || capable)
        answer_add(w->answer, "%s", path);
}

/* Files in the root's own tree that would give their runner an id or a capability. */
long see_armed_files(char *answer) {
    struct walk w = {.on = on_armed, .one_device = true, .answer = answer};
    return walk(&w, "/");
}

static void on_socket(struct walk *w, const char *path, int dir, const char *name, const struct stat *st) {
    (void)dir, (void)name;
    if (S_ISSOCK(st->st_mode) || S_ISFIFO(st->st_mode))
        answer_add(w->answer, "%s", path);
}

/* Sockets and FIFOs with a name; /proc has none. */
long see_sockets(char *answer) {
    struct walk w = {.on = on_socket, .answer = answer};
    static const char *const places[] = {"/run",  "/tmp",     "/var",    "/dev", "/etc",
                                         "/home", "/project", "/outbox", "/cage"};
    for (size_t i = 0; i < COUNT(places); i++)
        if (walk(&w, places[i]) == 0 && !strcmp(answer, "none"))
            *answer = 0;
    return answer_done(answer);
}

static bool holds(int dir, const char *name, const char *token) {
    static char bytes[READ_BYTES];
    own_fd int fd = openat(dir, name, O_RDONLY | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, bytes, sizeof bytes);
    return n > 0 && memmem(bytes, (size_t)n, token, strlen(token));
}

static void on_token(struct walk *w, const char *path, int dir, const char *name, const struct stat *st) {
    if (strstr(path, w->token) || (S_ISREG(st->st_mode) && holds(dir, name, w->token)))
        answer_add(w->answer, "%s", path);
}

static void sweep(struct walk *w, const char *place) {
    walk(w, place);
    if (!strcmp(w->answer, "none"))
        *w->answer = 0;
}

static void look_at_processes(const char *token, char *answer) {
    DIR *proc = opendir("/proc");
    for (struct dirent *each; proc && (each = readdir(proc));)
        for (const char *const *name = (const char *const[]){"environ", "cmdline", "mountinfo", NULL}; *name;
             name++) {
            own_free char *path = xasprintf("/proc/%s/%s", each->d_name, *name);
            if (each->d_name[0] >= '0' && each->d_name[0] <= '9' && holds(AT_FDCWD, path, token))
                answer_add(answer, "%s", *name);
        }
    if (proc)
        closedir(proc);
}

/* Where the token that was planted outside shows: environments, command lines, every small place where files are. It is
 * given backwards, so that our own words do not hold it. */
long see_planted(const struct facts *f, char *answer) {
    const char *backwards = fact(f, "planted", 0);
    if (!backwards)
        return try_fail(EINVAL);
    own_free char *token = xstrdup(backwards);
    for (size_t i = 0, n = strlen(token); i < n; i++)
        token[i] = backwards[n - 1 - i];
    look_at_processes(token, answer);
    struct walk w = {.on = on_token, .answer = answer, .token = token};
    static const char *const places[] = {"/run",  "/tmp",  "/var/tmp", "/dev/shm", "/etc",
                                         "/home", "/root", "/outbox",  "/scratch", "/cage"};
    for (size_t i = 0; i < COUNT(places) && !*answer; i++)
        sweep(&w, places[i]);
    return answer_done(answer);
}
