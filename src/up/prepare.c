#include "up/prepare.h"
#include "base/conf.h"
#include "base/fs.h"
#include "base/ids.h"
#include "base/own.h"
#include "base/paths.h"
#include "base/proc.h"
#include "cage/host.h"
#include "cage/image.h"
#include "cage/shim_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct prepared {
    prepare_say *say;
    void *ctx;
    struct conf_fleet conf;
    struct host host;
};

__attribute__((format(printf, 2, 3))) static void say(struct prepared *p, const char *fmt, ...) {
    char line[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    p->say(p->ctx, line);
}

static err_t check_root(struct prepared *p) {
    (void)p;
    if (geteuid() != 0)
        return err_new(EXIT_POLICY, "a fleet is started by root: run `sudo agent-cage up`");
    return NULL;
}

/* Before anything is made: no runtime can be found without podman, and none was found earlier. */
static err_t check_host(struct prepared *p) {
    TRY(host_read(&p->host));
    prepare_runtime(&p->host);
    if (*p->host.podman || *p->host.runtime)
        return NULL;
    return err_new(EXIT_FAILED,
                   "podman is not installed, and without it no cage can be made: apt install podman");
}

static err_t make_folders(struct prepared *p) {
    static const char *const rows[] = {DIR_ETC, DIR_ETC "/agents", DIR_RUN, DIR_LIB, DIR_LIB "/bin"};
    (void)p;
    for (size_t i = 0; i < COUNT(rows); i++) {
        own_free char *path = path_of("%s", rows[i]);
        TRY(fs_dirs(path));
    }
    return conf_fleet_read(&p->conf);
}

/* A member of the group that may write it is somebody else than root too; where it is sticky, what is root's in it stays. */
static bool others_change(const struct stat *st) {
    bool group = st->st_mode & S_IWGRP && st->st_gid, all = st->st_mode & S_IWOTH;
    return st->st_uid || ((group || all) && !(st->st_mode & S_ISVTX));
}

err_t prepare_way(const char *path) {
    own_free char *way = xstrdup(path);
    for (char *slash = strchr(way + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        struct stat st;
        if (stat(way, &st) < 0)
            return err_sys(errno, "look at %s", way);
        if (!(st.st_mode & S_IXOTH))
            return err_new(EXIT_POLICY,
                           "%s lets nobody but its owner through: chmod o+x it, or choose another "
                           "AGENT_CAGE_ROOT",
                           way);
        if (others_change(&st))
            return err_new(EXIT_POLICY,
                           "%s can be changed by others than root: choose another AGENT_CAGE_ROOT", way);
        *slash = '/';
    }
    return NULL;
}

static err_t check_way(struct prepared *p) {
    (void)p;
    own_free char *path = path_of(DIR_LIB "/bin/");
    return prepare_way(path);
}

static err_t make_account(struct prepared *p, const char *part) {
    own_free char *name = xasprintf("%scage_%s", p->conf.prefix, part);
    own_free char *home = path_of(DIR_LIB "/%s", part);
    uid_t uid;
    gid_t gid;
    own_err err_t none = ids_account(name, &uid, &gid);
    if (none) {
        if (none->status != EXIT_NOTFOUND)
            return TAKE(none);
        say(p, "making the account %s", name);
        TRY(proc_call("useradd", "-r", "-U", "-M", "-d", home, "-s", "/usr/sbin/nologin", "-c", "agent-cage",
                      name, NULL));
        TRY(ids_account(name, &uid, &gid));
    }
    return fs_dir(home, uid, gid, 0700);
}

static err_t make_accounts(struct prepared *p) {
    TRY(make_account(p, "relay"));
    return make_account(p, "manager");
}

/* Two files with the same bytes. */
static bool same_bytes(const char *one, const char *other) {
    own_file FILE *a = fopen(one, "re"), *b = fopen(other, "re");
    bool same = a && b;
    for (size_t n = 1; same && n;) {
        char x[65536], y[65536];
        n = fread(x, 1, sizeof x, a);
        same = fread(y, 1, sizeof y, b) == n && !memcmp(x, y, n);
    }
    return same && !ferror(a) && !ferror(b);
}

static err_t copy_binary(struct prepared *p) {
    own_free char *to = path_of(DIR_LIB "/bin/agent-cage");
    if (same_bytes("/proc/self/exe", to))
        return NULL;
    own_free char *from = realpath("/proc/self/exe", NULL);
    if (!from)
        return err_sys(errno, "find our own binary");
    say(p, "installing the binary");
    return fs_copy(from, to, 0, 0, 0755);
}

static err_t install_shim(struct prepared *p) {
    own_free char *to = path_of(DIR_LIB "/bin/shim");
    bool fresh;
    TRY(shim_file_install(to, &fresh));
    if (fresh)
        say(p, "installing the shim");
    return NULL;
}

static void on_image(void *ctx, const char *line) {
    say(ctx, "workbench: %s", line);
}

static err_t make_image(struct prepared *p) {
    own_free char *root = NULL;
    TRY(fs_dirs(p->conf.image_dir));
    return image_workbench(p->conf.image_dir, on_image, p, &root);
}

/* A range of ids for trying a runtime out; kept, since a range is never handed out twice. */
static err_t spare_range(struct prepared *p, uint32_t *ret) {
    own_free char *dir = path_of(DIR_LIB "/warden"), *path = path_of(DIR_LIB "/warden/spare-uid"),
                  *line = NULL;
    TRY(fs_dir(dir, 0, 0, 0700));
    own_err err_t none = fs_read_line(path, &line);
    if (!none && sscanf(line, "%" SCNu32, ret) == 1)
        return NULL;
    TRY(ids_next_range(p->conf.prefix, dir, ret));
    own_free char *text = xasprintf("%" PRIu32 "\n", *ret);
    return fs_write(path, text, strlen(text), 0, 0, 0600);
}

void prepare_runtime(struct host *h) {
    own_free char *path = path_of(PATH_RUNTIME), *line = NULL;
    own_err err_t e = fs_read_line(path, &line);
    if (!e)
        snprintf(h->runtime, sizeof h->runtime, "%s", line);
}

static err_t find_runtime(struct prepared *p) {
    if (*p->host.runtime)
        return NULL;
    own_free char *tree = NULL, *binary = path_of(DIR_LIB "/bin/agent-cage");
    own_free char *dir = path_of(DIR_RUN "/podman"), *stage = path_of(DIR_RUN "/stage"),
                  *path = path_of(PATH_RUNTIME);
    uint32_t base;
    TRY(spare_range(p, &base));
    TRY(image_tree(p->conf.image_dir, &tree));
    TRY(fs_dir(dir, 0, 0, 0700));
    TRY(fs_dir(stage, 0, 0, 0711));
    TRY(host_probe_runtime(&p->host, p->conf.runtime, tree, binary, dir, stage, base));
    say(p, "containers run by podman %s with %s", p->host.podman, p->host.runtime);
    own_free char *line = xasprintf("%s\n", p->host.runtime);
    return fs_write(path, line, strlen(line), 0, 0, 0600);
}

static err_t (*const steps[])(struct prepared *p) = {
    check_root,  check_host,   make_folders, check_way,    make_accounts,
    copy_binary, install_shim, make_image,   find_runtime,
};

err_t prepare(prepare_say *say_fn, void *ctx) {
    struct prepared p = {.say = say_fn, .ctx = ctx};
    err_t e = NULL;
    for (size_t i = 0; !e && i < COUNT(steps); i++)
        e = steps[i](&p);
    conf_fleet_free(&p.conf);
    return e;
}
