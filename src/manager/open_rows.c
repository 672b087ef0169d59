#include "manager/open_rows.h"
#include "base/own.h"
#include "manager/packed.h"

struct begun {
    uint64_t number, message, start_wall_ms;
    char *agent, *who, *output;
    struct buf argv, cwd;
    struct begun *next;
};

struct open_rows {
    struct db *db;
    struct begun *first;
    size_t n, bytes;
};

struct open_rows *open_rows_new(struct db *db) {
    struct open_rows *o = xcalloc(1, sizeof *o);
    o->db = db;
    return o;
}

static void drop(struct open_rows *o, struct begun **at) {
    struct begun *b = *at;
    *at = b->next;
    o->n--;
    o->bytes -= b->argv.len + b->cwd.len;
    free(b->agent);
    free(b->who);
    free(b->output);
    buf_free(&b->argv);
    buf_free(&b->cwd);
    free(b);
}

void open_rows_written(struct open_rows *o) {
    while (o->first)
        drop(o, &o->first);
}

void open_rows_free(struct open_rows *o) {
    if (!o)
        return;
    open_rows_written(o);
    free(o);
}

static bool full(const struct open_rows *o, size_t times) {
    return o->n >= OPEN_ROWS_WAIT * times || o->bytes >= OPEN_ROWS_BYTES * times;
}

bool open_rows_add(struct open_rows *o, uint64_t number, uint64_t message, const struct audit_row *row) {
    if (full(o, 2)) /* the disk is full: its agent says it again on its next link */
        return false;
    struct begun *b = xcalloc(1, sizeof *b);
    *b = (struct begun){.number = number,
                        .message = message,
                        .start_wall_ms = row->start_wall_ms,
                        .agent = xstrndup(row->agent.p, row->agent.len),
                        .who = xstrndup(row->who.p, row->who.len),
                        .output = xstrndup(row->output.p, row->output.len),
                        .next = o->first};
    packed_bounded(&b->argv, row->argv);
    buf_add(&b->cwd, row->cwd.p, row->cwd.len);
    o->first = b;
    o->n++;
    o->bytes += b->argv.len + b->cwd.len;
    return !full(o, 1);
}

void open_rows_drop(struct open_rows *o, const char *agent, uint64_t number) {
    for (struct begun **at = &o->first; *at; at = &(*at)->next)
        if ((*at)->number == number && !strcmp((*at)->agent, agent)) {
            drop(o, at);
            return;
        }
}

bool open_rows_wait(const struct open_rows *o) {
    return o->first;
}

static struct bytes bytes_in(const struct buf *b) {
    return (struct bytes){buf_text(b), b->len};
}

/* One that was ended as unknown before its agent said it again stays ended. */
static err_t write_one(struct db *db, const struct begun *b) {
    uint64_t known;
    struct bytes agent = bytes_of(b->agent);
    TRY(db_number(db, Q_row_known, DB_VALUES(db_t(agent), db_i(b->number)), 0, &known));
    if (known)
        return NULL;
    return db_do(db, Q_open_add,
                 DB_VALUES(db_t(agent), db_i(b->number), db_i(b->message), db_t(bytes_of(b->who)),
                           db_b(bytes_in(&b->argv)), db_b(bytes_in(&b->cwd)), db_i(b->start_wall_ms),
                           db_t(bytes_of(b->output))));
}

err_t open_rows_write(struct open_rows *o) {
    for (const struct begun *b = o->first; b; b = b->next)
        TRY(write_one(o->db, b));
    return NULL;
}
