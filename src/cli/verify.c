#include "cli/verify.h"
#include "base/own.h"

#include <inttypes.h>
#include <stdarg.h>

static void found(struct verify *v, uint64_t seq, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static void found(struct verify *v, uint64_t seq, const char *fmt, ...) {
    if (*v->why)
        return;
    v->bad = seq;
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(v->why, sizeof v->why, fmt, ap);
    va_end(ap);
}

/* ---- heads ---- */

static bool hex(const char *text, uint8_t out[AUDIT_HASH]) {
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < 2 * AUDIT_HASH; i++) {
        const char *at = text[i] ? strchr(digits, text[i]) : NULL;
        if (!at)
            return false;
        uint8_t nibble = (uint8_t)(at - digits);
        out[i / 2] = i % 2 ? (uint8_t)(out[i / 2] | nibble) : (uint8_t)(nibble << 4);
    }
    return true;
}

static bool head_of(const char *line, struct head *ret) {
    char text[2 * AUDIT_HASH + 1];
    uint64_t wall_ms;
    int end = 0;
    return sscanf(line, "%" SCNu64 " %64s %" SCNu64 "%n", &ret->seq, text, &wall_ms, &end) == 3 &&
           line[end] == '\n' && !line[end + 1] && hex(text, ret->hash);
}

static void add_head(struct verify *v, const struct head *head) {
    if (v->nheads && v->heads[v->nheads - 1].seq == head->seq) {
        if (memcmp(v->heads[v->nheads - 1].hash, head->hash, AUDIT_HASH) != 0)
            found(v, head->seq, "the warden was told two different hashes of it");
        return;
    }
    if (v->nheads && v->heads[v->nheads - 1].seq > head->seq) {
        found(v, head->seq, "the warden was told of it after row %" PRIu64 ": the log began anew",
              v->heads[v->nheads - 1].seq);
        return;
    }
    if (v->nheads % 1024 == 0)
        v->heads = xrealloc(v->heads, v->nheads + 1024, sizeof *v->heads);
    v->heads[v->nheads++] = *head;
}

err_t verify_heads(struct verify *v, FILE *from) {
    own_free char *line = NULL;
    size_t cap = 0, n = 0;
    ssize_t len;
    while ((len = getline(&line, &cap, from)) > 0) {
        struct head head;
        n++;
        if (line[len - 1] != '\n')
            break; /* torn by a crash: its row is told again */
        if (!head_of(line, &head))
            return err_new(EXIT_FAILED, "line %zu of the heads that the warden kept is not one", n);
        add_head(v, &head);
    }
    return NULL;
}

/* ---- rows ---- */

/* Passes over the heads of rows before `seq`. */
static const struct head *head_at(struct verify *v, uint64_t seq) {
    while (v->next < v->nheads && v->heads[v->next].seq < seq)
        v->next++;
    return v->next < v->nheads && v->heads[v->next].seq == seq ? &v->heads[v->next] : NULL;
}

static void start(struct verify *v, const struct audit_row *row) {
    v->first = row->seq;
    const struct head *before = row->seq > 1 ? head_at(v, row->seq - 1) : NULL;
    v->first_unchecked = row->seq > 1 && !before;
    if (before)
        memcpy(v->hash, before->hash, AUDIT_HASH);
}

err_t verify_row(struct verify *v, const struct audit_row *row, struct bytes hash) {
    if (*v->why)
        return NULL;
    if (hash.len != AUDIT_HASH) {
        found(v, row->seq, "it has no hash");
        return NULL;
    }
    if (!v->first)
        start(v, row);
    else if (row->seq != v->last + 1)
        found(v, v->last + 1, "it is missing");
    uint8_t made[AUDIT_HASH];
    TRY(audit_hash(v->hash, row, made));
    if (memcmp(made, hash.p, AUDIT_HASH) != 0 && !(v->first_unchecked && row->seq == v->first))
        found(v, row->seq, "its hash does not follow from the row and the hash before it");
    const struct head *head = head_at(v, row->seq);
    if (head && memcmp(head->hash, hash.p, AUDIT_HASH) != 0)
        found(v, row->seq, "the warden kept another hash of it: it or a row before it was changed");
    v->compared += head && !*v->why;
    v->last = row->seq;
    memcpy(v->hash, hash.p, AUDIT_HASH);
    return NULL;
}

void verify_end(struct verify *v) {
    if (v->nheads && v->heads[v->nheads - 1].seq > v->last)
        found(v, v->last + 1, "it is missing: the warden kept a hash of row %" PRIu64,
              v->heads[v->nheads - 1].seq);
}

void verify_free(struct verify *v) {
    free(v->heads);
    *v = (struct verify){0};
}
