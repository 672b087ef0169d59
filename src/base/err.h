/*
 * Errors are values: NULL is success, anything else is one sentence (what, why, what to do) and the exit
 * status that it would mean for a command line. A function that fails returns it; callers add context with
 * err_wrap() on the way up; it is printed once, at the top. Library layers never log and never exit.
 */
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stddef.h>

/* Exit statuses of the command line, coreutils' `timeout` and POSIX shells' use of them. */
enum {
    EXIT_OK = 0,
    EXIT_USAGE = 2, /* the words of the call are off */
    EXIT_TIMED_OUT = 124,
    EXIT_FAILED = 125,  /* agent-cage itself failed */
    EXIT_POLICY = 126,  /* refused by policy */
    EXIT_NOTFOUND = 127 /* no such agent, program, file */
};

enum { ERR_TEXT_MAX = 512 };

struct err {
    int status;              /* one of the EXIT_* above */
    int errnum;              /* errno of the cause, 0 when there was none */
    char text[ERR_TEXT_MAX]; /* one sentence, no newline; cut at the bound */
};
typedef struct err *err_t;

/* A new error. The caller owns it and ends it with err_free(). Never NULL. */
err_t err_new(int status, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), warn_unused_result, returns_nonnull));

/* As err_new(EXIT_FAILED, …) with ": <description of errnum>" behind the text. */
err_t err_sys(int errnum, const char *fmt, ...)
    __attribute__((format(printf, 2, 3), warn_unused_result, returns_nonnull));

/* Puts "fmt: " before e's text and returns e, which stays the caller's. NULL stays NULL. */
err_t err_wrap(err_t e, const char *fmt, ...) __attribute__((format(printf, 2, 3), warn_unused_result));

/* Sets the exit status of e and returns it. NULL stays NULL. */
err_t err_as(err_t e, int status) __attribute__((warn_unused_result));

/* The sentence, "" for NULL. Owned by e. */
const char *err_text(const struct err *e);

void err_free(err_t e);

/* For `own_err err_t e`. */
void err_freep(err_t *e);

#define TRY(call)                                                                                            \
    do {                                                                                                     \
        err_t try_e_ = (call);                                                                               \
        if (try_e_)                                                                                          \
            return try_e_;                                                                                   \
    } while (0)

/* Start-up only, before a loop runs: prints the error once on standard error and exits with its status. */
_Noreturn void die(err_t e);

#endif
