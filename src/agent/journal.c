#include "agent/journal.h"
#include "agent/record.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

struct journal {
    int dir, fd;
    off_t size; /* the good records end here */
    size_t untold, settled;
    struct entry *first, **last;
};

static const char *const outcomes[OUTCOME_COUNT] = {
    [OUTCOME_DONE] = "done", [OUTCOME_REFUSED] = "refused", [OUTCOME_UNKNOWN] = "unknown"};

const char *outcome_name(enum outcome o) {
    return outcomes[o];
}

bool outcome_of(const char *name, enum outcome *ret) {
    for (int i = 0; i < OUTCOME_COUNT; i++)
        if (!strcmp(name, outcomes[i])) {
            *ret = (enum outcome)i;
            return true;
        }
    return false;
}

/* --- the entries in memory --- */

static struct entry *find(const struct journal *j, uint64_t id) {
    for (struct entry *e = j->first; e; e = e->next)
        if (e->id == id)
            return e;
    return NULL;
}

static void entry_free(struct entry *e) {
    free(e->who);
    free(e->text);
    free(e->output);
    free(e);
}

static void drop(struct journal *j, struct entry *gone) {
    for (struct entry **at = &j->first; *at; at = &(*at)->next)
        if (*at == gone) {
            *at = gone->next;
            if (!*at)
                j->last = at;
            entry_free(gone);
            return;
        }
}

static struct entry *add(struct journal *j, uint64_t id, const char *who, uint64_t wall_ms) {
    struct entry *e = xcalloc(1, sizeof *e);
    *e = (struct entry){.id = id, .state = ENTRY_STARTED, .who = xstrdup(who), .start_wall_ms = wall_ms};
    *j->last = e;
    j->last = &e->next;
    return e;
}

static void set_end(struct journal *j, struct entry *e, const struct ending *end) {
    e->text = xstrdup(end->text);
    e->output = xstrdup(end->output);
    e->end = *end;
    e->end.text = e->text;
    e->end.output = e->output;
    e->state = ENTRY_FINISHED;
    j->untold++;
}

static void set_settled(struct journal *j, struct entry *e) {
    e->text[0] = 0;
    e->state = ENTRY_SETTLED;
    j->untold--;
    if (++j->settled <= JOURNAL_SETTLED_KEPT)
        return;
    for (struct entry *old = j->first; old; old = old->next)
        if (old->state == ENTRY_SETTLED) {
            drop(j, old);
            j->settled--;
            return;
        }
}

/* --- the file --- */

static err_t put(int fd, off_t at, const struct buf *b) {
    for (size_t done = 0; done < b->len;) {
        ssize_t n = pwrite(fd, b->p + done, b->len - done, at + (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return err_sys(errno, "write the journal");
        done += (size_t)n;
    }
    return NULL;
}

/* Appends one record; a part of one is cut off again, so that what follows can be read. */
static err_t append(struct journal *j, const struct record *r, bool sync) {
    own_buf struct buf b = {0};
    record_put(&b, r);
    err_t e = put(j->fd, j->size, &b);
    if (!e && sync && fdatasync(j->fd) < 0)
        e = err_sys(errno, "sync the journal");
    if (e) {
        (void)!ftruncate(j->fd, j->size);
        return e;
    }
    j->size += (off_t)b.len;
    return NULL;
}

static void put_entry(struct buf *b, const struct entry *e) {
    record_put(
        b, &(struct record){.kind = RECORD_STARTED, .id = e->id, .who = e->who, .wall_ms = e->start_wall_ms});
    if (e->state >= ENTRY_FINISHED)
        record_put(b, &(struct record){.kind = RECORD_FINISHED, .id = e->id, .end = e->end});
    if (e->state == ENTRY_SETTLED)
        record_put(b, &(struct record){.kind = RECORD_SETTLED, .id = e->id});
}

/* Writes all entries into a new file that takes the old one's place. */
static err_t rewrite(struct journal *j) {
    own_buf struct buf b = {0};
    record_head(&b);
    for (const struct entry *e = j->first; e; e = e->next)
        put_entry(&b, e);
    own_fd int fd = openat(j->dir, "journal.new", O_RDWR | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(errno, "make journal.new");
    TRY(put(fd, 0, &b));
    if (fsync(fd) < 0 || renameat(j->dir, "journal.new", j->dir, "journal") < 0 || fsync(j->dir) < 0)
        return err_sys(errno, "write the journal anew");
    own_closep(&j->fd);
    j->fd = TAKE_FD(fd);
    j->size = (off_t)b.len;
    return NULL;
}

static err_t compact(struct journal *j) {
    size_t live = 0;
    for (const struct entry *e = j->first; e; e = e->next)
        live += 256 + (e->text ? strlen(e->text) : 0);
    return j->size > JOURNAL_COMPACT_OVER && (size_t)j->size > 4 * live ? rewrite(j) : NULL;
}

/* --- reading back --- */

static void replay_started(struct journal *j, const struct record *r) {
    if (!find(j, r->id))
        add(j, r->id, r->who, r->wall_ms);
}

static void replay_finished(struct journal *j, const struct record *r) {
    struct entry *e = find(j, r->id);
    if (e && e->state == ENTRY_STARTED)
        set_end(j, e, &r->end);
}

static void replay_settled(struct journal *j, const struct record *r) {
    struct entry *e = find(j, r->id);
    if (e && e->state == ENTRY_FINISHED)
        set_settled(j, e);
}

static void (*const replays[RECORD_KINDS])(struct journal *, const struct record *) = {
    [RECORD_STARTED] = replay_started,
    [RECORD_FINISHED] = replay_finished,
    [RECORD_SETTLED] = replay_settled,
};

static err_t read_all(int fd, struct buf *b) {
    char chunk[16384];
    ssize_t n;
    while ((n = read(fd, chunk, sizeof chunk)) != 0)
        if (n > 0)
            buf_add(b, chunk, (size_t)n);
        else if (errno != EINTR)
            return err_sys(errno, "read the journal");
    return NULL;
}

static err_t replay(struct journal *j) {
    own_buf struct buf b = {0};
    TRY(read_all(j->fd, &b));
    size_t at = record_head_size();
    if (b.len >= at && !record_is_head(b.p))
        return err_new(EXIT_FAILED,
                       "the file journal is not an agent's journal; move it away to start without it");
    if (b.len < at) /* new, or cut off before its head was whole */
        return rewrite(j);
    struct record r = {0};
    for (size_t n; (n = record_get(b.p + at, b.len - at, &r)) > 0; at += n)
        replays[r.kind](j, &r);
    record_free(&r);
    j->size = (off_t)at;
    if (at < b.len && (ftruncate(j->fd, j->size) < 0 || fdatasync(j->fd) < 0))
        return err_sys(errno, "cut off the torn end of the journal");
    return NULL;
}

err_t journal_open(int home, struct journal **ret) {
    own_fd int dir = openat(home, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    own_fd int fd = openat(home, "journal", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (dir < 0 || fd < 0)
        return err_sys(errno, "open the journal");
    if (flock(dir, LOCK_EX | LOCK_NB) < 0) /* the folder: the file is renamed now and then */
        return err_sys(errno, "another agent has this journal");
    struct journal *j = xcalloc(1, sizeof *j);
    *j = (struct journal){.dir = TAKE_FD(dir), .fd = TAKE_FD(fd)};
    j->last = &j->first;
    err_t e = replay(j);
    if (e) {
        journal_free(j);
        return e;
    }
    err_free(compact(j)); /* on a full disk it stays as long as it is */
    *ret = j;
    return NULL;
}

err_t journal_start(struct journal *j, uint64_t id, const char *who, uint64_t wall_ms) {
    TRY(append(j, &(struct record){.kind = RECORD_STARTED, .id = id, .who = who, .wall_ms = wall_ms}, true));
    add(j, id, who, wall_ms);
    return NULL;
}

err_t journal_finish(struct journal *j, uint64_t id, const struct ending *end) {
    struct entry *e = find(j, id);
    if (!e || e->state != ENTRY_STARTED)
        return err_new(EXIT_FAILED, "the journal has no message %llu that is under way",
                       (unsigned long long)id);
    set_end(j, e, end);
    return append(j, &(struct record){.kind = RECORD_FINISHED, .id = id, .end = *end}, true);
}

err_t journal_settle(struct journal *j, uint64_t id) {
    struct entry *e = find(j, id);
    if (!e || e->state != ENTRY_FINISHED)
        return NULL;
    set_settled(j, e);
    /* Not synced: lost, it is asked for and written once more. */
    TRY(append(j, &(struct record){.kind = RECORD_SETTLED, .id = id}, false));
    return compact(j);
}

void journal_refuse(struct journal *j, uint64_t id, const char *who, uint64_t wall_ms,
                    const struct ending *end) {
    set_end(j, add(j, id, who, wall_ms), end);
}

const struct entry *journal_find(const struct journal *j, uint64_t id) {
    return find(j, id);
}

const struct entry *journal_first(const struct journal *j) {
    return j->first;
}

size_t journal_untold(const struct journal *j) {
    return j->untold;
}

void journal_free(struct journal *j) {
    if (!j)
        return;
    for (struct entry *e; (e = j->first);) {
        j->first = e->next;
        entry_free(e);
    }
    own_closep(&j->dir);
    own_closep(&j->fd);
    free(j);
}
