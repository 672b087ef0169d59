#include "cage/seccomp.h"

#include "base/own.h"
#include "cage/calls.h"

#include <errno.h>
#include <jansson.h>
#include <seccomp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const char *seccomp_kind_name(enum seccomp_kind kind) {
    static const char *const names[SECCOMP_COUNT] = {
        [SECCOMP_POD] = "pod", [SECCOMP_SEALED] = "sealed", [SECCOMP_AGENT] = "agent"};
    return names[kind];
}

/* The one architecture whose calls pass; every other ends the process. */
static const char *arch_token(void) {
    switch (seccomp_arch_native()) {
    case SCMP_ARCH_X86_64:
        return "SCMP_ARCH_X86_64";
    case SCMP_ARCH_AARCH64:
        return "SCMP_ARCH_AARCH64";
    default:
        return "SCMP_ARCH_NATIVE";
    }
}

/* One rule as the OCI specification has it: for SCMP_CMP_MASKED_EQ `value` is the mask, `valueTwo` what is
 * compared. */
static json_t *rule_json(const struct calls_rule *r) {
    json_t *args = json_array();
    for (size_t i = 0; i < r->nconds; i++)
        json_array_append_new(args, json_pack("{s:i, s:I, s:I, s:s}", "index", (int)r->cond[i].arg, "value",
                                              (json_int_t)r->cond[i].mask, "valueTwo",
                                              (json_int_t)r->cond[i].value, "op", "SCMP_CMP_MASKED_EQ"));
    json_t *o = json_pack("{s:[s], s:s, s:o}", "names", r->name, "action",
                          r->verdict ? "SCMP_ACT_ERRNO" : "SCMP_ACT_ALLOW", "args", args);
    if (r->verdict)
        json_object_set_new(o, "errnoRet", json_integer(r->verdict));
    return o;
}

char *seccomp_profile(enum seccomp_kind kind) {
    size_t n;
    own_free struct calls_rule *rules = calls_rules(kind, &n);
    json_t *calls = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(calls, rule_json(&rules[i]));
    json_t *o = json_pack("{s:s, s:i, s:[s], s:o}", "defaultAction", "SCMP_ACT_ERRNO", "defaultErrnoRet",
                          ENOSYS, "architectures", arch_token(), "syscalls", calls);
    char *text = json_dumps(o, JSON_INDENT(1));
    json_decref(o);
    return text;
}

static err_t add_rule(scmp_filter_ctx ctx, const struct calls_rule *r) {
    struct scmp_arg_cmp args[CALLS_ARGS];
    int nr = seccomp_syscall_resolve_name(r->name);
    if (nr == __NR_SCMP_ERROR ||
        nr < 0) /* not on this architecture, or newer than the library: ENOSYS it is */
        return NULL;
    for (size_t i = 0; i < r->nconds; i++)
        args[i] = SCMP_CMP(r->cond[i].arg, SCMP_CMP_MASKED_EQ, r->cond[i].mask, r->cond[i].value);
    uint32_t action = r->verdict ? SCMP_ACT_ERRNO((uint16_t)r->verdict) : SCMP_ACT_ALLOW;
    if (action == SCMP_ACT_ERRNO(ENOSYS) &&
        !r->nconds) /* the default action: libseccomp refuses to add that */
        return NULL;
    int rc = seccomp_rule_add_array(ctx, action, nr, (unsigned)r->nconds, args);
    return rc ? err_sys(-rc, "seccomp: the rule for %s is not taken", r->name) : NULL;
}

static void release(scmp_filter_ctx *ctx) {
    if (*ctx)
        seccomp_release(*ctx);
}

static err_t build(enum seccomp_kind kind, scmp_filter_ctx *ret) {
    __attribute__((cleanup(release))) scmp_filter_ctx ctx = seccomp_init(SCMP_ACT_ERRNO(ENOSYS));
    if (!ctx)
        return err_new(EXIT_FAILED, "seccomp: this kernel or library makes no filter");
    int rc = seccomp_attr_set(ctx, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_KILL_PROCESS);
    rc = rc ? rc : seccomp_attr_set(ctx, SCMP_FLTATR_CTL_NNP, 0); /* the caller's step, proved there */
    if (rc)
        return err_sys(-rc, "seccomp: an attribute of the filter is not taken");
    size_t n;
    own_free struct calls_rule *rules = calls_rules(kind, &n);
    for (size_t i = 0; i < n; i++)
        TRY(add_rule(ctx, &rules[i]));
    *ret = TAKE(ctx);
    return NULL;
}

err_t seccomp_install(enum seccomp_kind kind) {
    __attribute__((cleanup(release))) scmp_filter_ctx ctx = NULL;
    TRY(build(kind, &ctx));
    int rc = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_TSYNC, 1); /* all threads, or none */
    rc = rc ? rc : seccomp_load(ctx);
    return rc ? err_sys(-rc, "seccomp: the kernel does not load the filter \"%s\"", seccomp_kind_name(kind))
              : NULL;
}

err_t seccomp_program(enum seccomp_kind kind, struct sock_filter **ret, size_t *ret_n) {
    __attribute__((cleanup(release))) scmp_filter_ctx ctx = NULL;
    TRY(build(kind, &ctx));
    own_fd int fd = memfd_create("bpf", MFD_CLOEXEC);
    if (fd < 0)
        return err_sys(errno, "seccomp: no memory file");
    int rc = seccomp_export_bpf(ctx, fd);
    if (rc)
        return err_sys(-rc, "seccomp: the filter is not exported");
    off_t size = lseek(fd, 0, SEEK_END);
    size_t n = (size_t)size / sizeof(struct sock_filter);
    own_free struct sock_filter *p = xcalloc(n, sizeof *p);
    if (pread(fd, p, (size_t)size, 0) != size)
        return err_sys(errno, "seccomp: the filter is not read back");
    *ret = TAKE(p);
    *ret_n = n;
    return NULL;
}
