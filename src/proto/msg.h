/*
 * Messages: typed structs made from messages.def, and their bytes.
 *
 * On the wire a message is one SOCK_SEQPACKET record: an 8-byte head (type, flags, body length;
 * little-endian), then the fields in the table's order: a number is 8 bytes, a text or byte string a 4-byte
 * length and its bytes, a list a 4-byte count and that many byte strings. Nothing is optional, named or
 * repeated, so there is nothing to leave out, say twice or add: wrong lengths, invalid UTF-8, a NUL in text,
 * anything over its bound, trailing bytes are all refused. A record over MSG_INLINE_MAX travels in a sealed
 * memfd (flag MSG_IN_MEMFD): see wire/seq.h.
 *
 * The field's type says what the struct holds:
 *   U64, I64: uint64_t, int64_t    TEXT, BYTES: struct bytes    LIST: struct list
 */
#ifndef PROTO_MSG_H
#define PROTO_MSG_H

#include "base/buf.h"
#include "base/err.h"
#include "proto/links.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct bytes {
    const char *p; /* after decoding also NUL-terminated: p[len] == 0 */
    size_t len;
};

struct list {
    const struct bytes *v;
    size_t n;
};

/* A struct bytes of a C string (NULL counts as ""). */
static inline struct bytes bytes_of(const char *s) {
    return (struct bytes){s ? s : "", s ? strlen(s) : 0};
}

enum { MSG_FDS_MAX = 4, MSG_HEAD = 8, MSG_INLINE_MAX = 96 * 1024, MSG_BODY_MAX = 4 << 20, MSG_IN_MEMFD = 1 };

enum msg_type {
    MSG_none,
#define MESSAGE(link, way, at, next, name, fmin, fmax, fields) MSG_##name,
#include "proto/messages.def"
#undef MESSAGE
    MSG_COUNT
};

#define U64(f) uint64_t f;
#define I64(f) int64_t f;
#define TEXT(f, max) struct bytes f;
#define BYTES(f, max) struct bytes f;
#define LIST(f, n, max) struct list f;
#define MESSAGE(link, way, at, next, name, fmin, fmax, fields)                                               \
    struct msg_##name {                                                                                      \
        fields                                                                                               \
    };
#include "proto/messages.def"
#undef MESSAGE
#undef U64
#undef I64
#undef TEXT
#undef BYTES
#undef LIST

/* One message, received or to be sent. What the fields point to belongs to `arena` after decoding, to the
 * caller before. */
struct msg {
    enum msg_type type;
    union {
#define MESSAGE(link, way, at, next, name, fmin, fmax, fields) struct msg_##name name;
#include "proto/messages.def"
#undef MESSAGE
    };
    int fds[MSG_FDS_MAX]; /* received: a handler that keeps one puts -1 in its place; the rest are closed
                             after it */
    size_t nfds;
    void *arena;
};

enum field_type { F_U64, F_I64, F_TEXT, F_BYTES, F_LIST };

struct field_row {
    enum field_type type;
    const char *name;
    size_t max;       /* bytes (LIST: in all) */
    size_t max_items; /* LIST */
};

struct msg_row {
    const char *name;
    enum link_id link;
    enum link_way way;
    unsigned at; /* AT() bits */
    enum link_moment next;
    size_t fds_min, fds_max;
    const struct field_row *fields;
    size_t nfields;
};

extern const struct msg_row msg_rows[MSG_COUNT]; /* msg_rows[MSG_none] is empty */

/* Appends the head and body of m to out. A field over its bound is an error (EXIT_USAGE). */
err_t msg_encode(const struct msg *m, struct buf *out);

/*
 * Parses one whole record (head and body) strictly. On success *ret owns its arena (msg_free) and has no
 * descriptors yet. `flags` of the head are returned in *ret_flags.
 */
err_t msg_decode(const void *p, size_t n, struct msg *ret, unsigned *ret_flags);

/* Does it carry a credential? Then whoever holds its bytes clears them before letting go, msg_free() too. */
bool msg_is_secret(enum msg_type type);

/* Frees the arena and closes the descriptors that are left (>= 0). */
void msg_free(struct msg *m);
#define own_msg __attribute__((cleanup(msg_free)))

/* May `type` come on this link, in this direction, at this moment? The one place where authority is decided.
 */
bool msg_permitted(enum msg_type type, enum link_id link, enum link_way way, enum link_moment moment);

/* The moment of the link after it. */
enum link_moment msg_next(enum msg_type type, enum link_moment now);

/* A number made from both tables: two builds that speak the same protocol have the same. */
uint64_t msg_fingerprint(void);

#endif
