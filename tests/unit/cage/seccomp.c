/*
 * The whole filter, simulated: classic BPF is interpreted here over every call number, other architectures,
 * and for each argument that the table looks at every value on the edge of a rule, with and without rubbish
 * in the upper 32 bits. What it answers must be what the table says, read line by line.
 */
#include "cage/calls.h"

#include "base/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the three above */
#include <cmocka.h>
#include <errno.h>
#include <jansson.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct program {
    struct sock_filter *f;
    size_t n;
};

/* Interprets the part of classic BPF that seccomp(2) takes; fails the test on anything else. */
static uint32_t run(const struct program *p, const struct seccomp_data *d) {
    uint32_t a = 0, x = 0, mem[16] = {0};
    for (size_t pc = 0; pc < p->n; pc++) {
        const struct sock_filter *i = &p->f[pc];
        switch (i->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            assert_true(i->k + 4 <= sizeof *d);
            memcpy(&a, (const char *)d + i->k, 4);
            break;
        case BPF_LD | BPF_MEM:
            a = mem[i->k];
            break;
        case BPF_ST:
            mem[i->k] = a;
            break;
        case BPF_LDX | BPF_MEM:
            x = mem[i->k];
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= i->k;
            break;
        case BPF_MISC | BPF_TAX:
            x = a;
            break;
        case BPF_JMP | BPF_JA:
            pc += i->k;
            break;
        case BPF_JMP | BPF_JEQ | BPF_K:
            pc += a == i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JGT | BPF_K:
            pc += a > i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JGE | BPF_K:
            pc += a >= i->k ? i->jt : i->jf;
            break;
        case BPF_JMP | BPF_JSET | BPF_K:
            pc += a & i->k ? i->jt : i->jf;
            break;
        case BPF_RET | BPF_K:
            return i->k;
        default:
            fail_msg("instruction %#x at %zu", i->code, pc);
        }
    }
    (void)x;
    fail_msg("the program does not end");
    return 0;
}

static struct program load(enum seccomp_kind kind) {
    struct program p = {0};
    own_err err_t e = seccomp_program(kind, &p.f, &p.n);
    if (e)
        fail_msg("%s", err_text(e));
    assert_true(p.n > 100 && p.n < BPF_MAXINSNS);
    return p;
}

/* The table read plainly, line by line: what calls_rules() must not change. */
struct reading {
    const struct calls_row *rows[32];
    size_t n;
};

static bool says(const char *names, const char *name) {
    size_t n = strlen(name);
    for (const char *at = names; n && (at = strstr(at, name)); at += n)
        if ((at == names || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

static struct reading reading_of(enum seccomp_kind kind, const char *name) {
    struct reading r = {0};
    for (size_t i = 0; i < calls_nrows; i++)
        if (calls_rows[i].kinds & 1u << kind && says(calls_rows[i].names, name)) {
            assert_true(r.n < COUNT(r.rows));
            r.rows[r.n++] = &calls_rows[i];
        }
    return r;
}

/* 0 or an errno; the first line that holds decides. */
static int verdict_of(const struct reading *r, const uint64_t args[CALLS_ARGS]) {
    for (size_t i = 0; i < r->n; i++) {
        bool holds = true;
        for (size_t k = 0; k < CALLS_CONDS_MAX && holds; k++) {
            const struct calls_cond *c = &r->rows[i]->cond[k];
            holds = ((uint32_t)args[c->arg] & c->mask) == c->value;
        }
        if (holds)
            return r->rows[i]->verdict;
    }
    return ENOSYS;
}

static uint32_t answer_of(int verdict) {
    return verdict ? SECCOMP_RET_ERRNO | (uint32_t)verdict : SECCOMP_RET_ALLOW;
}

static uint32_t ask(const struct program *p, int nr, const uint64_t args[CALLS_ARGS]) {
    struct seccomp_data d = {.nr = nr, .arch = seccomp_arch_native()};
    memcpy(d.args, args, sizeof d.args);
    return run(p, &d);
}

static const char *const kinds[] = {"pod", "sealed", "agent"};

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Values of one argument that lie on an edge of some rule of this call. */
static size_t edges(const char *name, unsigned arg, uint64_t out[], size_t max) {
    static const uint32_t common[] = {0, 1, 2, 3, 0x7fffffff, 0x80000000, 0xffffffff, 0x40, 06000, 040};
    size_t n = 0;
    for (size_t i = 0; i < COUNT(common) && n < max; i++)
        out[n++] = common[i];
    for (size_t i = 0; i < calls_nrows; i++)
        for (size_t k = 0; k < CALLS_CONDS_MAX; k++) {
            const struct calls_cond *c = &calls_rows[i].cond[k];
            if (strcmp(calls_rows[i].names, name) || c->arg != arg || !c->mask)
                continue;
            const uint32_t values[] = {c->value, c->value + 1, c->value - 1, c->value | ~c->mask,
                                       c->mask,  ~c->mask};
            for (size_t v = 0; v < COUNT(values) && n < max; v++)
                out[n++] = values[v];
            for (unsigned bit = 0; bit < 32 && n < max; bit++) /* one bit off, in turn */
                out[n++] = c->value ^ 1u << bit;
        }
    qsort(out, n, sizeof *out, by_value);
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (!kept || out[kept - 1] != out[i])
            out[kept++] = out[i];
    return kept;
}

static void one_call(enum seccomp_kind kind, const struct program *p, int nr, const char *name,
                     size_t *judged) {
    static const uint64_t upper[] = {0, 1ull << 32, 1ull << 40, 0xffffffffull << 32};
    uint64_t first[600], second[600];
    struct reading table = reading_of(kind, name);
    bool looked[CALLS_ARGS] = {0};
    for (size_t i = 0; i < calls_nrows; i++)
        for (size_t k = 0; k < CALLS_CONDS_MAX; k++)
            if (!strcmp(calls_rows[i].names, name) && calls_rows[i].cond[k].mask)
                looked[calls_rows[i].cond[k].arg] = true;
    unsigned args[2] = {0, 1}, n = 0;
    for (unsigned a = 0; a < CALLS_ARGS && n < 2; a++)
        if (looked[a])
            args[n++] = a;
    if (n == 1)
        args[1] = args[0] ? 0 : 1;
    size_t nf = n ? edges(name, args[0], first, COUNT(first)) : 1,
           ns = n > 1 ? edges(name, args[1], second, COUNT(second)) : 1;
    if (!n)
        first[0] = 0;
    if (n < 2)
        second[0] = 0;
    for (size_t f = 0; f < nf; f++)
        for (size_t s = 0; s < ns; s++)
            for (size_t u = 0; u < COUNT(upper); u++) {
                uint64_t v[CALLS_ARGS] = {0};
                v[args[0]] = first[f] | upper[u];
                v[args[1]] = second[s] | upper[COUNT(upper) - 1 - u];
                uint32_t got = ask(p, nr, v), want = answer_of(verdict_of(&table, v));
                if (got != want)
                    fail_msg("%s: %s(arg%u %#llx, arg%u %#llx): %#x, the table says %#x", kinds[kind], name,
                             args[0], (unsigned long long)v[args[0]], args[1], (unsigned long long)v[args[1]],
                             got, want);
                ++*judged;
            }
}

static void filter_equals_table(void **state) {
    (void)state;
    for (enum seccomp_kind kind = 0; kind < SECCOMP_COUNT; kind++) {
        struct program p = load(kind);
        size_t judged = 0;
        for (int nr = 0; nr < 600; nr++) {
            own_free char *name = seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, nr);
            one_call(kind, &p, nr, name ? name : "", &judged);
        }
        print_message("%s: %zu instructions, %zu answers judged\n", kinds[kind], p.n, judged);
        free(p.f);
    }
}

static void other_architectures_end_the_process(void **state) {
    (void)state;
    static const uint32_t arches[] = {
        AUDIT_ARCH_I386, AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64, AUDIT_ARCH_ARM, 0, UINT32_MAX};
    for (enum seccomp_kind kind = 0; kind < SECCOMP_COUNT; kind++) {
        struct program p = load(kind);
        for (size_t i = 0; i < COUNT(arches); i++)
            for (int nr = 0; nr < 600; nr++) {
                struct seccomp_data d = {.nr = nr, .arch = arches[i]};
                if (arches[i] != seccomp_arch_native())
                    assert_int_equal(run(&p, &d), SECCOMP_RET_KILL_PROCESS);
            }
        for (int nr = 0; nr < 600 && seccomp_arch_native() == AUDIT_ARCH_X86_64; nr++) { /* x32 */
            struct seccomp_data d = {.nr = nr | 0x40000000, .arch = AUDIT_ARCH_X86_64};
            assert_int_equal(run(&p, &d), SECCOMP_RET_KILL_PROCESS);
        }
        free(p.f);
    }
}

/* What must hold, said by hand and not from the table: a slip in the table turns this red. */
static void sharp_rows(void **state) {
    (void)state;
    static const struct {
        const char *name;
        uint64_t args[CALLS_ARGS];
        int verdict[SECCOMP_COUNT];
    } rows[] = {
        {"unshare", {CLONE_NEWUSER}, {0, EPERM, EPERM}},
        {"unshare", {1}, {0, EPERM, EPERM}},
        {"clone", {CLONE_NEWUSER | 17}, {0, EPERM, EPERM}},
        {"clone", {CLONE_NEWUSER | 1ull << 40}, {0, EPERM, EPERM}},
        {"clone", {CLONE_NEWNET}, {0, EPERM, EPERM}},
        {"clone", {0x3d0f00}, {0, 0, 0}}, /* a thread */
        {"clone3", {0}, {0, ENOSYS, ENOSYS}},
        {"setns", {0}, {EPERM, EPERM, EPERM}},
        {"socket", {AF_VSOCK, SOCK_STREAM}, {EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT}},
        {"socket", {AF_VSOCK | 1ull << 33, SOCK_STREAM}, {EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT}},
        {"socket", {AF_ALG, SOCK_SEQPACKET}, {EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT}},
        {"socket", {AF_PACKET, SOCK_RAW}, {EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT}},
        {"socket", {AF_INET6, SOCK_DGRAM}, {0, 0, 0}},
        {"socket", {AF_NETLINK, SOCK_RAW, 0}, {0, 0, EAFNOSUPPORT}},
        {"socket", {AF_NETLINK, SOCK_RAW, 12}, {EPROTONOSUPPORT, EPROTONOSUPPORT, EAFNOSUPPORT}},
        {"socketpair", {AF_UNIX, SOCK_STREAM}, {0, 0, 0}},
        {"socketpair", {AF_TIPC, SOCK_STREAM}, {EAFNOSUPPORT, EAFNOSUPPORT, EAFNOSUPPORT}},
        {"io_uring_setup", {0}, {ENOSYS, ENOSYS, ENOSYS}},
        {"keyctl", {0}, {EPERM, EPERM, EPERM}},
        {"bpf", {0}, {EPERM, EPERM, EPERM}},
        {"ptrace", {16}, {EPERM, EPERM, EPERM}},
        {"ptrace", {0x4206}, {EPERM, EPERM, EPERM}},
        {"ptrace", {0}, {0, EPERM, EPERM}},
        {"ioctl", {0, 0x5412}, {EPERM, EPERM, EPERM}},
        {"ioctl", {0, 0x5412 | 0x123ull << 32}, {EPERM, EPERM, EPERM}},
        {"ioctl", {0, 0x541c}, {EPERM, EPERM, EPERM}},
        {"ioctl", {0, 0x5413}, {0, 0, 0}},
        {"chmod", {0, 04755}, {EPERM, EPERM, EPERM}},
        {"fchmodat", {0, 0, 02755}, {EPERM, EPERM, EPERM}},
        {"fchmod", {0, 01777}, {0, 0, 0}},
        {"openat", {0, 0, 0101, 04755}, {EPERM, EPERM, EPERM}},
        {"openat", {0, 0, 020200002, 02600}, {EPERM, EPERM, EPERM}}, /* O_TMPFILE */
        {"openat", {0, 0, 0, 06000}, {0, 0, 0}}, /* no file is made: the mode is not looked at */
        {"openat2", {0}, {ENOSYS, ENOSYS, ENOSYS}},
        {"mknodat", {0, 0, 0104755}, {EPERM, EPERM, EPERM}},
        {"mount", {0}, {0, EPERM, EPERM}},
        {"open_tree", {0}, {EPERM, EPERM, EPERM}},
        {"mount_setattr", {0}, {EPERM, EPERM, EPERM}},
        {"personality", {0x400000}, {EPERM, EPERM, EPERM}},
        {"personality", {0xffffffff}, {0, 0, 0}},
        {"setsockopt", {3, 41, 57}, {EPERM, EPERM, EPERM}},
        {"setsockopt", {3, 0, 4}, {EPERM, EPERM, EPERM}},
        {"setsockopt", {3, 41, 26}, {0, 0, 0}}, /* IPV6_V6ONLY */
        {"setsockopt", {3, 1, 4}, {0, 0, 0}},
        {"vmsplice", {0}, {EPERM, EPERM, EPERM}},
        {"name_to_handle_at", {0}, {EPERM, EPERM, EPERM}},
        {"chroot", {0}, {0, EPERM, EPERM}},
        {"execve", {0}, {0, 0, 0}},
        {"fork", {0}, {0, 0, ENOSYS}},
    };
    for (enum seccomp_kind kind = 0; kind < SECCOMP_COUNT; kind++) {
        struct program p = load(kind);
        for (size_t i = 0; i < COUNT(rows); i++) {
            int nr = seccomp_syscall_resolve_name(rows[i].name);
            if (nr < 0)
                continue; /* not on this architecture */
            uint32_t got = ask(&p, nr, rows[i].args), want = answer_of(rows[i].verdict[kind]);
            if (got != want)
                fail_msg("%s: row %zu, %s: %#x and not %#x", kinds[kind], i, rows[i].name, got, want);
        }
        free(p.f);
    }
}

/* The profile that podman gets holds the same rules: as many, each a masked comparison, ENOSYS by default. */
static void profile_is_the_same_table(void **state) {
    (void)state;
    for (enum seccomp_kind kind = 0; kind < SECCOMP_COUNT; kind++) {
        size_t n;
        own_free struct calls_rule *rules = calls_rules(kind, &n);
        own_free char *text = seccomp_profile(kind);
        json_t *o = json_loads(text, 0, NULL), *calls = json_object_get(o, "syscalls");
        assert_int_equal(json_array_size(calls), n);
        assert_int_equal(json_array_size(json_object_get(o, "architectures")), 1);
        assert_int_equal(json_integer_value(json_object_get(o, "defaultErrnoRet")), ENOSYS);
        for (size_t i = 0; i < n; i++) {
            json_t *c = json_array_get(calls, i), *args = json_object_get(c, "args");
            assert_string_equal(json_string_value(json_array_get(json_object_get(c, "names"), 0)),
                                rules[i].name);
            assert_int_equal(json_integer_value(json_object_get(c, "errnoRet")), rules[i].verdict);
            assert_int_equal(json_array_size(args), rules[i].nconds);
            for (size_t k = 0; k < rules[i].nconds; k++) {
                json_t *a = json_array_get(args, k);
                assert_string_equal(json_string_value(json_object_get(a, "op")), "SCMP_CMP_MASKED_EQ");
                assert_int_equal(json_integer_value(json_object_get(a, "index")), rules[i].cond[k].arg);
                assert_int_equal(json_integer_value(json_object_get(a, "value")), rules[i].cond[k].mask);
                assert_int_equal(json_integer_value(json_object_get(a, "valueTwo")), rules[i].cond[k].value);
            }
        }
        json_decref(o);
    }
}

/* No name is spoken of unconditionally twice for one kind (the second line would be dead), and each is short
 * enough. */
static void no_dead_lines(void **state) {
    (void)state;
    for (size_t i = 0; i < calls_nrows; i++) {
        own_free char *names = xstrdup(calls_rows[i].names);
        char *at = names;
        for (char *name; (name = strsep(&at, " "));) {
            assert_in_range(strlen(name), 1, CALLS_NAME_MAX - 1);
            bool reached = false;
            for (enum seccomp_kind k = 0; k < SECCOMP_COUNT; k++) {
                if (!(calls_rows[i].kinds & 1u << k))
                    continue;
                uint64_t args[CALLS_ARGS] = {1, 1, 1, 1, 1, 1};
                for (size_t c = 0; c < CALLS_CONDS_MAX; c++)
                    if (calls_rows[i].cond[c].mask)
                        args[calls_rows[i].cond[c].arg] = calls_rows[i].cond[c].value;
                struct reading table = reading_of(k, name);
                bool conditional = calls_rows[i].cond[0].mask != 0;
                reached |= conditional ? verdict_of(&table, args) == calls_rows[i].verdict : true;
            }
            assert_true(reached);
        }
    }
}

int main(void) {
    if (seccomp_api_get() < 3)
        return 77; /* Valgrind 3.19 hides seccomp(2) from the library: not judged there */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filter_equals_table), cmocka_unit_test(other_architectures_end_the_process),
        cmocka_unit_test(sharp_rows),          cmocka_unit_test(profile_is_the_same_table),
        cmocka_unit_test(no_dead_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
