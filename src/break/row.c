#include "break/row.h"

#include "break/try.h"

#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <grp.h>
#include <unistd.h>

#define ROW(id, what, proof, want, expression)                                                               \
    static long attempt_##id(const struct facts *f, char answer[ANSWER_MAX]) {                               \
        (void)f, (void)answer;                                                                               \
        return (expression);                                                                                 \
    }
#include "break/rows.def"
#undef ROW

const struct row rows[] = {
#define ROW(id, what, proof, want, expression) {what, attempt_##id, proof, want},
#include "break/rows.def"
#undef ROW
};
const size_t nrows = sizeof rows / sizeof rows[0];

size_t row_find(const char *what) {
    size_t i = 0;
    while (i < nrows && strcmp(rows[i].what, what))
        i++;
    return i;
}

bool row_needs_arm(const struct row *r) {
    return r->proof == DIFFERS || r->proof == REACHES;
}

bool row_needs_six(const struct row *r) {
    return r->proof == REACHES && strchr(r->what, ':');
}

bool row_right(const char *want, const char *answer) {
    size_t n = strlen(answer);
    for (const char *at = want + (*want == '='); at;) {
        const char *end = strchr(at, '|');
        if ((end ? (size_t)(end - at) : strlen(at)) == n && !strncmp(at, answer, n))
            return true;
        at = end ? end + 1 : NULL;
    }
    return false;
}

const char *kind_name(enum kind kind) {
    static const char *const names[KIND_COUNT] = {[KIND_POD] = "pod",
                                                  [KIND_HARNESS] = "harness room",
                                                  [KIND_SEALED] = "sealed cage",
                                                  [KIND_SEALED_AGENT] = "sealed agent"};
    return names[kind];
}

bool kind_sealed(enum kind kind) {
    return kind == KIND_SEALED || kind == KIND_SEALED_AGENT;
}

const char *fact(const struct facts *f, const char *key, size_t n) {
    size_t length = strlen(key);
    for (size_t i = 0; i < f->n; i++)
        if (!strncmp(f->word[i], key, length) && f->word[i][length] == '=' && !n--)
            return f->word[i] + length + 1;
    return NULL;
}
