#include "agent/record.h"
#include "base/own.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

static const char head[8] = "acjrnl\n\1";
enum { FRAME = 8, BODY_MAX = 1 << 20 };

/* CRC-32 as in IEEE 802.3, bit by bit: records are small and few. */
static uint32_t crc32_of(const char *p, size_t n) {
    uint32_t crc = ~0u;
    for (size_t i = 0; i < n; i++) {
        crc ^= (uint8_t)p[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (0xedb88320u & -(crc & 1));
    }
    return ~crc;
}

void record_head(struct buf *out) {
    buf_add(out, head, sizeof head);
}

size_t record_head_size(void) {
    return sizeof head;
}

bool record_is_head(const char *p) {
    return !memcmp(p, head, sizeof head);
}

static void put64(struct buf *b, uint64_t v) {
    v = htole64(v);
    buf_add(b, &v, sizeof v);
}

static void put_text(struct buf *b, const char *s) {
    size_t n = strlen(s);
    put64(b, n);
    buf_add(b, s, n);
}

static void put_started(struct buf *b, const struct record *r) {
    put64(b, r->wall_ms);
    put_text(b, r->who);
}

static void put_finished(struct buf *b, const struct record *r) {
    put64(b, r->end.outcome);
    put64(b, (uint64_t)r->end.status);
    put64(b, r->end.span_ms);
    put_text(b, r->end.text);
    put_text(b, r->end.output);
    put64(b, r->end.tokens);
    put64(b, r->end.tools);
}

struct reader {
    const char *p;
    size_t n;
    struct record *r;
    size_t texts;
};

static bool get64(struct reader *in, uint64_t *ret) {
    uint64_t v;
    if (in->n < sizeof v)
        return false;
    memcpy(&v, in->p, sizeof v);
    *ret = le64toh(v);
    in->p += sizeof v;
    in->n -= sizeof v;
    return true;
}

static bool get_text(struct reader *in, const char **ret) {
    uint64_t n;
    if (!get64(in, &n) || n > in->n || memchr(in->p, 0, n))
        return false;
    *ret = in->r->text[in->texts++] = xstrndup(in->p, n);
    in->p += n;
    in->n -= n;
    return true;
}

static bool get_started(struct reader *in) {
    return get64(in, &in->r->wall_ms) && get_text(in, &in->r->who);
}

static bool get_finished(struct reader *in) {
    struct ending *end = &in->r->end;
    uint64_t outcome, status;
    if (!get64(in, &outcome) || outcome >= OUTCOME_COUNT || !get64(in, &status) || !get64(in, &end->span_ms))
        return false;
    end->outcome = (enum outcome)outcome;
    end->status = (int64_t)status;
    if (!get_text(in, &end->text) || !get_text(in, &end->output))
        return false;
    end->tokens = end->tools = 0;
    return !in->n || (get64(in, &end->tokens) && get64(in, &end->tools)); /* older records have none */
}

/* What a record has behind its kind and id; SETTLED has nothing. */
static const struct {
    void (*put)(struct buf *, const struct record *);
    bool (*get)(struct reader *);
} kinds[RECORD_KINDS] = {
    [RECORD_STARTED] = {put_started, get_started},
    [RECORD_FINISHED] = {put_finished, get_finished},
};

void record_put(struct buf *out, const struct record *r) {
    size_t start = out->len;
    uint32_t frame[2] = {0};
    buf_add(out, frame, sizeof frame);
    put64(out, r->kind);
    put64(out, r->id);
    if (kinds[r->kind].put)
        kinds[r->kind].put(out, r);
    size_t body = out->len - start - FRAME;
    frame[0] = htole32((uint32_t)body);
    frame[1] = htole32(crc32_of(out->p + start + FRAME, body));
    memcpy(out->p + start, frame, sizeof frame);
}

size_t record_get(const char *p, size_t n, struct record *ret) {
    record_free(ret);
    uint32_t frame[2];
    if (n < FRAME)
        return 0;
    memcpy(frame, p, sizeof frame);
    size_t body = le32toh(frame[0]);
    if (body > n - FRAME || body > BODY_MAX || crc32_of(p + FRAME, body) != le32toh(frame[1]))
        return 0;
    struct reader in = {p + FRAME, body, ret, 0};
    uint64_t kind;
    if (!get64(&in, &kind) || kind < RECORD_STARTED || kind >= RECORD_KINDS || !get64(&in, &ret->id))
        return 0;
    ret->kind = (enum record_kind)kind;
    if ((kinds[kind].get && !kinds[kind].get(&in)) || in.n)
        return 0;
    return FRAME + body;
}

void record_free(struct record *r) {
    for (size_t i = 0; i < COUNT(r->text); i++)
        free(TAKE(r->text[i]));
}
