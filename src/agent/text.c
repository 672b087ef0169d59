#include "agent/text.h"
#include "base/escape.h"

#include <stdint.h>
#include <string.h>

/* Bytes of the character that begins with this one; 1 for what begins none. */
static size_t announced(uint8_t lead) {
    return lead > 0xf4 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 1;
}

size_t text_whole(const char *p, size_t n) {
    for (size_t back = 1; back <= 3 && back <= n; back++) {
        uint8_t c = (uint8_t)p[n - back];
        if ((c & 0xc0) != 0x80)
            return announced(c) > back ? n - back : n;
    }
    return n;
}

size_t text_rest(const char *p, size_t n) {
    size_t k = 0;
    while (k < n && k < 3 && ((uint8_t)p[k] & 0xc0) == 0x80)
        k++;
    return k;
}

void text_clean(struct buf *out, const char *p, size_t n) {
    while (n) {
        const char *nul = memchr(p, 0, n);
        size_t len = nul ? (size_t)(nul - p) : n;
        escape_utf8(out, p, len);
        if (!nul)
            return;
        buf_adds(out, "\xef\xbf\xbd");
        p = nul + 1;
        n -= len + 1;
    }
}
