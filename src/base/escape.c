#include "base/escape.h"

#include "base/own.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Length of the valid sequence at p (RFC 3629), 0 when there is none; its code point in *cp. */
static size_t decode(const uint8_t *p, size_t n, uint32_t *cp) {
    if (p[0] < 0x80) {
        *cp = p[0];
        return 1;
    }
    size_t len = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : 2;
    if (p[0] < 0xc2 || p[0] > 0xf4 || n < len)
        return 0;
    uint32_t c = p[0] & (0x7fu >> len);
    for (size_t i = 1; i < len; i++) {
        if ((p[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (p[i] & 0x3f);
    }
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *cp = c;
    return len;
}

static bool hidden(uint32_t c) {
    static const struct {
        uint32_t from, to;
    } ranges[] = {{0x7f, 0x9f},     {0xad, 0xad},     {0x61c, 0x61c},   {0x180e, 0x180e}, {0x200b, 0x200f},
                  {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};
    for (size_t i = 0; i < sizeof ranges / sizeof ranges[0]; i++)
        if (c >= ranges[i].from && c <= ranges[i].to)
            return true;
    return false;
}

/* Writes what stands for the character at p into piece (at least 16 bytes); returns the bytes of input used.
 */
static size_t one(char *piece, enum escape_mode mode, const uint8_t *p, size_t n) {
    uint32_t c;
    size_t used = decode(p, n, &c);
    if (!used) {
        snprintf(piece, 16, "\\x%02x", p[0]);
        return 1;
    }
    piece[0] = 0;
    if (mode == ESCAPE_TEXT && c == '\r' && n > 1 && p[1] == '\n')
        return 1;
    if (mode == ESCAPE_TEXT && (c == '\n' || c == '\t'))
        ;
    else if (c == '\n' || c == '\r' || c == '\t') {
        snprintf(piece, 16, "\\%c", c == '\n' ? 'n' : c == '\r' ? 'r' : 't');
        return used;
    } else if (c < 0x20 || c == 0x7f) {
        snprintf(piece, 16, "\\x%02x", (unsigned)c);
        return used;
    } else if (hidden(c)) {
        snprintf(piece, 16, "\\u{%x}", (unsigned)c);
        return used;
    }
    memcpy(piece, p, used);
    piece[used] = 0;
    return used;
}

void escape_text(struct buf *out, enum escape_mode mode, const void *text, size_t len) {
    const uint8_t *p = text;
    char piece[16];
    for (size_t i = 0; i < len;) {
        i += one(piece, mode, p + i, len - i);
        buf_adds(out, piece);
    }
}

void escape_print(FILE *to, enum escape_mode mode, const char *text) {
    own_buf struct buf safe = {0};
    escape_text(&safe, mode, text, strlen(text));
    fputs(buf_text(&safe), to);
}

char *escape_into(char *out, size_t size, enum escape_mode mode, const void *text, size_t len) {
    const uint8_t *p = text;
    char piece[16];
    size_t at = 0;
    for (size_t i = 0; i < len;) {
        i += one(piece, mode, p + i, len - i);
        size_t n = strlen(piece);
        if (at + n >= size)
            break;
        memcpy(out + at, piece, n);
        at += n;
    }
    out[at] = 0;
    return out;
}

void escape_utf8(struct buf *out, const void *text, size_t len) {
    const uint8_t *p = text;
    for (size_t i = 0; i < len;) {
        uint32_t c;
        size_t used = decode(p + i, len - i, &c);
        if (used)
            buf_add(out, p + i, used);
        else
            buf_adds(out, "\xef\xbf\xbd");
        i += used ? used : 1;
    }
}

bool utf8_valid(const void *text, size_t len) {
    const uint8_t *p = text;
    uint32_t c;
    for (size_t i = 0, used; i < len; i += used)
        if (!(used = decode(p + i, len - i, &c)))
            return false;
    return true;
}
