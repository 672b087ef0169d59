/*
 * What is kept of the findings, and how they are printed. A hostile tree may hold any number of them, so each reason has its
 * own share: whatever is planted for one of them takes no place of another's, and each reason that was found is named. Only
 * the bound of the bytes is common; there the least bad of all goes first.
 *
 * Each reason's lie in a heap, the least bad on top: its place is what a worse one takes.
 */
#include "sealed/aftermath.h"

#include "base/escape.h"
#include "base/own.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_OF_ONE = 3 };

/* Small letters before capitals, so that ".git" stands before what another file system takes for it. */
static int by_letters(const char *a, const char *b) {
    while (*a && *a == *b)
        a++, b++;
    int x = (unsigned char)*a, y = (unsigned char)*b;
    return (isalpha(x) ? x ^ 0x20 : x) - (isalpha(y) ? y ^ 0x20 : y);
}

static int by_weight(const void *a, const void *b) {
    const struct aftermath_finding *x = a, *y = b;
    return x->weight != y->weight ? (x->weight < y->weight ? -1 : 1) : by_letters(x->path, y->path);
}

static void swap(struct aftermath_finding *x, struct aftermath_finding *y) {
    struct aftermath_finding was = *x;
    *x = *y;
    *y = was;
}

static void sift_up(struct aftermath_finding *v, size_t at) {
    for (size_t up; at && by_weight(&v[at], &v[up = (at - 1) / 2]) > 0; at = up)
        swap(&v[at], &v[up]);
}

static void sift_down(struct aftermath_finding *v, size_t n) {
    for (size_t at = 0, down; (down = 2 * at + 1) < n; at = down) {
        down += down + 1 < n && by_weight(&v[down + 1], &v[down]) > 0;
        if (by_weight(&v[at], &v[down]) >= 0)
            return;
        swap(&v[at], &v[down]);
    }
}

static size_t bytes_of_finding(const struct aftermath_finding *f) {
    return strlen(f->path) + strlen(f->detail);
}

static void drop_least(struct aftermath *a, struct aftermath_kind *k) {
    struct aftermath_finding *least = &k->v[--k->n];
    swap(&k->v[0], least);
    sift_down(k->v, k->n);
    a->bytes -= bytes_of_finding(least);
    k->more++;
    a->more++;
    free(least->path);
    free(least->detail);
}

static struct aftermath_kind *least_kind(struct aftermath *a) {
    struct aftermath_kind *least = NULL;
    for (size_t i = 0; i < a->nkinds; i++) {
        struct aftermath_kind *k = &a->kinds[i];
        if (k->n && (!least || by_weight(&k->v[0], &least->v[0]) > 0))
            least = k;
    }
    return least;
}

static struct aftermath_kind *kind_of(struct aftermath *a, const char *reason) {
    for (size_t i = 0; i < a->nkinds; i++)
        if (!strcmp(a->kinds[i].reason, reason))
            return &a->kinds[i];
    a->kinds = xrealloc(a->kinds, a->nkinds + 1, sizeof *a->kinds);
    a->kinds[a->nkinds] = (struct aftermath_kind){.reason = reason};
    return &a->kinds[a->nkinds++];
}

void findings_keep(struct aftermath *a, const struct collect_entry *e, const char *reason, char *detail) {
    struct aftermath_kind *k = kind_of(a, reason);
    if (k->n == k->cap)
        k->v = xrealloc(k->v, k->cap = k->cap ? k->cap * 2 : 16, sizeof *k->v);
    unsigned deep = e->depth < 0xffff ? (unsigned)e->depth : 0xffff;
    k->v[k->n] =
        (struct aftermath_finding){xstrdup(e->path), k->reason, aftermath_rank(reason) << 16 | deep, detail};
    a->bytes += bytes_of_finding(&k->v[k->n]);
    sift_up(k->v, k->n++);
    if (k->n > AFTERMATH_KEPT)
        drop_least(a, k);
    while (a->bytes > AFTERMATH_KEPT_BYTES)
        drop_least(a, least_kind(a));
}

static int by_rank(const void *a, const void *b) {
    const struct aftermath_kind *x = a, *y = b;
    unsigned n = aftermath_rank(x->reason), m = aftermath_rank(y->reason);
    return n != m ? (n < m ? -1 : 1) : strcmp(x->reason, y->reason);
}

void findings_order(struct aftermath *a) {
    for (size_t i = 0; i < a->nkinds; i++) {
        struct aftermath_kind *k = &a->kinds[i];
        a->v = xrealloc(a->v, a->n + k->n + 1, sizeof *a->v);
        memcpy(a->v + a->n, k->v, k->n * sizeof *k->v);
        a->n += k->n;
        free(TAKE(k->v));
    }
    if (a->n)
        qsort(a->v, a->n, sizeof *a->v, by_weight);
    if (a->nkinds)
        qsort(a->kinds, a->nkinds, sizeof *a->kinds, by_rank);
}

static void free_findings(struct aftermath_finding *v, size_t n) {
    for (size_t i = 0; i < n; i++) {
        free(v[i].path);
        free(v[i].detail);
    }
    free(v);
}

void aftermath_close(struct aftermath *a) {
    for (size_t i = 0; i < a->nkinds; i++)
        if (a->kinds[i].v)
            free_findings(a->kinds[i].v, a->kinds[i].n);
    free(a->kinds);
    free_findings(a->v, a->n);
    *a = (struct aftermath){0};
}

/* ---- printing ---- */

static void print_one(const struct aftermath_finding *f, const char *indent, struct buf *out) {
    buf_adds(out, indent);
    escape_text(out, ESCAPE_LINE, f->path, strlen(f->path));
    buf_printf(out, ": %s", f->reason);
    if (*f->detail) {
        buf_adds(out, " (");
        escape_text(out, ESCAPE_LINE, f->detail, strlen(f->detail));
        buf_adds(out, ")");
    }
    buf_adds(out, "\n");
}

static void print_findings(const struct aftermath *a, const char *indent, size_t most, struct buf *out) {
    bool all = !most || a->n <= most;
    own_free uint64_t *shown = xcalloc(a->nkinds + 1, sizeof *shown);
    size_t lines = 0;
    for (size_t i = 0, k; i < a->n; i++) {
        for (k = 0; strcmp(a->kinds[k].reason, a->v[i].reason) != 0;)
            k++;
        if (!all && (lines == most || shown[k] == SHOWN_OF_ONE))
            continue;
        print_one(&a->v[i], indent, out);
        shown[k]++;
        lines++;
    }
    for (size_t k = 0; k < a->nkinds; k++) {
        uint64_t more = a->kinds[k].n + a->kinds[k].more - shown[k];
        if (more)
            buf_printf(out, "%sand %llu more: %s\n", indent, (unsigned long long)more, a->kinds[k].reason);
    }
}

void aftermath_print(const struct aftermath *a, const char *indent, size_t most, struct buf *out) {
    print_findings(a, indent, most, out);
    if (a->skipped)
        buf_printf(
            out,
            "%s%llu were not looked at, or not into: too deep, a path too long, a mount, or not readable\n",
            indent, (unsigned long long)a->skipped);
    if (a->cut)
        buf_printf(out, "%sand not all was looked at: too many entries, or it took too long\n", indent);
}
