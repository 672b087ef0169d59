/* Attempts to gain, and what is held already: ids, capabilities, limits, the environment. */
#include "break/try.h"

#include "base/buf.h"
#include "base/err.h"
#include "base/fs.h"
#include "base/own.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

extern char **environ;

#define OWN_FILE "agent-cage-probe"

void answer_add(char answer[ANSWER_MAX], const char *fmt, ...) {
    size_t n = strlen(answer);
    if (n && n + 1 < ANSWER_MAX)
        answer[n++] = ' ';
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(answer + n, ANSWER_MAX - n, fmt, ap);
    va_end(ap);
}

long answer_done(char answer[ANSWER_MAX]) {
    if (!*answer)
        answer_add(answer, "none");
    return 0;
}

/* The answer of a call on a fresh file, which is gone afterwards. */
static long with_file(long (*act)(int fd)) {
    unlink(OWN_FILE);
    own_fd int fd = open(OWN_FILE, O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0700);
    if (fd < 0)
        return -1;
    long answer = act(fd);
    int error = errno;
    unlink(OWN_FILE);
    return answer < 0 ? try_fail(error) : answer;
}

static long act_chown(int fd) {
    return fchown(fd, 0, 0);
}

static long act_cap(int fd) {
    static const unsigned char cap[20] = {1, 0, 0, 2, 0, 32}; /* struct vfs_cap_data, revision 2 */
    return fsetxattr(fd, "security.capability", cap, sizeof cap, 0);
}

static long act_setuid(int fd) {
    return fchmod(fd, 04755);
}

static long act_setgid(int fd) {
    return fchmod(fd, 02755);
}

static long set_flag(int fd, int flag) {
    int flags = 0;
    return ioctl(fd, FS_IOC_GETFLAGS, &flags) ? -1 : ioctl(fd, FS_IOC_SETFLAGS, &(int){flags | flag});
}

static long act_immutable(int fd) {
    return set_flag(fd, FS_IMMUTABLE_FL);
}

static long act_append_only(int fd) {
    return set_flag(fd, FS_APPEND_FL);
}

long try_chown_own(void) {
    return with_file(act_chown);
}

long try_file_cap(void) {
    return with_file(act_cap);
}

long try_make_setuid(void) {
    return with_file(act_setuid);
}

long try_make_setgid(void) {
    return with_file(act_setgid);
}

long try_make_immutable(void) {
    return with_file(act_immutable);
}

long try_make_append_only(void) {
    return with_file(act_append_only);
}

/* to 0: one more than the hard limit. */
long try_raise_limit(int which, unsigned long to) {
    struct rlimit now;
    getrlimit((__rlimit_resource_t)which, &now);
    rlim_t want = to ? to : now.rlim_max + 1;
    return setrlimit((__rlimit_resource_t)which, &(struct rlimit){want, want});
}

long try_bind_port(int port) {
    struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return bind(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&in, sizeof in);
}

/* A socket option with eight bytes that are a number as well as an empty header. */
long try_option(int family, int level, int option) {
    static const unsigned char value[8] = {1};
    return setsockopt(socket(family, SOCK_DGRAM, 0), level, option, value, sizeof value);
}

long try_forge_credentials(void) {
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair))
        return -1;
    union {
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr align;
    } control = {0};
    struct ucred root = {1, 0, 0};
    struct iovec iov = {(char[]){'x'}, 1};
    struct msghdr h = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&h);
    *c = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_CREDENTIALS, .cmsg_len = CMSG_LEN(sizeof root)};
    memcpy(CMSG_DATA(c), &root, sizeof root);
    return sendmsg(pair[0], &h, 0);
}

long see_status(const char *field, char *answer) {
    own_buf struct buf text = {0};
    own_err err_t e = fs_read("/proc/self/status", 1 << 16, &text);
    own_free char *key = xasprintf("\n%s:\t", field);
    const char *line = e ? NULL : strstr(buf_text(&text), key);
    if (!line)
        return try_fail(ENOENT);
    line += strlen(key);
    answer_add(answer, "%.*s", (int)strcspn(line, "\n"), line);
    return 0;
}

/* Those of the five sets that are not empty. */
long see_capabilities(char *answer) {
    for (const char *const *set =
             (const char *const[]){"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", NULL};
         *set; set++) {
        char mask[ANSWER_MAX] = "";
        if (see_status(*set, mask) || strspn(mask, "0") != strlen(mask))
            answer_add(answer, "%s=%s", *set, mask);
    }
    return answer_done(answer);
}

long see_groups(char *answer) {
    gid_t groups[64];
    int n = getgroups(COUNT(groups), groups);
    if (n < 0)
        return -1;
    for (int i = 0; i < n; i++)
        if (groups[i] != getgid())
            answer_add(answer, "%u", groups[i]);
    return answer_done(answer);
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The names, in order. */
long see_environment(char *answer) {
    size_t n = 0;
    while (environ[n])
        n++;
    qsort(environ, n, sizeof *environ, by_text);
    for (size_t i = 0; i < n; i++)
        answer_add(answer, "%.*s", (int)strcspn(environ[i], "="), environ[i]);
    return answer_done(answer);
}

long see_limit(int which, char *answer) {
    struct rlimit r;
    if (getrlimit((__rlimit_resource_t)which, &r))
        return -1;
    answer_add(answer, r.rlim_max == RLIM_INFINITY ? "unlimited" : "%lu", (unsigned long)r.rlim_max);
    return 0;
}

/* Whatever their mode: a room has no use for them. (unix_chkpwd is a part of libpam; without its bit it gains nothing.) */
long see_programs(char *answer) {
    static const char *const folders[] = {"/bin", "/sbin", "/usr/local/bin", "/usr/local/sbin",
                                          "/usr/lib/dbus-1.0"};
    static const char *const names[] = {"sudo",       "doas",        "su",
                                        "pkexec",     "newuidmap",   "newgidmap",
                                        "fusermount", "fusermount3", "dbus-daemon-launch-helper"};
    for (size_t i = 0; i < COUNT(folders); i++)
        for (size_t k = 0; k < COUNT(names); k++) {
            char path[96];
            snprintf(path, sizeof path, "%s/%s", folders[i], names[k]);
            if (!access(path, F_OK))
                answer_add(answer, "%s", path);
        }
    return answer_done(answer);
}
