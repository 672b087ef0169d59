#include "base/own.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void own_closep(int *fd) {
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void own_freep(void *pp) {
    void **p = pp;
    free(*p);
    *p = NULL;
}

void own_fclosep(FILE **f) {
    if (*f)
        fclose(*f);
    *f = NULL;
}

static void *have(void *p) {
    if (!p) {
        static const char why[] = "agent-cage: out of memory\n";
        (void)!write(STDERR_FILENO, why, sizeof why - 1);
        abort();
    }
    return p;
}

void *xmalloc(size_t n) {
    return have(malloc(n ? n : 1));
}

void *xcalloc(size_t n, size_t size) {
    return have(calloc(n ? n : 1, size ? size : 1));
}

void *xrealloc(void *p, size_t n, size_t size) {
    return have(reallocarray(p, n ? n : 1, size ? size : 1));
}

char *xstrdup(const char *s) {
    return have(strdup(s));
}

char *xstrndup(const char *s, size_t n) {
    return have(strndup(s, n));
}

char *xasprintf(const char *fmt, ...) {
    char *s = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&s, fmt, ap) < 0)
        s = NULL;
    va_end(ap);
    return have(s);
}
