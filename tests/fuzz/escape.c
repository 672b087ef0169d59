/*
 * Hostile text made harmless: whatever goes in, what comes out is valid UTF-8 without a control, ESC, C1, bidi or
 * zero-width character; cut to any size it is still that; and as JSON text it is valid UTF-8.
 */
#include "base/buf.h"
#include "base/escape.h"

#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool harmless(const char *p, size_t n, enum escape_mode mode) {
    if (!utf8_valid(p, n))
        return false;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        bool blank = mode == ESCAPE_TEXT && (c == '\n' || c == '\t');
        if ((c < 0x20 && !blank) || c == 0x7f || (c == 0xc2 && (unsigned char)p[i + 1] < 0xa0))
            return false;
        /* U+200B..F, U+2028..E, U+2066..9: E2 80 8B..8F, E2 80 A8..AE, E2 81 A6..A9; U+061C: D8 9C */
        if (c == 0xe2 && i + 2 < n) {
            unsigned char b = (unsigned char)p[i + 1], d = (unsigned char)p[i + 2];
            if ((b == 0x80 && ((d >= 0x8b && d <= 0x8f) || (d >= 0xa8 && d <= 0xae))) ||
                (b == 0x81 && d >= 0xa6 && d <= 0xa9))
                return false;
        }
        if (c == 0xd8 && (unsigned char)p[i + 1] == 0x9c)
            return false;
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    for (int mode = ESCAPE_LINE; mode <= ESCAPE_TEXT; mode++) {
        own_buf struct buf out = {0};
        escape_text(&out, (enum escape_mode)mode, data, size);
        if (!harmless(buf_text(&out), out.len, (enum escape_mode)mode))
            abort();
        char place[33];
        size_t room = size % sizeof place + 1;
        escape_into(place, room > sizeof place ? sizeof place : room, (enum escape_mode)mode, data, size);
        if (!harmless(place, strlen(place), (enum escape_mode)mode))
            abort();
    }
    own_buf struct buf utf8 = {0};
    escape_utf8(&utf8, data, size);
    if (!utf8_valid(buf_text(&utf8), utf8.len))
        abort();
    return 0;
}
