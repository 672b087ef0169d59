#include "warden/move_in.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/parse.h"
#include "base/paths.h"
#include "cage/project.h"
#include "sealed/collector.h"
#include "warden/agents.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LIST_MAX = 65536, SESSION_LINE_MAX = 512, TRANSCRIPT_MAX = 256 << 20 };

/* What the rooms in which hostile code may run have as theirs. */
static const struct home {
    const char *name;
    enum room room; /* whose it is */
} homes[] = {{"harness", ROOM_HARNESS}, {"executor", ROOM_EXECUTOR}, {"scratch", ROOM_EXECUTOR}};

static char *in_agent(const char *agent, const char *what) {
    return path_of(DIR_LIB "/agents/%s/%s", agent, what);
}

err_t move_in_check(const struct conf_agent *c) {
    struct project p;
    if (c->mode != MODE_POD)
        return err_new(EXIT_POLICY, "%s is %s: only a pod's conversation moves into a sealed cage", c->name,
                       mode_name(c->mode));
    TRY(agents_may_be_sealed(c->harness));
    TRY(agents_sealed_here(c->harness));
    TRY(project_open(c->project, MODE_SEALED, &p));
    project_close(&p);
    return NULL;
}

/* ---- the transcript ---- */

/* Ends up in a path. */
static bool id_ok(const char *id) {
    static const char set[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    size_t n = strlen(id);
    return n && n <= 128 && id[0] != '-' && strspn(id, set) == n;
}

/* The agent's list of conversations (agent/sessions.h): the first line is the current one's, and begins with its number. *ret_line:
 * that line; "" when there is none. */
static err_t current_of(const char *agent, uint64_t *ret_number, struct buf *ret_line) {
    own_free char *path = in_agent(agent, "agent");
    own_fd int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    own_buf struct buf list = {0};
    *ret_number = 0;
    if (dir < 0)
        return err_sys(errno, "open %s", path);
    err_t e = collect_read(dir, "sessions", LIST_MAX, &list);
    if (e && e->status == EXIT_NOTFOUND) {
        err_free(e);
        return NULL;
    }
    TRY(e);
    const char *text = buf_text(&list);
    buf_add(ret_line, text, strcspn(text, "\n"));
    own_free char *number = xstrndup(text, strcspn(text, " \n"));
    return err_wrap(parse_u64(number, UINT64_MAX / 2, ret_number), "the agent's list of conversations");
}

/* The others are not in the cage: none of them can be taken up again. */
static err_t forget_others(const struct conf_agent *c) {
    own_buf struct buf line = {0};
    own_free char *path = in_agent(c->name, "agent/sessions");
    uid_t uid = c->uid_base + room_uid(ROOM_AGENT);
    uint64_t number;
    TRY(current_of(c->name, &number, &line));
    buf_adds(&line, "\n");
    return number ? fs_write(path, buf_text(&line), line.len, uid, uid, 0600) : NULL;
}

/* "": there is no conversation yet. */
static err_t session_of(int home, const char *file, char *ret, size_t size) {
    own_buf struct buf line = {0};
    err_t e = collect_read(home, file, SESSION_LINE_MAX, &line);
    ret[0] = 0;
    if (e && e->status == EXIT_NOTFOUND) {
        err_free(e);
        return NULL;
    }
    TRY(e);
    snprintf(ret, size, "%.*s", (int)strcspn(buf_text(&line), " \n"), buf_text(&line));
    return id_ok(ret) ? NULL
                      : err_new(EXIT_POLICY, "the harness named its conversation in a way that is no name");
}

struct moving {
    const struct conf_agent *c;
    char *fresh; /* sealing.new */
    uid_t uid;   /* of the harness room */
};

static err_t put(const struct moving *m, const char *path, const struct buf *text) {
    own_free char *whole = xasprintf("%s/harness/%s", m->fresh, path);
    for (char *slash = whole + strlen(m->fresh) + 9; (slash = strchr(slash, '/')); *slash++ = '/') {
        *slash = 0;
        TRY(fs_dir(whole, m->uid, m->uid, 0700));
    }
    return fs_write(whole, buf_text(text), text->len, m->uid, m->uid, 0600);
}

static err_t move_transcript(const struct moving *m, char text[400]) {
    own_buf struct buf transcript = {0}, line = {0}, current = {0};
    uint64_t number;
    TRY(current_of(m->c->name, &number, &current));
    own_free char *old = in_agent(m->c->name, "harness"),
                  *file = xasprintf("session-%s-%" PRIu64, m->c->harness, number);
    own_fd int home = open(old, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char id[200];
    if (home < 0)
        return err_sys(errno, "open %s", old);
    TRY(session_of(home, file, id, sizeof id));
    snprintf(text, 400, "it had no conversation yet");
    if (!*id)
        return NULL;
    own_free char *path = xasprintf(".claude/projects/-project/%s.jsonl", id);
    err_t e = collect_read(home, path, TRANSCRIPT_MAX, &transcript);
    if (e && e->status == EXIT_NOTFOUND) {
        snprintf(text, 400, "its conversation has no transcript yet, and begins anew");
        err_free(e);
        return NULL;
    }
    TRY(err_wrap(e, "the transcript"));
    buf_printf(&line, "%s 0\n", id);
    TRY(put(m, path, &transcript));
    TRY(put(m, file, &line));
    snprintf(text, 400,
             "its conversation (%" PRIu64
             " KiB) went in with it, and no other: count on the code in there reading it",
             (uint64_t)(transcript.len + 1023) >> 10);
    return NULL;
}

/* ---- the steps ---- */

static err_t prepare(const struct moving *m, char text[400]) {
    TRY(fs_remove(m->fresh));
    TRY(fs_dir(m->fresh, 0, 0, 0700));
    for (size_t i = 0; i < COUNT(homes); i++) {
        own_free char *dir = xasprintf("%s/%s", m->fresh, homes[i].name);
        uid_t uid = m->c->uid_base + room_uid(homes[i].room);
        TRY(fs_dir(dir, uid, uid, 0700));
    }
    return move_transcript(m, text);
}

static err_t commit(const struct moving *m) {
    own_free char *sealing = in_agent(m->c->name, "sealing");
    TRY(fs_remove(sealing));
    if (rename(m->fresh, sealing))
        return err_sys(errno, "make %s", sealing);
    struct conf_agent sealed = *m->c; /* borrows its texts */
    sealed.mode = MODE_SEALED;
    sealed.net = m->c->net == NET_NONE ? NET_NONE : NET_SEALED;
    sealed.credential = "sealed-token";
    return conf_agent_write(&sealed);
}

static err_t swap(const char *agent, const char *name) {
    own_free char *fresh = path_of(DIR_LIB "/agents/%s/sealing/%s", agent, name),
                  *old = path_of(DIR_LIB "/agents/%s/unsealed/%s", agent, name),
                  *place = in_agent(agent, name);
    if (access(fresh, F_OK) < 0) /* done before a crash */
        return NULL;
    if (rename(place, old) && errno != ENOENT)
        return err_sys(errno, "move %s away", place);
    return rename(fresh, place) ? err_sys(errno, "make %s", place) : NULL;
}

err_t move_in_finish(const struct conf_agent *c) {
    own_free char *sealing = in_agent(c->name, "sealing"), *away = in_agent(c->name, "unsealed");
    if (access(sealing, F_OK) < 0)
        return NULL;
    TRY(fs_dir(away, 0, 0, 0700));
    for (size_t i = 0; i < COUNT(homes); i++)
        TRY(swap(c->name, homes[i].name));
    TRY(forget_others(c));
    return fs_remove(sealing);
}

err_t move_in_finished(const char *agent) {
    own_free char *sealing = in_agent(agent, "sealing");
    return access(sealing, F_OK) < 0
               ? NULL
               : err_new(EXIT_FAILED, "its move into the cage is not finished: restart the fleet");
}

err_t move_in(const struct conf_agent *c, char ret_text[400]) {
    own_free char *fresh = in_agent(c->name, "sealing.new");
    struct moving m = {c, fresh, c->uid_base + room_uid(ROOM_HARNESS)};
    TRY(move_in_check(c)); /* it may have changed while the rooms ended */
    err_t e = prepare(&m, ret_text);
    e = e ? e : commit(&m);
    if (e) {
        err_free(fs_remove(fresh));
        return e;
    }
    return move_in_finish(c);
}
