/*
 * Which system calls a cage may make. The table is syscalls.def: a reason a line. From it come the profile
 * that podman passes to its runtime and the filter that bare rooms load themselves; both are the same rules
 * by construction.
 *
 * What is not in the table answers ENOSYS, so that programs fall back. Calls of other architectures (32-bit,
 * x32) end the process. Arguments are compared in their low 32 bits alone, as the kernel reads flags,
 * families and requests.
 */
#ifndef CAGE_SECCOMP_H
#define CAGE_SECCOMP_H

#include "base/err.h"

#include <linux/filter.h>
#include <stddef.h>

enum seccomp_kind {
    SECCOMP_POD, /* the executor of an ordinary cage: user namespaces are possible, for tools that need them
                  */
    SECCOMP_SEALED, /* hostile code, and every harness room: no user namespaces, clone3 ENOSYS */
    SECCOMP_AGENT,  /* our own binary alone: sealed, and starts nothing */
    SECCOMP_COUNT
};

const char *seccomp_kind_name(enum seccomp_kind kind);

/* The profile as the OCI runtime specification and podman's --security-opt seccomp=FILE have it. The caller
 * frees. */
char *seccomp_profile(enum seccomp_kind kind);

/* Loads the filter into this process, all threads (after no_new_privs, which it does not set). */
err_t seccomp_install(enum seccomp_kind kind);

/* The filter as classic BPF, for tests. The caller frees *ret. */
err_t seccomp_program(enum seccomp_kind kind, struct sock_filter **ret, size_t *ret_n);

#endif
