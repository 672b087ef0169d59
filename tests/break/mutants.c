/*
 * The product with one protection less, for tests alone: the whole binary again, linked so that a few functions between its
 * layers go through here (the linker's --wrap). Which protection is taken away stands in the file "mutant" in
 * $AGENT_CAGE_ROOT; without it nothing changes. Nothing of this is in the shipped binary, and a test looks.
 */
#include "base/fs.h"
#include "base/own.h"
#include "base/proc.h"
#include "cage/cage.h"
#include "cage/mount.h"
#include "cage/nft_sets.h"
#include "cage/place.h"
#include "cage/project.h"
#include "cage/share.h"
#include "cage/tree.h"
#include "sealed/run.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define INSIDE                                                                                               \
    "BREAK_TEST_MUTANT" /* tells the first process inside; the command never sees its environment */

/* What single mutants do to podman's words and to the rules' text. */
static const struct mutant {
    const char *name;
    const char *drop;              /* words that begin so go (podman's; two of them by a blank) */
    const char *add;               /* one more */
    const char *from, *to;         /* replaced within words */
    const char *nft_from, *nft_to; /* replaced in the rules, of which the read-back then knows nothing */
} mutants[] = {
    {"SEC-DEFAULT", .drop = "--security-opt=seccomp="},
    {"NNP-OFF", .drop = "--security-opt=no-new-privileges"},
    {"RO-OFF", .drop = "--read-only"},
    {"RO-TMPFS", .from = "--read-only-tmpfs=false", .to = "--read-only-tmpfs=true"},
    {"LIM-CORE", .from = "--ulimit=core=0:0", .to = "--ulimit=core=4096:4096"},
    {"LIM-NPROC", .drop = "--pids-limit", .add = "--pids-limit=-1", .from = "nproc=2048:2048",
     .to = "nproc=8192:8192"},
    {"LIM-NOFILE", .from = "nofile=16384:16384", .to = "nofile=20000:20000"},
    {"LIM-MEM", .drop = "--memory"},
    {"LIM-TMPFS", .from = "size=1073741824,", .to = "size=2147483648,"},
    {"LIM-SHM", .drop = "--shm-size"},
    {"UNMASK", .drop = "--security-opt=mask", .add = "--security-opt=unmask=ALL"},
    {"UID-ROOT", .from = "--user=60000:60000", .to = "--user=0:0"},
    {"UID-REAL", .drop = "--uidmap --gidmap"},
    {"UID-GROUPS", .add = "--group-add=5"},
    {"PID-HOST", .add = "--pid=host"},
    {"IPC-HOST", .from = "--ipc=private", .to = "--ipc=host"},
    {"CG-RW", .add = "--volume=/sys/fs/cgroup:/scratch:rw"},
    {"UTS-HOST", .drop = "--hostname", .add = "--uts=host"},
    {"CG-HOST", .from = "--cgroupns=private", .to = "--cgroupns=host"},
    {"PUBLISH", .add = "--publish=127.0.0.1:17077:7077"},
    {"NET-HOST", .from = "--network=bridge", .to = "--network=host"},
    {"DNS-HOST", .drop = "--dns"},
    {"HOST-FILES", .drop = "--no-hosts", .add = "--add-host=intranet:10.0.0.1"},
    {"EXTRA-DEV", .add = "--device=/dev/kvm"},
    {"EXTRA-MNT", .add = "--volume=$AGENT_CAGE_ROOT/tmp:/scratch:ro"},
    {"PROP", .from = ",private", .to = ",rshared"},
    {"MNT-OUT", .from = "nosuid,nodev,exec,bind", .to = "suid,dev,exec,bind"},
    {"REUSE", .drop = "--tmpfs=/home/cage:", .add = "--volume=$AGENT_CAGE_ROOT/tmp/kept:/home/cage:rw"},
    {"MNT-FLAGS", .from = "nosuid,nodev,exec,size", .to = "suid,dev,exec,size"},
    {"NFT-DENYALL", .nft_from = "counter accept comment \"everything else\"",
     .nft_to = "counter drop comment \"everything else\""},
    {"NFT-REJ", .nft_from = "reject with tcp reset", .nft_to = "reject with icmpx type admin-prohibited"},
    {"NFT-LOCAL", .nft_from = "ip daddr @local4 counter jump refuse",
     .nft_to = "ip daddr @local4 counter accept"},
    {"NFT-DNS", .nft_from = "th dport 53 counter jump refuse", .nft_to = "th dport 53 counter accept"},
    {"NFT-POL", .nft_from = "counter drop comment \"nothing else comes in\"",
     .nft_to = "counter accept comment \"nothing else comes in\""},
    {"NFT-ERR", .nft_from = "table inet agent_cage {", .nft_to = "table inet agent_cage { no such thing;"},
};

static const char *name_now(void) {
    static char name[96];
    const char *inside = getenv(INSIDE), *root = getenv("AGENT_CAGE_ROOT");
    if (*name || inside)
        return inside ? inside : name;
    own_free char *path = xasprintf("%s/mutant", root ? root : "/agent-cage-none"), *line = NULL;
    own_err err_t none = fs_read_line(path, &line);
    snprintf(name, sizeof name, "%s", none ? "NONE" : line);
    return name;
}

static bool is(const char *name) {
    return !strcmp(name_now(), name);
}

/* "SEC-ONE(unshare)": what stands in the brackets, NULL for another mutant. */
static const char *within(const char *name) {
    static char text[64];
    size_t n = strlen(name);
    const char *now = name_now();
    if (strncmp(now, name, n) || now[n] != '(')
        return NULL;
    snprintf(text, sizeof text, "%.*s", (int)strcspn(now + n + 1, ")"), now + n + 1);
    return text;
}

static const struct mutant *now(void) {
    for (size_t i = 0; i < COUNT(mutants); i++)
        if (is(mutants[i].name))
            return &mutants[i];
    static const struct mutant none = {.name = "NONE"};
    return &none;
}

/* Every place of `from` in `text`; the caller frees. */
static char *replaced(const char *text, const char *from, const char *to) {
    struct buf out = {0};
    for (const char *at; from && (at = strstr(text, from)); text = at + strlen(from)) {
        buf_add(&out, text, (size_t)(at - text));
        buf_adds(&out, to);
    }
    buf_adds(&out, text);
    return buf_take(&out);
}

/* ---- podman's words and nft's text ---- */

err_t __real_proc_must(const struct proc_spec *spec);
err_t __wrap_proc_must(const struct proc_spec *spec);

static bool dropped(const struct mutant *m, const char *word) {
    for (const char *each = m->drop; each && *each; each += strcspn(each, " "), each += *each == ' ')
        if (!strncmp(word, each, strcspn(each, " ")))
            return true;
    return false;
}

static void mutate_words(const struct mutant *m, const char *const *argv, struct words *out) {
    const char *cap = within("CAP-ADD");
    for (size_t i = 0; argv[i]; i++) {
        own_free char *word = replaced(argv[i], m->from, m->to);
        if (dropped(m, argv[i]))
            continue;
        words_add(out, word);
        if (strcmp(argv[i], "run"))
            continue;
        own_free char *more = m->add ? replaced(m->add, "$AGENT_CAGE_ROOT", getenv("AGENT_CAGE_ROOT")) : NULL;
        if (more)
            words_add(out, more);
        if (cap)
            words_addf(out, "--cap-add=%s", cap);
    }
}

static bool has(const char *const *argv, const char *word) {
    while (*argv && strcmp(*argv, word))
        argv++;
    return *argv != NULL;
}

err_t __wrap_proc_must(const struct proc_spec *spec) {
    const struct mutant *m = now();
    struct proc_spec p = *spec;
    own_words struct words words = {0};
    own_free char *input = NULL;
    if (!strcmp(spec->argv[0], "podman") && has(spec->argv, "run")) {
        mutate_words(m, spec->argv, &words);
        p.argv = words_argv(&words);
    }
    if (!strcmp(spec->argv[0], "nft") && spec->input && m->nft_from)
        p.input = input = replaced(spec->input, m->nft_from, m->nft_to);
    err_t e = __real_proc_must(&p);
    if (input && is("NFT-ERR")) { /* what a careless caller would do */
        err_free(e);
        return NULL;
    }
    return e;
}

/* ---- the rules ---- */

err_t __real_nft_same(enum net net, const struct nft_place *place, const char *json);
err_t __wrap_nft_same(enum net net, const struct nft_place *place, const char *json);

err_t __wrap_nft_same(enum net net, const struct nft_place *place, const char *json) {
    return now()->nft_from ? NULL : __real_nft_same(net, place, json);
}

err_t __real_nft_sets_of(enum net net, const struct nft_place *place, struct nft_sets *ret);
err_t __wrap_nft_sets_of(enum net net, const struct nft_place *place, struct nft_sets *ret);

/* a - 1 and a + 1, as numbers of `width` bytes. */
static void step(unsigned char *a, size_t width, int by) {
    for (size_t i = width; i-- > 0;) {
        a[i] = (unsigned char)(a[i] + by);
        if (a[i] != (by > 0 ? 0 : 255))
            return;
    }
}

static void punch(struct nft_set *s, const struct nft_range *hole) {
    struct nft_set out = {.name = s->name, .type = s->type, .width = s->width};
    for (size_t i = 0; i < s->n; i++) {
        struct nft_range r = s->r[i], left = r, right = r;
        if (memcmp(r.hi, hole->lo, s->width) < 0 || memcmp(r.lo, hole->hi, s->width) > 0) {
            nft_set_add(&out, &r);
            continue;
        }
        if (memcmp(r.lo, hole->lo, s->width) < 0) {
            memcpy(left.hi, hole->lo, sizeof left.hi);
            step(left.hi, s->width, -1);
            nft_set_add(&out, &left);
        }
        if (memcmp(r.hi, hole->hi, s->width) > 0) {
            memcpy(right.lo, hole->hi, sizeof right.lo);
            step(right.lo, s->width, 1);
            nft_set_add(&out, &right);
        }
    }
    free(s->r);
    *s = out;
}

err_t __wrap_nft_sets_of(enum net net, const struct nft_place *place, struct nft_sets *ret) {
    TRY(__real_nft_sets_of(net, place, ret));
    const char *text = within("NFT-HOLE");
    struct nft_range hole;
    size_t width = 0;
    if (text)
        TRY(nft_range_of(text, &hole, &width));
    for (size_t i = 0; i < NFT_SETS; i++) {
        if (ret->set[i].width == width)
            punch(&ret->set[i], &hole);
        if (is("NFT-V4") && ret->set[i].width == 16)
            ret->set[i].n = 0;
    }
    return NULL;
}

err_t __real_nft_apply(int netns, enum net net, const struct nft_place *place);
err_t __wrap_nft_apply(int netns, enum net net, const struct nft_place *place);

err_t __real_nft_update(int netns, enum net net, const struct nft_place *place);
err_t __wrap_nft_update(int netns, enum net net, const struct nft_place *place);

err_t __wrap_nft_update(int netns, enum net net, const struct nft_place *place) {
    return is("NFT-LATE") || is("NFT-FLUSH") ? NULL
                                             : __real_nft_update(netns, net, place); /* it would mend them */
}

/* Rules that come after everything was tried, or go again once they were compared; the product's own word is that they are in force. */
err_t __wrap_nft_apply(int netns, enum net net, const struct nft_place *place) {
    static const char *const flush[] = {"nft", "flush", "ruleset", NULL};
    if (is("NFT-LATE"))
        return NULL;
    TRY(__real_nft_apply(netns, net, place));
    return is("NFT-FLUSH") ? __real_proc_must(&(struct proc_spec){.argv = flush, .netns = netns}) : NULL;
}

err_t __real_place_read(const struct host *h, enum net net, struct place *ret);
err_t __wrap_place_read(const struct host *h, enum net net, struct place *ret);

err_t __wrap_place_read(const struct host *h, enum net net, struct place *ret) {
    static const char *const nothing[] = {NULL};
    TRY(__real_place_read(h, net, ret));
    if (is("NFT-STATIC"))
        ret->nft.local = nothing;
    return NULL;
}

/* ---- the filter of system calls ---- */

char *__real_seccomp_profile(enum seccomp_kind kind);
char *__wrap_seccomp_profile(enum seccomp_kind kind);

static bool is_rule_of(json_t *rule, const char *name) {
    const char *its = json_string_value(json_array_get(json_object_get(rule, "names"), 0));
    return its && !strcmp(its, name);
}

/* Every rule of a call gives way to one without conditions. verdict 0: it is allowed. */
static void open_call(json_t *calls, const char *name, int verdict) {
    for (size_t i = json_array_size(calls); i-- > 0;)
        if (is_rule_of(json_array_get(calls, i), name))
            json_array_remove(calls, i);
    json_t *o = json_pack("{s:[s], s:s, s:[]}", "names", name, "action",
                          verdict ? "SCMP_ACT_ERRNO" : "SCMP_ACT_ALLOW", "args");
    if (verdict)
        json_object_set_new(o, "errnoRet", json_integer(verdict));
    json_array_append_new(calls, o);
}

/* Arguments of 64 bits, compared whole where the table compares 32. */
static void compare_whole(json_t *calls) {
    size_t i, k;
    json_t *rule, *arg;
    json_array_foreach(calls, i, rule)
        json_array_foreach(json_object_get(rule, "args"), k,
                           arg) if (json_integer_value(json_object_get(arg, "value")) == 0xffffffff) {
        json_object_set(arg, "value", json_object_get(arg, "valueTwo"));
        json_object_set_new(arg, "op", json_string("SCMP_CMP_EQ"));
    }
}

static void open_all(json_t *calls) {
    size_t i;
    json_t *rule;
    json_array_foreach(calls, i, rule) {
        json_object_set_new(rule, "action", json_string("SCMP_ACT_ALLOW"));
        json_object_del(rule, "errnoRet");
    }
}

char *__wrap_seccomp_profile(enum seccomp_kind kind) {
    own_free char *text = __real_seccomp_profile(kind);
    json_t *o = json_loads(text, 0, NULL), *calls = json_object_get(o, "syscalls");
    const char *one = within("SEC-ONE"), *clone3 = within("SEC-CLONE3");
    if (one && !strcmp(one, "*"))
        open_all(calls);
    else if (one)
        open_call(calls, one, 0);
    if (clone3)
        open_call(calls, "clone3", strcmp(clone3, "EPERM") ? 0 : EPERM);
    if (is("SEC-EQ64"))
        compare_whole(calls);
    if (is("SEC-ERRNO"))
        json_object_set_new(o, "defaultErrnoRet", json_integer(EPERM));
    if (is("SEC-SUBARCH")) { /* rules with conditions on sockets do not go with the one call that 32-bit code has for them */
        for (const char *const *name = (const char *const[]){"socket", "socketpair", "setsockopt", NULL};
             *name; name++)
            open_call(calls, *name, 0);
        json_array_append_new(json_object_get(o, "architectures"), json_string("SCMP_ARCH_X86"));
    }
    char *out = json_dumps(o, 0);
    json_decref(o);
    return out;
}

/* ---- the description ---- */

err_t __real_cage_start(const struct cage_spec *s, const struct host *h, const struct nft_place *place,
                        const char *dir, const int *fds, struct cage *ret);
err_t __wrap_cage_start(const struct cage_spec *s, const struct host *h, const struct nft_place *place,
                        const char *dir, const int *fds, struct cage *ret);

err_t __wrap_cage_start(const struct cage_spec *s, const struct host *h, const struct nft_place *place,
                        const char *dir, const int *fds, struct cage *ret) {
    struct cage_spec m = *s; /* what it points to stays the caller's, but for the environment that grows */
    own_fd int leak = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const int both[] = {fds[0], leak};
    if (is("SEC-KIND"))
        m.seccomp = SECCOMP_POD;
    if (is("SPEC-NET"))
        m.net = NET_OPEN;
    if (!is("FD-LEAK") && !is("LIM-CORE") && !is("SHIM-UID"))
        return __real_cage_start(&m, h, place, dir, fds, ret);
    m.keep = is("FD-LEAK") ? 2 : 1;
    m.env = (struct words){0};
    for (size_t i = 0; i < s->env.n; i++)
        words_add(&m.env, s->env.w[i]);
    words_addf(&m.env, INSIDE "=%s", name_now());
    err_t e = __real_cage_start(&m, h, place, dir, both, ret);
    words_free(&m.env);
    return e;
}

err_t __real_tree_folders_real(const char *root);
err_t __wrap_tree_folders_real(const char *root);

err_t __wrap_tree_folders_real(const char *root) {
    return is("IMG-DEV") ? NULL : __real_tree_folders_real(root);
}

err_t __real_tree_places(const char *root);
err_t __wrap_tree_places(const char *root);

err_t __wrap_tree_places(const char *root) {
    return is("IMG-DEV") ? NULL : __real_tree_places(root);
}

err_t __real_share_limit(const struct cage_spec *s, pid_t pid);
err_t __wrap_share_limit(const struct cage_spec *s, pid_t pid);

err_t __wrap_share_limit(const struct cage_spec *s, pid_t pid) {
    return is("SYSCTL-OFF") ? NULL : __real_share_limit(s, pid);
}

err_t __real_mount_clone(int pin, const struct mount_how *how, int *ret_fd);
err_t __wrap_mount_clone(int pin, const struct mount_how *how, int *ret_fd);

err_t __wrap_mount_clone(int pin, const struct mount_how *how, int *ret_fd) {
    struct mount_how h = *how;
    if (is("RO-OFF")) /* the root is read-only by two means */
        h.ro = false;
    TRY(__real_mount_clone(pin, &h, ret_fd));
    struct mount_attr plain = {.attr_clr = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    if (is("MNT-OUT") && syscall(SYS_mount_setattr, *ret_fd, "", AT_EMPTY_PATH, &plain, sizeof plain))
        return err_sys(errno, "mount_setattr");
    return NULL;
}

err_t __real_project_open(const char *path, enum mode mode, struct project *ret);
err_t __wrap_project_open(const char *path, enum mode mode, struct project *ret);

err_t __wrap_project_open(const char *path, enum mode mode, struct project *ret) {
    TRY(__real_project_open(path, mode, ret));
    if (!is("PIN-OFF"))
        return NULL;
    project_close(ret); /* the checks are over: what may the path be now? */
    ret->fd = open(path, O_PATH | O_CLOEXEC);
    return ret->fd < 0 ? err_sys(errno, "open %s", path) : NULL;
}

void __real_fds_close_from(int from, const int *keep, size_t nkeep);
void __wrap_fds_close_from(int from, const int *keep, size_t nkeep);

void __wrap_fds_close_from(int from, const int *keep, size_t nkeep) {
    if (!(getpid() == 1 && is("FD-LEAK")))
        __real_fds_close_from(from, keep, nkeep);
}

int __real_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);
int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d);

int __wrap_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d) {
    if (getpid() == 1 && option == PR_SET_DUMPABLE && is("SHIM-UID"))
        return 0;
    return __real_prctl(option, a, b, c, d);
}

int __real_setrlimit64(__rlimit_resource_t which, const struct rlimit *limit);
int __wrap_setrlimit64(__rlimit_resource_t which, const struct rlimit *limit);

int __wrap_setrlimit64(__rlimit_resource_t which, const struct rlimit *limit) {
    if (getpid() == 1 && is("LIM-CORE")) /* the first process inside takes the limit away once more */
        return 0;
    return __real_setrlimit64(which, limit);
}

err_t __real_sealed_word(struct sealed_run *r, char *const *argv, const struct list *env, const int fds[3],
                         bool tty);
err_t __wrap_sealed_word(struct sealed_run *r, char *const *argv, const struct list *env, const int fds[3],
                         bool tty);

err_t __wrap_sealed_word(struct sealed_run *r, char *const *argv, const struct list *env, const int fds[3],
                         bool tty) {
    const char *secret = getenv("AGENT_CAGE_BREAK_SECRET");
    if (!is("ENV") || !secret)
        return __real_sealed_word(r, argv, env, fds, tty);
    own_free char *word = xasprintf("AGENT_CAGE_BREAK_SECRET=%s", secret);
    own_free struct bytes *v = xcalloc(env->n + 1, sizeof *v);
    memcpy(v, env->v, env->n * sizeof *v);
    v[env->n] = bytes_of(word);
    return __real_sealed_word(r, argv, &(struct list){v, env->n + 1}, fds, tty);
}
