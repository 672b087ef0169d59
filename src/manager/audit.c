#include "manager/audit.h"
#include "base/clock.h"
#include "base/own.h"
#include "manager/open_rows.h"
#include "manager/packed.h"

/* A row that waits, its argv packed as in the table: each item and a NUL. */
struct pending {
    uint64_t number, message, start_wall_ms, span_us;
    int64_t status;
    char *agent, *who, *how, *output;
    struct buf argv, cwd;
};

struct audit {
    struct db *db;
    const struct audit_ops *ops;
    void *ctx;
    struct event *due;
    struct open_rows *open;
    struct pending pending[AUDIT_BATCH];
    size_t n, bytes;
    bool stuck; /* the last batch could not be written */
    uint64_t seq;
    uint8_t hash[AUDIT_HASH];
};

/* ---- writing ---- */

static void drop(struct pending *p) {
    free(p->agent);
    free(p->who);
    free(p->how);
    free(p->output);
    buf_free(&p->argv);
    buf_free(&p->cwd);
    *p = (struct pending){0};
}

static struct bytes bytes_in(const struct buf *b) {
    return (struct bytes){buf_text(b), b->len};
}

static err_t prune(struct db *db, size_t added) {
    bool row;
    TRY(db_first(db, Q_kept, DB_VALUES(db_t(bytes_of("audit")), db_t(bytes_of(""))), &row));
    bool over = row && (db_col_u(db, Q_kept, 0) > AUDIT_KEEP || db_col_u(db, Q_kept, 1) > AUDIT_KEEP_BYTES);
    db_done(db, Q_kept);
    /* Twice what came in: a bound that is lowered, or bytes that are over, are caught up with soon. */
    return over ? db_do(db, Q_rows_oldest, DB_VALUES(db_i(2 * added))) : NULL;
}

/* Puts a row behind seq and hash, which it moves; nothing when it is known. */
static err_t write_row(struct db *db, struct pending *p, uint64_t *seq, uint8_t hash[AUDIT_HASH]) {
    uint64_t known;
    TRY(db_number(db, Q_row_known, DB_VALUES(db_t(bytes_of(p->agent)), db_i(p->number)), 0, &known));
    TRY(db_do(db, Q_open_drop, DB_VALUES(db_t(bytes_of(p->agent)), db_i(p->number))));
    if (known)
        return NULL;
    own_free struct bytes *items = NULL;
    struct audit_row row = {.seq = *seq + 1,
                            .agent = bytes_of(p->agent),
                            .who = bytes_of(p->who),
                            .argv = packed_items(bytes_in(&p->argv), &items),
                            .cwd = bytes_in(&p->cwd),
                            .start_wall_ms = p->start_wall_ms,
                            .span_us = p->span_us,
                            .how = bytes_of(p->how),
                            .status = p->status,
                            .output = bytes_of(p->output)};
    TRY(audit_hash(hash, &row, hash));
    *seq = row.seq;
    return db_do(db, Q_row_add,
                 DB_VALUES(db_i(row.seq), db_t(row.agent), db_i(p->number), db_i(p->message), db_t(row.who),
                           db_b(bytes_in(&p->argv)), db_b(row.cwd), db_i(row.start_wall_ms),
                           db_i(row.span_us), db_t(row.how), db_i((uint64_t)row.status), db_t(row.output),
                           db_b((struct bytes){(const char *)hash, AUDIT_HASH})));
}

static err_t write_all(struct audit *a, uint64_t *seq, uint8_t hash[AUDIT_HASH]) {
    for (size_t i = 0; i < a->n; i++)
        TRY(write_row(a->db, &a->pending[i], seq, hash));
    TRY(open_rows_write(a->open));
    return a->n ? prune(a->db, a->n) : NULL;
}

static err_t commit(struct audit *a) {
    uint64_t seq = a->seq;
    uint8_t hash[AUDIT_HASH];
    memcpy(hash, a->hash, sizeof hash);
    TRY(db_begin(a->db, a->n ? LASTING : QUICK));
    TRY(db_end(a->db, write_all(a, &seq, hash)));
    a->seq = seq;
    memcpy(a->hash, hash, sizeof hash);
    return NULL;
}

static void wait_ms(struct audit *a, long ms) {
    struct timeval tv = {ms / 1000, ms % 1000 * 1000};
    event_add(a->due, &tv);
}

void audit_flush(struct audit *a) {
    event_del(a->due);
    if (!a->n && !open_rows_wait(a->open))
        return;
    uint64_t before = a->seq;
    bool tell = a->n || a->stuck;
    own_err err_t e = commit(a);
    a->stuck = e;
    if (e) {
        wait_ms(a, AUDIT_RETRY_MS);
        a->ops->on_batch(a->ctx, e);
        return;
    }
    if (a->seq != before)
        a->ops->on_head(a->ctx, a->seq, a->hash);
    for (size_t i = 0; i < a->n; i++) {
        a->ops->on_kept(a->ctx, a->pending[i].agent, a->pending[i].number);
        drop(&a->pending[i]);
    }
    a->n = a->bytes = 0;
    open_rows_written(a->open);
    if (tell)
        a->ops->on_batch(a->ctx, NULL);
}

static void on_due(evutil_socket_t fd, short what, void *arg) {
    (void)fd, (void)what;
    audit_flush(arg);
}

static void wait_for_more(struct audit *a) {
    if (!a->stuck && !event_pending(a->due, EV_TIMEOUT, NULL))
        wait_ms(a, AUDIT_WAIT_MS);
}

/* Takes *p; whoever calls saw to a free place. */
static void take(struct audit *a, const struct pending *p) {
    a->pending[a->n++] = *p;
    a->bytes += p->argv.len + p->cwd.len;
    open_rows_drop(a->open, p->agent, p->number);
    if (!a->stuck && (a->n == AUDIT_BATCH || a->bytes >= AUDIT_BATCH_BYTES))
        audit_flush(a);
    else
        wait_for_more(a);
}

void audit_add(struct audit *a, uint64_t number, uint64_t message, const struct audit_row *row) {
    if (a->n == AUDIT_BATCH)
        return; /* the agent says it again on its next link */
    struct pending p = {.number = number,
                        .message = message,
                        .start_wall_ms = row->start_wall_ms,
                        .span_us = row->span_us,
                        .status = row->status,
                        .agent = xstrndup(row->agent.p, row->agent.len),
                        .who = xstrndup(row->who.p, row->who.len),
                        .how = xstrndup(row->how.p, row->how.len),
                        .output = xstrndup(row->output.p, row->output.len)};
    packed_bounded(&p.argv, row->argv);
    buf_add(&p.cwd, row->cwd.p, row->cwd.len);
    take(a, &p);
}

void audit_begin(struct audit *a, uint64_t number, uint64_t message, const struct audit_row *row) {
    if (open_rows_add(a->open, number, message, row))
        wait_for_more(a);
    else
        audit_flush(a);
}

static char *text_at(struct db *db, int column) {
    struct bytes b = db_col(db, Q_open_next, column);
    return xstrndup(b.p, b.len);
}

static void end_unknown(struct audit *a, struct bytes agent) {
    struct db *db = a->db;
    struct pending p = {.number = db_col_u(db, Q_open_next, 0),
                        .message = db_col_u(db, Q_open_next, 1),
                        .start_wall_ms = db_col_u(db, Q_open_next, 5),
                        .agent = xstrndup(agent.p, agent.len),
                        .who = text_at(db, 2),
                        .how = xstrdup("unknown"),
                        .output = text_at(db, 6)};
    struct bytes argv = db_col(db, Q_open_next, 3), cwd = db_col(db, Q_open_next, 4);
    buf_add(&p.argv, argv.p, argv.len);
    buf_add(&p.cwd, cwd.p, cwd.len);
    db_done(db, Q_open_next);
    int64_t ms = clock_wall_ms() - (int64_t)p.start_wall_ms;
    p.span_us = ms > 0 ? (uint64_t)ms * 1000 : 0;
    take(a, &p);
}

err_t audit_end_open(struct audit *a, struct bytes agent, uint64_t before) {
    audit_flush(a); /* what waits may be their ends */
    for (uint64_t at = 0; !a->stuck && a->n < AUDIT_BATCH;) {
        bool row;
        err_t e = db_first(a->db, Q_open_next, DB_VALUES(db_t(agent), db_i(at), db_i(before)), &row);
        if (e || !row) {
            db_done(a->db, Q_open_next);
            return e;
        }
        at = db_col_u(a->db, Q_open_next, 0);
        end_unknown(a, agent);
    }
    return NULL;
}

bool audit_full(const struct audit *a) {
    return a->stuck && (a->n == AUDIT_BATCH || a->bytes >= AUDIT_BATCH_BYTES);
}

uint64_t audit_head(const struct audit *a, uint8_t ret_hash[AUDIT_HASH]) {
    memcpy(ret_hash, a->hash, AUDIT_HASH);
    return a->seq;
}

err_t audit_new(struct event_base *base, struct db *db, const struct audit_ops *ops, void *ctx,
                struct audit **ret) {
    struct audit *a = xcalloc(1, sizeof *a);
    *a = (struct audit){.db = db, .ops = ops, .ctx = ctx};
    a->due = evtimer_new(base, on_due, a);
    a->open = open_rows_new(db);
    bool row = false;
    err_t e = db_first(db, Q_rows_head, NULL, 0, &row);
    struct bytes hash = row ? db_col(db, Q_rows_head, 1) : (struct bytes){0};
    if (row && hash.len == AUDIT_HASH) {
        a->seq = db_col_u(db, Q_rows_head, 0);
        memcpy(a->hash, hash.p, AUDIT_HASH);
    }
    db_done(db, Q_rows_head);
    if (e) {
        audit_free(a);
        return e;
    }
    *ret = a;
    return NULL;
}

void audit_free(struct audit *a) {
    if (!a)
        return;
    for (size_t i = 0; i < a->n; i++)
        drop(&a->pending[i]);
    event_free(a->due);
    open_rows_free(a->open);
    free(a);
}

/* ---- reading ---- */

err_t audit_back(struct db *db, struct bytes agent, uint64_t n, uint64_t *ret_seq) {
    if (agent.len)
        return db_number(db, Q_rows_back_of, DB_VALUES(db_i(n), db_t(agent)), 0, ret_seq);
    return db_number(db, Q_rows_back, DB_VALUES(db_i(n)), 0, ret_seq);
}

static bool give_here(struct db *db, enum query q, audit_give *give, void *ctx, uint64_t *ret_seq) {
    own_free struct bytes *items = NULL;
    struct audit_row row = {.seq = db_col_u(db, q, 0),
                            .agent = db_col(db, q, 1),
                            .who = db_col(db, q, 2),
                            .argv = packed_items(db_col(db, q, 3), &items),
                            .cwd = db_col(db, q, 4),
                            .start_wall_ms = db_col_u(db, q, 5),
                            .span_us = db_col_u(db, q, 6),
                            .how = db_col(db, q, 7),
                            .status = (int64_t)db_col_u(db, q, 8),
                            .output = db_col(db, q, 9)};
    if (!give(ctx, &row, db_col(db, q, 10)))
        return false;
    *ret_seq = row.seq;
    return true;
}

err_t audit_after(struct db *db, struct bytes agent, uint64_t limit, audit_give *give, void *ctx,
                  uint64_t *ret_seq, bool *ret_more) {
    enum query q = agent.len ? Q_rows_after_of : Q_rows_after;
    bool row, taken = true;
    uint64_t given = 0;
    TRY(db_first(db, q, DB_VALUES(db_i(*ret_seq), db_i(limit), db_t(agent)), &row));
    err_t e = NULL;
    while (!e && row) {
        taken = give_here(db, q, give, ctx, ret_seq);
        if (!taken)
            break;
        given++;
        e = db_next(db, q, &row);
    }
    db_done(db, q);
    *ret_more = !taken || given == limit;
    return e;
}

static bool give_open(struct db *db, audit_give *give, void *ctx) {
    own_free struct bytes *items = NULL;
    uint64_t start = db_col_u(db, Q_open_of, 4);
    int64_t ms = clock_wall_ms() - (int64_t)start;
    struct audit_row row = {.agent = db_col(db, Q_open_of, 0),
                            .who = db_col(db, Q_open_of, 1),
                            .argv = packed_items(db_col(db, Q_open_of, 2), &items),
                            .cwd = db_col(db, Q_open_of, 3),
                            .start_wall_ms = start,
                            .span_us = ms > 0 ? (uint64_t)ms * 1000 : 0,
                            .how = bytes_of("running"),
                            .output = db_col(db, Q_open_of, 5)};
    return give(ctx, &row, bytes_of(""));
}

err_t audit_running(struct db *db, struct bytes agent, audit_give *give, void *ctx) {
    bool row;
    err_t e = db_first(db, Q_open_of, DB_VALUES(db_t(agent)), &row);
    while (!e && row && give_open(db, give, ctx))
        e = db_next(db, Q_open_of, &row);
    db_done(db, Q_open_of);
    return e;
}
