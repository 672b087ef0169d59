/*
 * Programs that we run (podman, nft, useradd …), never through a shell: absolute path, fixed environment,
 * start folder "/", nothing inherited but 0, 1, 2 and what is listed.
 */
#ifndef BASE_PROC_H
#define BASE_PROC_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

enum { PROC_KEEP_MAX = 8, PROC_OUTPUT_MAX = 1 << 20 };

struct proc_spec {
    const char *const *argv; /* argv[0] a name looked up in PROC_PATH, or an absolute path; NULL-ended */
    const char *input;       /* standard input; NULL: /dev/null */
    const char *dir;         /* start folder; NULL: "/" */
    /* NULL-ended; NULL: PATH=PROC_PATH, LC_ALL=C.UTF-8, HOME=/root; for an ordinary user the HOME and
     * XDG_RUNTIME_DIR that the caller has, which podman needs. */
    const char *const *env;
    int netns;               /* > 0: enter this network namespace first (setns) */
    int keep[PROC_KEEP_MAX]; /* descriptors passed on as 3, 4, … in this order */
    size_t nkeep;
    int timeout_ms; /* 0: none; then the program's group is killed */
    int until;      /* > 0: the program's group is killed too once this is readable */
    bool with_us;   /* killed when the thread that runs it ends, however that is (PR_SET_PDEATHSIG) */
    /* Called each time something may have come on standard error, with all of it so far. */
    void (*watch)(void *ctx, const struct buf *errors);
    void *watch_ctx;
    struct buf *out, *err_out; /* captured, at most PROC_OUTPUT_MAX each; NULL: /dev/null (err_out NULL: kept
                                  for the error) */
};

/* The plain environment from now on also holds these of our own variables (NULL-ended, at most 8; the caller keeps the
 * table): what podman tells itself by, in the user namespace of an ordinary user. */
void proc_carry(const char *const *names);

/* The usual folders of programs, ours, a room's and a command's. */
#define PROC_PATH "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* Runs to the end. *ret_status as waitpid's; an error only if it could not be run (EXIT_NOTFOUND: no such
 * program). */
err_t proc_run(const struct proc_spec *spec, int *ret_status);

/* Runs and turns any ending but exit 0 into an error that quotes the end of its standard error, escaped. */
err_t proc_must(const struct proc_spec *spec);

/* proc_must of a spec with nothing but argv, given in place: proc_call("userdel", name, NULL). */
#define proc_call(...) proc_call_argv((const char *const[]){__VA_ARGS__})
err_t proc_call_argv(const char *const *argv);

/* The absolute path of a program in PROC_PATH; the caller frees; NULL when there is none. */
char *proc_find(const char *name);

/* The other way round: the last part of a path into a folder of PROC_PATH, and what is no path as it is. NULL: it is elsewhere. */
const char *proc_name(const char *path);

/* Closes every descriptor from `from` on, but those in keep (ascending order not needed). Async-signal-safe.
 */
void fds_close_from(int from, const int *keep, size_t nkeep);

#endif
