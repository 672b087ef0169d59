#include "relay/telegram/pieces.h"
#include "base/escape.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static size_t char_bytes(unsigned char c) {
    return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}

static size_t char_units(unsigned char c) {
    return c < 0xf0 ? 1 : 2;
}

size_t pieces_units(struct bytes text) {
    size_t n = 0;
    for (size_t i = 0; i < text.len; i += char_bytes((unsigned char)text.p[i]))
        n += char_units((unsigned char)text.p[i]);
    return n;
}

/* The most bytes that make no more than so many units. */
static size_t bytes_within(struct bytes text, size_t units) {
    size_t i = 0, n = 0;
    while (i < text.len) {
        unsigned char c = (unsigned char)text.p[i];
        if (n + char_units(c) > units || i + char_bytes(c) > text.len)
            break;
        n += char_units(c);
        i += char_bytes(c);
    }
    return i;
}

void pieces_tame(struct buf *out, struct bytes text) {
    own_buf struct buf safe = {0};
    escape_text(&safe, ESCAPE_TEXT, text.p, text.len);
    const char *p = buf_text(&safe);
    if (p[strspn(p, " \t\n")] == 0) {
        buf_adds(out, "(nothing)");
        return;
    }
    for (; *p; p++)
        if (!strncasecmp(p, "tg://", 5)) {
            buf_adds(out, "tg[:]");
            p += 2;
        } else {
            buf_add(out, p, 1);
        }
}

/* The last place in p[from..n) behind `what`; 0: none. */
static size_t last_behind(const char *p, size_t from, size_t n, const char *what) {
    size_t k = strlen(what);
    for (size_t i = n; i >= from + k && i >= k; i--)
        if (!memcmp(p + i - k, what, k))
            return i;
    return 0;
}

/* How many bytes of the text go into this piece. */
static size_t cut_at(struct bytes text, size_t units) {
    static const struct {
        const char *behind;
        unsigned least; /* tenths of the room that must be filled */
    } ways[] = {{"\n\n", 5}, {"\n", 3}, {" ", 5}};
    size_t n = bytes_within(text, units);
    if (n == text.len)
        return n;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        size_t at = last_behind(text.p, n * ways[i].least / 10, n, ways[i].behind);
        if (at)
            return at;
    }
    return n;
}

/* The fence that stands open behind these lines: "```c", or "" when none does. */
static void follow_fence(const char *p, size_t n, char fence[PIECES_FENCE_MAX]) {
    for (const char *end = p + n; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t len = nl ? (size_t)(nl - p) : (size_t)(end - p);
        if (len >= 3 && !memcmp(p, "```", 3)) {
            bool open = !*fence && len < 24;
            snprintf(fence, PIECES_FENCE_MAX, "%.*s", open ? (int)len : 0, p);
        }
        p += len + (nl != NULL);
    }
}

bool pieces_next(struct bytes *rest, size_t units, char fence[PIECES_FENCE_MAX], struct buf *out) {
    if (!rest->len)
        return false;
    size_t spare = 5; /* for "\n```" */
    if (*fence) {
        buf_printf(out, "%s\n", fence);
        spare += strlen(fence) + 1;
    }
    size_t n = cut_at(*rest, units - spare);
    follow_fence(rest->p, n, fence);
    buf_add(out, rest->p, n);
    rest->p += n;
    rest->len -= n;
    if (*fence && rest->len)
        buf_adds(out, out->p[out->len - 1] == '\n' ? "```" : "\n```");
    return true;
}
