/*
 * From "first match wins" to rules without an order.
 *
 * libseccomp, and the profile that podman reads, know no order: rules of one call must not overlap. So each
 * call starts with the set of all its arguments, kept as cubes (for each argument some bits fixed, the rest
 * free); each line of the table cuts its own cube out of what is left. Cutting a cube that fixes n more bits
 * leaves at most n cubes: the k-th agrees on the first k-1 of these bits and differs in the k-th. What is
 * left at the end needs no rule: it is ENOSYS.
 */
#include "cage/calls.h"

#include "base/own.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/socket.h>

#define POD (1u << SECCOMP_POD)
#define SEALED (1u << SECCOMP_SEALED)
#define AGENT (1u << SECCOMP_AGENT)
#define EVERY (POD | SEALED | AGENT)

#define ALL_BITS 0xffffffffu
#define SET_ID_BITS 06000u
#define TMPFILE_BIT 020000000u /* O_TMPFILE without the O_DIRECTORY that is part of it */
#define NAMESPACE_BITS                                                                                       \
    ((uint32_t)(CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | \
                CLONE_NEWNET))
#define LEVEL_BITS 0xffu
#define OPTION_BITS 0x7fu

#define ARG(i, m, v)                                                                                         \
    { .arg = (i), .mask = (uint32_t)(m), .value = (uint32_t)(v) }
#define ALLOW(k, n) {.kinds = (k), .verdict = 0, .names = (n)},
#define REFUSE(k, e, n) {.kinds = (k), .verdict = (e), .names = (n)},
#define ALLOW_IF(k, n, ...) {.kinds = (k), .verdict = 0, .names = (n), .cond = {__VA_ARGS__}},
#define REFUSE_IF(k, e, n, ...) {.kinds = (k), .verdict = (e), .names = (n), .cond = {__VA_ARGS__}},

const struct calls_row calls_rows[] = {
#include "cage/syscalls.def"
};
const size_t calls_nrows = COUNT(calls_rows);

/* Some bits of each argument fixed; value has no bit outside mask. */
struct cube {
    uint32_t mask[CALLS_ARGS], value[CALLS_ARGS];
};

struct cubes {
    struct cube *c;
    size_t n;
};

static void cubes_add(struct cubes *s, const struct cube *c) {
    s->c = xrealloc(s->c, s->n + 1, sizeof *s->c);
    s->c[s->n++] = *c;
}

static struct cube cube_of(const struct calls_row *row) {
    struct cube c = {0};
    for (size_t i = 0; i < CALLS_CONDS_MAX; i++) {
        c.mask[row->cond[i].arg] |= row->cond[i].mask;
        c.value[row->cond[i].arg] |= row->cond[i].value & row->cond[i].mask;
    }
    return c;
}

/* What two cubes have in common; false: nothing. */
static bool cube_meet(const struct cube *a, const struct cube *b, struct cube *ret) {
    for (size_t i = 0; i < CALLS_ARGS; i++) {
        if ((a->mask[i] & b->mask[i]) & (a->value[i] ^ b->value[i]))
            return false;
        ret->mask[i] = a->mask[i] | b->mask[i];
        ret->value[i] = a->value[i] | b->value[i];
    }
    return true;
}

/* a without b, which meet, as cubes that do not overlap, appended to out. */
static void cube_cut(struct cube a, const struct cube *b, struct cubes *out) {
    for (size_t i = 0; i < CALLS_ARGS; i++)
        for (int k = 31; k >= 0; k--) {
            uint32_t bit = 1u << k;
            if (!(b->mask[i] & ~a.mask[i] & bit))
                continue;
            a.mask[i] |= bit;
            a.value[i] |= ~b->value[i] & bit;
            cubes_add(out, &a);
            a.value[i] ^= bit;
        }
}

struct rules {
    struct calls_rule *r;
    size_t n;
};

static void rule_add(struct rules *rules, const char *name, int verdict, const struct cube *c) {
    rules->r = xrealloc(rules->r, rules->n + 1, sizeof *rules->r);
    struct calls_rule *r = &rules->r[rules->n++];
    *r = (struct calls_rule){.verdict = verdict};
    snprintf(r->name, sizeof r->name, "%s", name);
    for (unsigned i = 0; i < CALLS_ARGS; i++)
        if (c->mask[i])
            r->cond[r->nconds++] = (struct calls_cond){.arg = i, .mask = c->mask[i], .value = c->value[i]};
}

/* The next name of a list into name; false at its end. */
static bool next_name(const char **list, char name[CALLS_NAME_MAX]) {
    size_t n = strcspn(*list += strspn(*list, " "), " ");
    snprintf(name, CALLS_NAME_MAX, "%.*s", (int)n, *list);
    *list += n;
    return n > 0;
}

static bool row_names(const struct calls_row *row, enum seccomp_kind kind, const char *name) {
    char each[CALLS_NAME_MAX];
    if (!(row->kinds & 1u << kind))
        return false;
    for (const char *at = row->names; next_name(&at, each);)
        if (!strcmp(each, name))
            return true;
    return false;
}

static void rules_of_call(struct rules *rules, enum seccomp_kind kind, const char *name) {
    struct cubes left = {0};
    cubes_add(&left, &(struct cube){0});
    for (size_t i = 0; i < calls_nrows && left.n; i++) {
        if (!row_names(&calls_rows[i], kind, name))
            continue;
        struct cube row = cube_of(&calls_rows[i]), both;
        struct cubes rest = {0};
        for (size_t k = 0; k < left.n; k++) {
            if (!cube_meet(&left.c[k], &row, &both)) {
                cubes_add(&rest, &left.c[k]);
                continue;
            }
            rule_add(rules, name, calls_rows[i].verdict, &both);
            cube_cut(left.c[k], &row, &rest);
        }
        free(left.c);
        left = rest;
    }
    free(left.c);
}

static bool rules_have(const struct rules *rules, const char *name) {
    for (size_t i = rules->n; i-- > 0;)
        if (!strcmp(rules->r[i].name, name))
            return true;
    return false;
}

struct calls_rule *calls_rules(enum seccomp_kind kind, size_t *ret_n) {
    struct rules rules = {0};
    char name[CALLS_NAME_MAX];
    for (size_t i = 0; i < calls_nrows; i++) {
        if (!(calls_rows[i].kinds & 1u << kind))
            continue;
        for (const char *at = calls_rows[i].names; next_name(&at, name);)
            if (!rules_have(&rules, name))
                rules_of_call(&rules, kind, name);
    }
    *ret_n = rules.n;
    return rules.r;
}
