#include "agent/ledger.h"
#include "base/own.h"

#include <stdlib.h>

struct row {
    uint64_t number;
    struct buf bytes; /* the encoded desk_row: a fifth of what it takes decoded */
    struct row *next;
};

/* first … last in the order of their coming; those before `unsaid` were said. */
struct ledger {
    struct row *first, **last, *unsaid;
    size_t rows, bytes;
};

struct ledger *ledger_new(void) {
    struct ledger *k = xcalloc(1, sizeof *k);
    k->last = &k->first;
    return k;
}

static bool has(const struct ledger *k, uint64_t number) {
    for (const struct row *r = k->first; r; r = r->next)
        if (r->number == number)
            return true;
    return false;
}

err_t ledger_add(struct ledger *k, const struct msg *m) {
    if (has(k, m->desk_row.row))
        return NULL;
    own_buf struct buf bytes = {0};
    TRY(msg_encode(m, &bytes));
    struct row *r = xcalloc(1, sizeof *r);
    *r = (struct row){.number = m->desk_row.row, .bytes = bytes};
    bytes = (struct buf){0};
    k->rows++;
    k->bytes += r->bytes.len;
    *k->last = r;
    k->last = &r->next;
    if (!k->unsaid)
        k->unsaid = r;
    return NULL;
}

bool ledger_empty(const struct ledger *k) {
    return !k->first;
}

bool ledger_full(const struct ledger *k) {
    return k->rows >= LEDGER_ROWS || k->bytes >= LEDGER_BYTES;
}

void ledger_rewind(struct ledger *k) {
    k->unsaid = k->first;
}

bool ledger_next(struct ledger *k, struct msg *ret) {
    if (!k->unsaid)
        return false;
    unsigned flags;
    err_t e = msg_decode(k->unsaid->bytes.p, k->unsaid->bytes.len, ret, &flags);
    k->unsaid = k->unsaid->next;
    if (!e)
        return true;
    err_free(e); /* what we encoded decodes; a row that did not would be passed over */
    return ledger_next(k, ret);
}

void ledger_settle(struct ledger *k, uint64_t number) {
    for (struct row **at = &k->first; *at; at = &(*at)->next) {
        struct row *r = *at;
        if (r->number != number)
            continue;
        *at = r->next;
        if (!*at)
            k->last = at;
        if (k->unsaid == r)
            k->unsaid = r->next;
        k->rows--;
        k->bytes -= r->bytes.len;
        buf_free(&r->bytes);
        free(r);
        return;
    }
}

void ledger_free(struct ledger *k) {
    if (!k)
        return;
    while (k->first)
        ledger_settle(k, k->first->number);
    free(k);
}
