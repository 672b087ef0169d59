/*
 * Trees are made beside their place and renamed when whole: .new-PID/root, then <hash>/root. A lock file keeps two fleets
 * with one image_dir from making the same tree twice; what lies in a .new-* while nobody holds it was left by a build that
 * was killed.
 *
 * A build mounts and starts much. It has a mount and a PID namespace of its own, whose first process dies with us: so
 * nothing of it goes on, or stays mounted, once this process has ended, however that was.
 */
#include "cage/image.h"
#include "cage/half.h"

#include "base/escape.h"
#include "base/fs.h"
#include "base/hex.h"
#include "base/own.h"
#include "base/proc.h"
#include "cage/tree.h"
#include "cage/words.h"

#include <errno.h>
#include <openssl/evp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

/* Changing anything here makes a new hash, and so a new tree. */
#define SUITE "bookworm"
#define VARIANT "minbase"
static const char *const packages[] = {
    /* shells' and builds' everyday words */
    "bash", "bzip2", "ca-certificates", "curl", "file", "gawk", "git", "jq", "less", "openssh-client",
    "patch", "procps", "psmisc", "ripgrep", "rsync", "tree", "unzip", "xz-utils", "zip", "zstd",
    /* C, C++ */
    "g++", "gcc", "libc6-dev", "make", "pkg-config",
    /* Python */
    "python3", "python3-pip", "python3-venv",
    /* Node */
    "nodejs", "npm"};

enum { SPACE_NEEDED_MIB = 1500, BUILD_TIMEOUT_MS = 30 * 60 * 1000, GONE_ROUNDS = 100, ROUND_US = 50000 };

static char *package_list(void) {
    struct buf b = {0};
    for (size_t i = 0; i < COUNT(packages); i++)
        buf_printf(&b, "%s%s", i ? "," : "", packages[i]);
    return buf_take(&b);
}

/* Also what is done to the tree afterwards (TREE_VERSION) is part of the recipe. */
const char *image_workbench_hash(void) {
    static char hex[65];
    if (hex[0])
        return hex;
    unsigned char sum[32];
    own_free char *list = package_list();
    own_free char *recipe = xasprintf("%s %s %s %d\n", SUITE, VARIANT, list, TREE_VERSION);
    if (!EVP_Digest(recipe, strlen(recipe), sum, NULL, EVP_sha256(), NULL))
        abort();
    hex_put(hex, sum, sizeof sum);
    return hex;
}

static char *place_of(const char *image_dir, const char *name) {
    return xasprintf("%s/%s/root", image_dir, name);
}

char *image_place(const char *image_dir) {
    return place_of(image_dir, image_workbench_hash());
}

bool image_have_workbench(const char *image_dir) {
    own_free char *root = image_place(image_dir);
    struct stat st;
    return !stat(root, &st) && S_ISDIR(st.st_mode);
}

/* ---- mmdebstrap ---- */

/* Who hears of a build, and what ends it. */
struct build {
    image_progress *tell;
    void *ctx;
    int stop; /* readable once it is to end */
};

struct teller {
    const struct build *to;
    size_t told; /* bytes of the output that were looked at */
};

static void tell(const struct build *b, const char *line) {
    if (b->tell)
        b->tell(b->ctx, line);
}

/* Whole lines that mmdebstrap says for people ("I: …"), escaped: what packages print is not ours. */
static void tell_lines(void *ctx, const struct buf *errors) {
    struct teller *t = ctx;
    for (;;) {
        const char *line = buf_text(errors) + t->told;
        const char *end = memchr(line, '\n', errors->len - t->told);
        if (!end)
            return;
        t->told += (size_t)(end - line) + 1;
        if (strncmp(line, "I: ", 3))
            continue;
        char shown[200];
        escape_into(shown, sizeof shown, ESCAPE_LINE, line + 3, (size_t)(end - line) - 3);
        tell(t->to, shown);
    }
}

/* What it puts aside for itself (keys, configuration) is in `aside`: it leaves that behind when it is killed. */
static err_t bootstrap(const char *root, const char *aside, const struct build *b) {
    own_words struct words w = {0};
    own_free char *tmpdir = xasprintf("TMPDIR=%s", aside);
    const char *const env[] = {"PATH=" PROC_PATH, "LC_ALL=C.UTF-8", "HOME=/root", tmpdir, NULL};
    own_free char *list = package_list();
    struct teller t = {b, 0};
    static const char *const apart[] = {"unshare", "--mount",      "--pid",
                                        "--fork",  "--kill-child", "--mount-proc"};
    for (size_t i = 0; i < COUNT(apart); i++)
        words_add(&w, apart[i]);
    words_add(&w, "mmdebstrap");
    words_add(&w, "--mode=root");
    words_add(&w, "--format=directory");
    words_add(&w, "--variant=" VARIANT);
    words_addf(&w, "--include=%s", list);
    words_add(&w, "--aptopt=Acquire::Languages \"none\"");
    words_add(&w, "--dpkgopt=path-exclude=/usr/share/man/*");
    words_add(&w, "--dpkgopt=path-exclude=/usr/share/locale/*");
    words_add(&w, SUITE);
    words_add(&w, root);
    struct proc_spec p = {.argv = words_argv(&w),
                          .env = env,
                          .timeout_ms = BUILD_TIMEOUT_MS,
                          .until = b->stop,
                          .with_us = true,
                          .watch = tell_lines,
                          .watch_ctx = &t};
    return err_wrap(proc_must(&p), "the workbench image cannot be made");
}

static err_t enough_space(const char *image_dir) {
    uint64_t left, size;
    TRY(fs_space(image_dir, &left, &size));
    if (left >> 20 < SPACE_NEEDED_MIB)
        return err_new(EXIT_FAILED,
                       "%s has %llu MiB left, the workbench image needs %d; make room, or set image_dir",
                       image_dir, (unsigned long long)(left >> 20), SPACE_NEEDED_MIB);
    return NULL;
}

static err_t make_workbench(const char *root, const struct build *b) {
    own_free char *program = proc_find("mmdebstrap");
    if (!program)
        return err_new(EXIT_NOTFOUND, "the workbench image cannot be made: mmdebstrap is not installed");
    own_free char *aside = xasprintf("%s.aside", root);
    TRY(fs_dir(aside, 0, 0, 0755));
    TRY(bootstrap(root, aside, b));
    TRY(fs_remove(aside));
    tell(b, "taking set-uid programs away, adding mount points...");
    TRY(tree_disarm(root));
    TRY(tree_furnish(root, true));
    return image_check(root);
}

static err_t make_tree(const char *root, const struct build *b) {
    (void)b;
    TRY(fs_dir(root, 0, 0, 0755));
    return tree_furnish(root, false);
}

/* ---- beside its place, then renamed ---- */

typedef err_t maker(const char *root, const struct build *b);

/* The killed need a moment until they write no more. */
static err_t remove_fresh(const char *fresh) {
    err_t e = fs_remove(fresh);
    for (int i = 0; e && e->errnum != EBUSY && i < GONE_ROUNDS; i++) {
        err_free(e);
        usleep(ROUND_US);
        e = fs_remove(fresh);
    }
    return e;
}

/* The signal that asks for the end, which is taken here; 0: none came. */
static int asked_to_end(const struct build *b) {
    struct signalfd_siginfo why;
    return b->stop >= 0 && read(b->stop, &why, sizeof why) == sizeof why ? (int)why.ssi_signo : 0;
}

static err_t make_beside(const char *image_dir, const char *name, maker *make, const struct build *b) {
    own_free char *fresh = xasprintf("%s/.new-%d", image_dir, getpid());
    own_free char *root = xasprintf("%s/root", fresh);
    own_free char *final = xasprintf("%s/%s", image_dir, name);
    TRY(fs_remove(fresh));
    TRY(fs_dir(fresh, 0, 0, 0755));
    err_t e = make(root, b);
    if (!e && rename(fresh, final))
        e = err_sys(errno, "%s cannot be put in its place", final);
    if (!e)
        return NULL;
    tell(b, "removing the half-made image...");
    own_err err_t stays = remove_fresh(fresh);
    int signo = asked_to_end(b);
    if (!signo)
        return e;
    err_free(e);
    return stays ? err_new(128 + signo, "stopped; %s", err_text(stays))
                 : err_new(128 + signo, "stopped; the half-made image was removed");
}

static bool there(const char *root) {
    struct stat st;
    return !lstat(root, &st) && S_ISDIR(st.st_mode) && !st.st_uid;
}

static void say_waiting(void *ctx, pid_t pid) {
    char line[120], who[32] = "";
    if (pid)
        snprintf(who, sizeof who, " (pid %d)", (int)pid);
    snprintf(line, sizeof line, "waiting for the image that another process%s makes; Ctrl-C ends the wait",
             who);
    tell(ctx, line);
}

static err_t wait_and_make(const char *image_dir, const char *root, struct build *b) {
    own_fd int locked = -1;
    TRY(half_lock_until(image_dir, b->stop, say_waiting, b, &locked));
    int signo = locked < 0 ? asked_to_end(b) : 0;
    if (locked < 0)
        return err_new(128 + signo, "stopped; the other process goes on with the image");
    if (there(root)) /* somebody made it while we waited */
        return NULL;
    TRY(enough_space(image_dir));
    if (half_sweep(image_dir))
        tell(b, "removed what a build that was killed had left");
    return make_beside(image_dir, image_workbench_hash(), make_workbench, b);
}

/* With what asks this process to end held back: it ends the wait or the build, and what is half made is removed first. */
static err_t make_stoppable(const char *image_dir, const char *root, struct build *b) {
    sigset_t ends, old;
    sigemptyset(&ends);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGHUP);
    own_fd int stop = signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    if (stop < 0)
        return err_sys(errno, "signals");
    sigprocmask(SIG_BLOCK, &ends, &old);
    b->stop = stop;
    err_t e = wait_and_make(image_dir, root, b);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return e;
}

err_t image_workbench(const char *image_dir, image_progress *tell_fn, void *ctx, char **ret) {
    own_free char *root = place_of(image_dir, image_workbench_hash());
    if (!there(root)) {
        TRY(fs_dirs(image_dir));
        TRY(make_stoppable(image_dir, root, &(struct build){tell_fn, ctx, -1}));
    }
    TRY(tree_folders_real(root));
    TRY(tree_places(root));
    *ret = TAKE(root);
    return NULL;
}

err_t image_tree(const char *image_dir, char **ret) {
    char name[32];
    snprintf(name, sizeof name, "tree-%d", AGENT_TREE_VERSION);
    own_free char *root = place_of(image_dir, name);
    own_fd int locked = -1;
    if (!there(root)) {
        TRY(fs_dirs(image_dir));
        TRY(half_lock(image_dir, &locked));
    }
    if (!there(root))
        TRY(make_beside(image_dir, name, make_tree, &(struct build){.stop = -1}));
    TRY(tree_folders_real(root));
    *ret = TAKE(root);
    return NULL;
}

err_t image_check(const char *root) {
    TRY(tree_folders_real(root));
    return tree_disarmed(root);
}
