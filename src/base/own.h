/*
 * Ownership by attribute: `own_fd int fd = …;` closes at the end of the scope, `own_free char *p` frees,
 * TAKE(x) hands the value on and leaves the variable empty. Memory that cannot be had ends the process (the
 * warden starts it again): no caller checks for NULL.
 */
#ifndef BASE_OWN_H
#define BASE_OWN_H

#include <stddef.h>
#include <stdio.h>

void own_closep(int *fd);
void own_freep(void *pp);
void own_fclosep(FILE **f);

#define own_fd __attribute__((cleanup(own_closep)))
#define own_free __attribute__((cleanup(own_freep)))
#define own_file __attribute__((cleanup(own_fclosep)))
#define own_err __attribute__((cleanup(err_freep), unused))

/* The value of v, whose place then holds -1 (descriptors) or NULL (pointers), so that clean-up leaves it
 * alone. */
#define TAKE_FD(v)                                                                                           \
    __extension__({                                                                                          \
        int take_ = (v);                                                                                     \
        (v) = -1;                                                                                            \
        take_;                                                                                               \
    })
#define TAKE(v)                                                                                              \
    __extension__({                                                                                          \
        __typeof__(v) take_ = (v);                                                                           \
        (v) = NULL;                                                                                          \
        take_;                                                                                               \
    })

void *xmalloc(size_t n) __attribute__((malloc, returns_nonnull));
void *xcalloc(size_t n, size_t size) __attribute__((malloc, returns_nonnull));
void *xrealloc(void *p, size_t n, size_t size)
    __attribute__((returns_nonnull)); /* n * size, checked for overflow */
char *xstrdup(const char *s) __attribute__((malloc, returns_nonnull));
char *xstrndup(const char *s, size_t n) __attribute__((malloc, returns_nonnull));
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2), malloc, returns_nonnull));

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

#endif
