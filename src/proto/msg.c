/*
 * The codec walks a message's struct by its field table: every field type is a multiple of 8 bytes with
 * 8-byte alignment, so the offset of a field is the sum of the sizes before it (checked against sizeof for
 * every message below).
 */
#include "proto/msg.h"
#include "base/escape.h"
#include "base/own.h"

#include <endian.h>
#include <stdlib.h>
#include <unistd.h>

#define U64(f) {F_U64, #f, 8, 0},
#define I64(f) {F_I64, #f, 8, 0},
#define TEXT(f, max) {F_TEXT, #f, max, 0},
#define BYTES(f, max) {F_BYTES, #f, max, 0},
#define LIST(f, n, max) {F_LIST, #f, max, n},
#define MESSAGE(link, way, at, next, name, fmin, fmax, fields)                                               \
    static const struct field_row fields_##name[] = {fields};
#include "proto/messages.def"
#undef MESSAGE
#undef U64
#undef I64
#undef TEXT
#undef BYTES
#undef LIST

const struct msg_row msg_rows[MSG_COUNT] = {
#define MESSAGE(link, way, at, next, name, fmin, fmax, fields)                                               \
    [MSG_##name] = {#name, LINK_##link, way, at, next, fmin, fmax, fields_##name, COUNT(fields_##name)},
#include "proto/messages.def"
#undef MESSAGE
};

#define U64(f) +sizeof(uint64_t)
#define I64(f) +sizeof(int64_t)
#define TEXT(f, max) +sizeof(struct bytes)
#define BYTES(f, max) +sizeof(struct bytes)
#define LIST(f, n, max) +sizeof(struct list)
#define MESSAGE(link, way, at, next, name, fmin, fmax, fields)                                               \
    _Static_assert(sizeof(struct msg_##name) == 0 fields, "no padding in " #name);                           \
    _Static_assert((fmin) <= (fmax) && (fmax) < MSG_FDS_MAX, "descriptors of " #name);
#include "proto/messages.def"
#undef MESSAGE
#undef U64
#undef I64
#undef TEXT
#undef BYTES
#undef LIST

static size_t size_of(enum field_type t) {
    return t == F_U64 || t == F_I64 ? 8 : t == F_LIST ? sizeof(struct list) : sizeof(struct bytes);
}

static void put32(struct buf *out, size_t v) {
    uint32_t le = htole32((uint32_t)v);
    buf_add(out, &le, sizeof le);
}

static err_t bad(const struct msg_row *row, const struct field_row *f, const char *why) {
    return err_new(EXIT_USAGE, "message %s, field %s: %s", row->name, f->name, why);
}

static err_t check_text(const struct msg_row *row, const struct field_row *f, const char *p, size_t len) {
    if (f->type != F_BYTES && len && memchr(p, 0, len))
        return bad(row, f, "a NUL byte");
    if (f->type == F_TEXT && !utf8_valid(p, len))
        return bad(row, f, "not UTF-8");
    return NULL;
}

static err_t encode_field(const struct msg_row *row, const struct field_row *f, const char *at,
                          struct buf *out) {
    if (f->type == F_U64 || f->type == F_I64) {
        uint64_t le = htole64(*(const uint64_t *)(const void *)at);
        buf_add(out, &le, sizeof le);
        return NULL;
    }
    if (f->type != F_LIST) {
        const struct bytes *b = (const void *)at;
        if (b->len > f->max)
            return bad(row, f, "too long");
        TRY(check_text(row, f, b->p, b->len));
        put32(out, b->len);
        buf_add(out, b->p, b->len);
        return NULL;
    }
    const struct list *l = (const void *)at;
    if (l->n > f->max_items)
        return bad(row, f, "too many items");
    put32(out, l->n);
    size_t total = 0;
    for (size_t i = 0; i < l->n; i++) {
        if (l->v[i].len > f->max - total)
            return bad(row, f, "too long");
        total += l->v[i].len;
        TRY(check_text(row, f, l->v[i].p, l->v[i].len));
        put32(out, l->v[i].len);
        buf_add(out, l->v[i].p, l->v[i].len);
    }
    return NULL;
}

err_t msg_encode(const struct msg *m, struct buf *out) {
    if (m->type <= MSG_none || m->type >= MSG_COUNT)
        return err_new(EXIT_USAGE, "no such message type: %d", m->type);
    const struct msg_row *row = &msg_rows[m->type];
    size_t start = out->len;
    uint16_t head[4] = {htole16((uint16_t)m->type), 0, 0, 0};
    buf_add(out, head, sizeof head);
    const char *at = (const char *)&m->part_hello;
    for (size_t i = 0; i < row->nfields; at += size_of(row->fields[i].type), i++) {
        err_t e = encode_field(row, &row->fields[i], at, out);
        if (e) {
            out->len = start;
            return e;
        }
    }
    uint32_t body = htole32((uint32_t)(out->len - start - MSG_HEAD));
    memcpy(out->p + start + 4, &body, sizeof body);
    return NULL;
}

/* What is left to read, and where decoded bytes go. The arena holds the list tables, then NUL-terminated
 * copies. */
struct reader {
    const char *p;
    size_t n;
    char *text;          /* next free byte of the copies */
    struct bytes *items; /* next free list item */
};

static bool get32(struct reader *r, size_t *ret) {
    uint32_t le;
    if (r->n < sizeof le)
        return false;
    memcpy(&le, r->p, sizeof le);
    r->p += sizeof le;
    r->n -= sizeof le;
    *ret = le32toh(le);
    return true;
}

static err_t get_bytes(const struct msg_row *row, const struct field_row *f, size_t max, struct reader *r,
                       struct bytes *ret) {
    size_t len;
    if (!get32(r, &len) || len > r->n)
        return bad(row, f, "cut short");
    if (len > max)
        return bad(row, f, "too long");
    TRY(check_text(row, f, r->p, len));
    memcpy(r->text, r->p, len);
    r->text[len] = 0;
    *ret = (struct bytes){r->text, len};
    r->text += len + 1;
    r->p += len;
    r->n -= len;
    return NULL;
}

static err_t decode_field(const struct msg_row *row, const struct field_row *f, struct reader *r, char *at) {
    if (f->type == F_U64 || f->type == F_I64) {
        uint64_t le;
        if (r->n < sizeof le)
            return bad(row, f, "cut short");
        memcpy(&le, r->p, sizeof le);
        *(uint64_t *)(void *)at = le64toh(le);
        r->p += sizeof le;
        r->n -= sizeof le;
        return NULL;
    }
    if (f->type != F_LIST)
        return get_bytes(row, f, f->max, r, (void *)at);
    size_t n;
    if (!get32(r, &n) || n > r->n / 4)
        return bad(row, f, "cut short");
    if (n > f->max_items)
        return bad(row, f, "too many items");
    struct list *l = (void *)at;
    *l = (struct list){r->items, n};
    size_t left = f->max;
    for (size_t i = 0; i < n; i++) {
        TRY(get_bytes(row, f, left, r, r->items));
        left -= r->items->len;
        r->items++;
    }
    return NULL;
}

err_t msg_decode(const void *p, size_t n, struct msg *ret, unsigned *ret_flags) {
    uint16_t head[4];
    if (n < MSG_HEAD)
        return err_new(EXIT_USAGE, "message cut short: %zu bytes", n);
    memcpy(head, p, sizeof head);
    unsigned type = le16toh(head[0]), flags = le16toh(head[1]);
    uint32_t body;
    memcpy(&body, (const char *)p + 4, sizeof body);
    if (type == MSG_none || type >= MSG_COUNT)
        return err_new(EXIT_USAGE, "no such message type: %u", type);
    if (flags & ~(unsigned)MSG_IN_MEMFD || le32toh(body) != n - MSG_HEAD || n - MSG_HEAD > MSG_BODY_MAX)
        return err_new(EXIT_USAGE, "message %s: a head that does not fit its body", msg_rows[type].name);
    const struct msg_row *row = &msg_rows[type];
    struct msg m = {.type = type};
    /* Each item or string has a 4-byte length on the wire, so n/4 bounds both the items and the NULs added.
     */
    size_t most = (n - MSG_HEAD) / 4;
    m.arena = xmalloc(most * sizeof(struct bytes) + (n - MSG_HEAD) + most + 1);
    struct reader r = {(const char *)p + MSG_HEAD, n - MSG_HEAD, NULL, m.arena};
    r.text = (char *)m.arena + most * sizeof(struct bytes);
    char *at = (char *)&m.part_hello;
    for (size_t i = 0; i < row->nfields; at += size_of(row->fields[i].type), i++) {
        err_t e = decode_field(row, &row->fields[i], &r, at);
        if (e) {
            free(m.arena);
            return e;
        }
    }
    if (r.n) {
        free(m.arena);
        return err_new(EXIT_USAGE, "message %s: %zu bytes too many", row->name, r.n);
    }
    *ret = m;
    *ret_flags = flags;
    return NULL;
}

bool msg_is_secret(enum msg_type type) {
    return type == MSG_op_auth || type == MSG_part_secret || type == MSG_front_word;
}

static void clear_secret(const struct msg *m) {
    const struct bytes *b = m->type == MSG_op_auth       ? &m->op_auth.credential
                            : m->type == MSG_part_secret ? &m->part_secret.credential
                                                         : &m->front_word.data;
    if (msg_is_secret(m->type) && m->arena)
        explicit_bzero((char *)(uintptr_t)b->p, b->len);
}

void msg_free(struct msg *m) {
    clear_secret(m);
    for (size_t i = 0; i < m->nfds; i++)
        own_closep(&m->fds[i]);
    m->nfds = 0;
    free(TAKE(m->arena));
}

bool msg_permitted(enum msg_type type, enum link_id link, enum link_way way, enum link_moment moment) {
    if (type <= MSG_none || type >= MSG_COUNT || moment >= SAME)
        return false;
    const struct msg_row *row = &msg_rows[type];
    return row->link == link && row->way == way && (row->at & AT(moment));
}

enum link_moment msg_next(enum msg_type type, enum link_moment now) {
    return msg_rows[type].next == SAME ? now : msg_rows[type].next;
}

static uint64_t mix(uint64_t h, const void *p, size_t n) {
    for (size_t i = 0; i < n; i++) /* FNV-1a, 64 bits */
        h = (h ^ ((const uint8_t *)p)[i]) * 0x100000001b3u;
    return h;
}

uint64_t msg_fingerprint(void) {
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < LINK_COUNT; i++)
        h = mix(h, link_rows[i].name, strlen(link_rows[i].name) + 1);
    for (size_t i = MSG_none + 1; i < MSG_COUNT; i++) {
        const struct msg_row *row = &msg_rows[i];
        uint64_t what[] = {row->link, row->way, row->at, row->next, row->fds_min, row->fds_max};
        h = mix(h, row->name, strlen(row->name) + 1);
        h = mix(h, what, sizeof what);
        for (size_t k = 0; k < row->nfields; k++) {
            uint64_t bounds[] = {row->fields[k].type, row->fields[k].max, row->fields[k].max_items};
            h = mix(h, row->fields[k].name, strlen(row->fields[k].name) + 1);
            h = mix(h, bounds, sizeof bounds);
        }
    }
    return h;
}
