#include "executor/account.h"
#include "base/clock.h"
#include "base/own.h"

#include <stdlib.h>
#include <time.h>

struct kept {
    struct row row;
    size_t bytes;
    struct kept *next;
};

struct account {
    struct kept *first, **last;
    struct kept *unsent; /* the first that this link has not carried */
    struct link *link;
    size_t rows, bytes;
    uint64_t start, next;
};

struct account *account_new(void) {
    struct account *a = xcalloc(1, sizeof *a);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    a->start = a->next = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    a->last = &a->first;
    return a;
}

uint64_t account_number(struct account *a) {
    return a->next++;
}

uint64_t account_first(const struct account *a) {
    return a->start;
}

static err_t tell(struct link *l, const struct row *r) {
    struct msg m = {.type = MSG_ran_row};
    m.ran_row.row = r->number;
    m.ran_row.who = bytes_of(r->who);
    m.ran_row.argv = r->argv;
    m.ran_row.cwd = r->cwd;
    m.ran_row.start_wall_ms = r->start_wall_ms;
    m.ran_row.span_us = r->span_us;
    m.ran_row.how = bytes_of(r->how);
    m.ran_row.status = r->status;
    return link_send(l, &m);
}

void account_push(struct account *a) {
    while (a->link && a->unsent && !link_full(a->link)) {
        own_err err_t e = tell(a->link, &a->unsent->row);
        if (e)
            return; /* the link is over: the next one gets it */
        a->unsent = a->unsent->next;
    }
}

/* One block for a line's words and folder: what a message was decoded into has more, and larger, tables. */
static size_t pack(struct row *r) {
    size_t size = r->argv.n * sizeof *r->argv.v + r->cwd.len + 1;
    for (size_t i = 0; i < r->argv.n; i++)
        size += r->argv.v[i].len + 1;
    struct bytes *words = xmalloc(size);
    char *at = (char *)(words + r->argv.n);
    for (size_t i = 0; i < r->argv.n; i++) {
        words[i] = (struct bytes){at, r->argv.v[i].len};
        memcpy(at, r->argv.v[i].p, words[i].len + 1);
        at += words[i].len + 1;
    }
    memcpy(at, r->cwd.p, r->cwd.len);
    at[r->cwd.len] = 0;
    r->cwd.p = at;
    r->argv.v = words;
    free(r->arena);
    r->arena = words;
    return size;
}

void account_add(struct account *a, const struct row *row) {
    struct kept *k = xcalloc(1, sizeof *k);
    k->row = *row;
    if (!k->row.number)
        k->row.number = account_number(a);
    k->bytes = sizeof *k + pack(&k->row);
    *a->last = k;
    a->last = &k->next;
    a->rows++;
    a->bytes += k->bytes;
    if (!a->unsent)
        a->unsent = k;
    account_push(a);
}

bool account_full(const struct account *a) {
    return a->rows >= ACCOUNT_ROWS || a->bytes >= ACCOUNT_BYTES;
}

bool account_empty(const struct account *a) {
    return !a->first;
}

void account_link(struct account *a, struct link *l) {
    a->link = l;
    a->unsent = a->first;
    account_push(a);
}

static void drop(struct account *a, struct kept **at) {
    struct kept *k = *at;
    *at = k->next;
    if (a->last == &k->next)
        a->last = at;
    if (a->unsent == k)
        a->unsent = k->next;
    a->rows--;
    a->bytes -= k->bytes;
    free(k->row.arena);
    free(k);
}

void account_settle(struct account *a, uint64_t number) {
    for (struct kept **at = &a->first; *at; at = &(*at)->next)
        if ((*at)->row.number == number) {
            drop(a, at);
            return;
        }
}

void account_free(struct account *a) {
    if (!a)
        return;
    while (a->first)
        drop(a, &a->first);
    free(a);
}
