/*
 * The steps that make an agent, each with its undoing: folders, accounts, project, configuration. They are a
 * table: done from the top, undone from the bottom.
 */
#include "base/clock.h"
#include "base/fs.h"
#include "base/ids.h"
#include "base/own.h"
#include "base/paths.h"
#include "cage/image.h"
#include "cage/project.h"
#include "warden/agents.h"
#include "warden/belongings.h"
#include "warden/move_in.h"
#include "warden/programs.h"
#include "warden/warden.h"
#include "warden/wish.h"
#include "warden/worker.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

struct job {
    const struct warden *w;
    struct conf_agent *c;
    int report;
    bool own_project; /* the project folder is one that we made */
};

/* What is there without a mark is nobody's leftover: it may be somebody's data. */
static err_t make_mark(struct job *j) {
    own_free char *lib = path_of(DIR_LIB "/agents/%s", j->c->name);
    if (access(lib, F_OK) == 0)
        return err_new(EXIT_POLICY, "%s is there without an agent: move it away first", lib);
    return belongings_mark(j->c->name);
}

static err_t undo_mark(struct job *j) {
    return belongings_unmark(j->c->name);
}

static err_t make_whole(struct job *j) {
    return belongings_unmark(j->c->name);
}

/* ---- uid range -------------------------------------------------------------------------------------------- */

static err_t make_range(struct job *j) {
    own_free char *dir = path_of(DIR_LIB "/warden");
    TRY(worker_lock("ids"));
    return ids_next_range(j->w->conf.prefix, dir, &j->c->uid_base);
}

/* ---- belongings -------------------------------------------------------------------------------------------- */

static err_t undo_folders(struct job *j) {
    return belongings_drop_folders(j->c->name);
}

static err_t make_folders(struct job *j) {
    return belongings_folders(j->c);
}

static err_t undo_accounts(struct job *j) {
    return belongings_drop_accounts(j->w->conf.prefix, j->c->name);
}

static err_t make_accounts(struct job *j) {
    return j->c->mode == MODE_BARE ? belongings_accounts(j->w->conf.prefix, j->c) : NULL;
}

/* ---- project -------------------------------------------------------------------------------------------------- */

/* Two agents in one folder are a choice, but none to find out about later. */
static void say_shared(const struct job *j, const struct project *p) {
    own_names char **names = NULL;
    own_err err_t e = conf_agent_names(&names);
    struct stat here, there;
    if (e || fstat(p->fd, &here))
        return;
    for (size_t i = 0; names[i]; i++) {
        own_conf_agent struct conf_agent c = {0};
        own_err err_t bad = conf_agent_read(names[i], &c);
        if (!bad && stat(c.project, &there) == 0 && there.st_dev == here.st_dev &&
            there.st_ino == here.st_ino)
            worker_say(j->report, "note: %s has this project too: each sees and changes what the other does",
                       c.name);
    }
}

/* A folder that was named must hold before anything is made for it. */
static err_t look_at_project(struct job *j) {
    struct project p;
    if (!*j->c->project)
        return NULL;
    TRY(project_open(j->c->project, j->c->mode, &p));
    if (*p.warning)
        worker_say(j->report, "note: %s", p.warning);
    say_shared(j, &p);
    project_close(&p);
    return NULL;
}

/* $ROOT/srv/agent-cage/NAME unless a folder was named. One that an earlier agent of this name left is used again. */
static err_t make_project(struct job *j) {
    if (*j->c->project)
        return NULL;
    own_free char *parent = path_of("/srv/agent-cage");
    uid_t uid = j->c->uid_base + room_uid(ROOM_EXECUTOR);
    TRY(fs_dirs(parent));
    free(j->c->project);
    j->c->project = path_of("/srv/agent-cage/%s", j->c->name);
    if (mkdir(j->c->project, 0700) == 0) {
        j->own_project = true;
        return fs_dir(j->c->project, uid, uid, 0755);
    }
    if (errno != EEXIST)
        return err_sys(errno, "make %s", j->c->project);
    worker_say(j->report, "note: the project %s is there already, with what an earlier agent left in it",
               j->c->project);
    return look_at_project(j);
}

static err_t undo_project(struct job *j) {
    if (j->own_project && rmdir(j->c->project) < 0 && errno != ENOENT)
        return err_sys(errno, "remove %s", j->c->project);
    return NULL;
}

/* ---- workbench, configuration --------------------------------------------------------------------------------- */

static void on_image(void *ctx, const char *line) {
    worker_say(*(int *)ctx, "workbench: %s", line);
}

static err_t make_image(struct job *j) {
    own_free char *root = NULL;
    if (j->c->mode == MODE_BARE)
        return NULL;
    return image_workbench(j->w->conf.image_dir, on_image, &j->report, &root);
}

static void on_program(void *ctx, const char *line) {
    worker_say(*(int *)ctx, "%s", line);
}

/* Not undone: the next agent has it at once. */
static err_t make_program(struct job *j) {
    own_free char *place = NULL;
    return programs_get(&j->w->conf, j->c, on_program, &j->report, &place);
}

static err_t make_conf(struct job *j) {
    own_free char *dir = path_of(DIR_ETC "/agents");
    TRY(fs_dirs(dir));
    j->c->created_wall_ms = clock_wall_ms();
    return conf_agent_write(j->c);
}

static err_t undo_conf(struct job *j) {
    return conf_agent_remove(j->c->name);
}

static const struct step {
    const char *what;
    err_t (*run)(struct job *j);
    err_t (*undo)(struct job *j);
} steps[] = {
    // clang-format off
    {NULL, look_at_project, NULL}, /* its errors say what they are about */
    {NULL, make_mark, undo_mark},
    {"the workbench", make_image, NULL},
    {"the uid range", make_range, NULL}, /* one that was handed out is never handed out again */
    {"the harness", make_program, NULL},
    {NULL, make_project, undo_project},
    {"the folders", make_folders, undo_folders},
    {"the accounts", make_accounts, undo_accounts},
    {"the configuration", make_conf, undo_conf},
    {"the mark", make_whole, NULL},
    // clang-format on
};

err_t agents_make(const struct warden *w, struct conf_agent *c, int report) {
    struct job j = {.w = w, .c = c, .report = report};
    for (size_t i = 0; i < COUNT(steps); i++) {
        err_t e = steps[i].run(&j);
        if (!e)
            continue;
        if (steps[i].what)
            e = err_wrap(e, "%s", steps[i].what);
        for (size_t done = i + 1; done > 0; done--) {
            own_err err_t bad = steps[done - 1].undo ? steps[done - 1].undo(&j) : NULL;
            if (bad)
                worker_say(report, "not all of it could be undone: %s", err_text(bad));
        }
        return e;
    }
    return NULL;
}

/* ---- removing ------------------------------------------------------------------------------------------------- */

/* Its executor's end has removed it, unless it could not; then that is said here, and the mark stays for the next try. */
static err_t drop_group(const struct warden *w, const char *name) {
    struct cgroup_host h = w->host.cgroup;
    if (h.kind == CGROUP_V2) /* where only a bare agent has one of its own */
        h.kind = CGROUP_HYBRID;
    return cgroup_remove(&h, w->conf.prefix, name);
}

err_t agents_drop(const struct warden *w, const char *name) {
    TRY(belongings_mark(name));
    TRY(conf_agent_remove(name));
    TRY(belongings_drop_accounts(w->conf.prefix, name));
    TRY(wish_forget(name));
    TRY(belongings_drop_folders(name));
    TRY(drop_group(w, name));
    return belongings_unmark(name);
}

err_t agents_drop_new(const struct warden *w, const char *name) {
    own_free char *project = path_of("/srv/agent-cage/%s", name);
    TRY(agents_drop(w, name));
    if (rmdir(project) < 0 && errno != ENOENT && errno != ENOTEMPTY && errno != EEXIST)
        return err_sys(errno, "remove %s", project);
    return NULL;
}

/* Conversations whose move into a sealed cage a crash cut short. Its homes would else be the old ones: nothing starts. */
static err_t finish_moves(int report) {
    own_names char **names = NULL;
    TRY(conf_agent_names(&names));
    for (size_t i = 0; names[i]; i++) {
        own_conf_agent struct conf_agent c = {0};
        own_err err_t bad = conf_agent_read(names[i], &c);
        own_err err_t e = bad || c.mode != MODE_SEALED ? NULL : move_in_finish(&c);
        if (e)
            worker_say(report, "%s is not wholly sealed: %s", names[i], err_text(e));
    }
    return NULL;
}

err_t agents_sweep(const struct warden *w, int report) {
    own_free char *path = path_of(DIR_LIB "/warden/half");
    DIR *dir = opendir(path);
    if (!dir)
        return err_sys(errno, "read %s", path);
    err_t e = NULL;
    for (struct dirent *d; !e && (d = readdir(dir));) {
        if (!name_ok(d->d_name))
            continue;
        worker_say(report, "removing what is left of agent %s", d->d_name);
        e = agents_drop(w, d->d_name);
    }
    closedir(dir);
    return e ? e : finish_moves(report);
}
