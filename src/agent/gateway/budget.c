#include "agent/gateway/budget.h"
#include "base/own.h"
#include "base/parse.h"

#include <stdlib.h>
#include <string.h>

enum {
    HOUR_S = 3600,
    DAY_S = 24 * HOUR_S,
    WEEK_S = 7 * DAY_S,
    MONDAY_S = 4 * DAY_S
}; /* 1970-01-05 was a Monday */

static int64_t start_of(uint64_t span_s, int64_t now_ms) {
    int64_t span = (int64_t)span_s * 1000, shift = span_s == BUDGET_WEEK_S ? MONDAY_S * INT64_C(1000) : 0;
    return span ? now_ms - (now_ms - shift) % span : 0;
}

void window_at(struct window *w, const struct budget *b, int64_t now_ms) {
    if (!b->limit) {
        *w = (struct window){0};
        return;
    }
    int64_t start = start_of(b->span_s, now_ms);
    if (w->span_s == b->span_s && start > w->start_ms)
        w->used = 0;
    if (w->span_s != b->span_s || start > w->start_ms)
        w->start_ms = start;
    w->span_s = b->span_s;
}

uint64_t tokens_sum(const struct tokens *t) {
    return t->input + t->output + t->cache_read + t->cache_write;
}

void window_use(struct window *w, const struct budget *b, const struct tokens *t) {
    if (b->limit)
        w->used += tokens_sum(t);
}

bool window_over(const struct window *w, const struct budget *b) {
    return b->limit && w->used >= b->limit;
}

int64_t window_until_ms(const struct window *w) {
    return w->span_s ? w->start_ms + (int64_t)w->span_s * 1000 : 0;
}

/* ---- prices ---- */

struct price {
    char model[SCAN_MODEL_MAX];
    uint64_t each[4]; /* millionths of the unit for a million tokens */
};

static void skip_blanks(const char **at) {
    *at += strspn(*at, " \t");
}

/* The row at *at, which moves behind it and its ';'. False: none is left. */
static err_t take_row(const char **at, struct price *ret, bool *ret_got) {
    *at += strspn(*at, " \t;");
    *ret_got = **at != 0;
    if (!*ret_got)
        return NULL;
    size_t n = strcspn(*at, " \t;");
    const char *row = *at;
    bool good = n < sizeof ret->model;
    memcpy(ret->model, row, good ? n : 0);
    ret->model[good ? n : 0] = 0;
    *at += n;
    for (size_t i = 0; i < COUNT(ret->each); i++) {
        skip_blanks(at);
        good = budget_decimal(at, &ret->each[i]) && good;
    }
    skip_blanks(at);
    good = good && (!**at || **at == ';');
    if (!good)
        return err_new(
            EXIT_USAGE,
            "prices: \"%.40s\": a row is MODEL INPUT OUTPUT CACHE_READ CACHE_WRITE, for a million tokens",
            row);
    return NULL;
}

err_t price_check(const char *table) {
    struct price row;
    bool got = true;
    while (got)
        TRY(take_row(&table, &row, &got));
    return NULL;
}

uint64_t price_nano(const char *table, const char *model, const struct tokens *t) {
    struct price row, best = {0};
    bool got = true, any = false;
    for (;;) {
        own_err err_t e = take_row(&table, &row, &got);
        if (e || !got)
            break;
        size_t n = strlen(row.model);
        if (!strncmp(model, row.model, n) && (!any || n > strlen(best.model))) {
            best = row;
            any = true;
        }
    }
    const uint64_t used[] = {t->input, t->output, t->cache_read, t->cache_write};
    uint64_t sum = 0;
    for (size_t i = 0; any && i < COUNT(used); i++)
        sum += used[i] * best.each[i] / 1000;
    return sum;
}
