/*
 * How a part locks itself in, before it reads the first byte of a stranger. Two halves:
 *
 *   the starter's   lockin_become(): between fork and exec, still root: groups, gid, uid, capabilities,
 *                   each proved gone (read back, then tried to get back)
 *   the part's own  lockin(): after exec, before its loop: the steps of lockin_steps[] in their order,
 *                   then the proof
 *
 *   step          should                                         mustn't
 *   descriptors   close all but those that it was given          keep a stray one of its starter's
 *   ids           be one uid and gid that are not root's         get root's back
 *   limits        descriptors bounded, core 0, no new processes  leave a core file with a credential in it
 *   memory        not be dumpable                                be read through /proc by its own uid
 *   capabilities  have all five sets empty                       keep one "for later"
 *   privileges    set no_new_privs                               gain anything by an exec
 *   files         Landlock: the listed paths, no others          open anything else, signal a stranger
 *   calls         seccomp: what a daemon's loop needs            exec, fork, ptrace, mount, other sockets
 *
 * There is no switch that turns a step off. What the kernel lacks (an old one without Landlock) is returned
 * as sentences for the log and for `doctor`; what fails although the kernel has it is an error, and the part
 * must end.
 */
#ifndef BASE_LOCKIN_H
#define BASE_LOCKIN_H

#include "base/buf.h"
#include "base/err.h"

#include <stdbool.h>
#include <sys/types.h>

enum { LOCKIN_PATHS_MAX = 8, LOCKIN_NOFILE = 1024 };

enum lockin_calls {
    LOCKIN_DAEMON,  /* a loop, files, SQLite, sockets that it was given; no exec, no fork, no socket of its
                       own but a Unix pair */
    LOCKIN_NETWORK, /* as above, and TCP and UDP over IPv4 and IPv6 (the agent's upstream) */
    LOCKIN_SPAWNER  /* starts programs. Its children need the room's files, calls and limits, so here only
                       core 0 and the steps that bind the process itself; the filter is the room's own */
};

struct lockin_spec {
    const char *part; /* for the sentences */
    enum lockin_calls calls;
    int nfds; /* it was given descriptors 0 … nfds-1; all others are closed. 0: close none */
    /* Paths that may be read, and those that may be read and written, each with all below; NULL-ended if
     * fewer. /dev/null and /dev/urandom are always in. One that may be read need not exist. */
    const char *read[LOCKIN_PATHS_MAX], *write[LOCKIN_PATHS_MAX];
    bool
        splices; /* may splice(2): who waits in one holds the pipe, and so whoever else is at it, kill or not */
    unsigned nofile; /* descriptors; 0: LOCKIN_NOFILE; never above the limit that it came with */
};

/*
 * The starter's half: this process becomes uid:gid (both > 0) for good, in these supplementary groups (NULL,
 * 0: none), with no capability in any of the five sets, so that no set-uid program can bring one back. An
 * error leaves the process in between: it must _exit(). Allocates; only in a process of one thread.
 */
err_t lockin_become(uid_t uid, gid_t gid, const gid_t *groups, size_t ngroups);

/*
 * The part's own half: all steps, then the proof. Sentences about what this kernel lacks are appended to
 * `lacks`, a line each. An error (also: started as root) must end the part. Call it before the loop is made
 * when nfds is given, since that closes what was opened meanwhile.
 */
err_t lockin(const struct lockin_spec *spec, struct buf *lacks);

/*
 * Reads /proc/self/status through `status` (proc(5)): one uid and one gid in all four places and not 0, no
 * other group (spawners may have some), Cap* all 0, NoNewPrivs 1, Seccomp 2 (spawners: any). The first that
 * does not hold is the error.
 */
err_t lockin_prove(const struct lockin_spec *spec, int status);

/* One run through the steps. Tests make their own and leave one out. */
struct lockin_run {
    const struct lockin_spec *spec;
    struct buf *lacks;
    int status; /* /proc/self/status, opened by the first step: Landlock comes before the proof */
};

struct lockin_step {
    const char *name;
    err_t (*run)(struct lockin_run *run);
};

enum { LOCKIN_STEPS = 8 };
extern const struct lockin_step lockin_steps[LOCKIN_STEPS];
err_t lockin_files(struct lockin_run *run); /* lockin_files.c: Landlock */
err_t lockin_calls(struct lockin_run *run); /* lockin_calls.c: seccomp */

/*
 * A Landlock ruleset (landlock(7)) for a program that is about to start: it reads what it can read, and writes, makes and
 * removes nothing but below these paths (NULL ends them; what is not there is left out). It does not hold attributes of files
 * (modes, times, xattrs) nor what is no file (System V memory, queues). *ret_ruleset: the caller's, -1 on a kernel without Landlock.
 */
err_t lockin_writes(const char *const paths[], int *ret_ruleset);

/*
 * From here on this process and all that it starts make no socket with a name (bind(2), mknod(2), a rename or link of one from
 * elsewhere) but below these folders (NULL ends them; what is not there is left out). A folder with a socket in it can still be
 * renamed from there to any place of the same mount. Nobody mounts any more, which Landlock brings with it. Everything else
 * stays as it is. Needs no_new_privs. Without Landlock, or with one that refuses every rename between folders (before ABI 2,
 * Linux 5.19), it is an error.
 */
err_t lockin_sockets(const char *const below[]);

/* Can lockin_sockets() do that on this kernel? The error is a sentence for who asked. */
err_t lockin_sockets_can(void);

/* Landlock's ABI on this kernel, 0 without it. */
int lockin_landlock_abi(void);

#endif
