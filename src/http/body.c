#include "http/body.h"
#include "base/hex.h"

void body_begin(struct body *b, enum framing framing, uint64_t length) {
    *b = (struct body){.framing = framing, .left = length};
    b->over = framing == FRAMING_NONE || (framing == FRAMING_LENGTH && !length);
}

bool body_may_end(const struct body *b) {
    return b->over || b->framing == FRAMING_CLOSE;
}

static err_t bad(const char *why) {
    return err_new(EXIT_USAGE, "a chunked body that is broken: %s", why);
}

static err_t size_byte(struct body *b, char c) {
    int digit = hex_digit(c);
    if (digit >= 0 && b->digits < 15) {
        b->left = b->left << 4 | (unsigned)digit;
        b->digits++;
    } else if (!b->digits || digit >= 0)
        return bad("no size before a chunk");
    else if (c == '\r')
        b->at = BODY_SIZE_LF;
    else if (c == ';' || c == ' ' || c == '\t')
        b->at = BODY_EXTENSION;
    else
        return bad("a size that is no number");
    return NULL;
}

/* One byte of what stands between contents. */
static err_t frame_byte(struct body *b, char c) {
    if (++b->line > BODY_LINE_MAX)
        return bad("a line without end");
    switch (b->at) {
    case BODY_SIZE:
        return size_byte(b, c);
    case BODY_EXTENSION:
        b->at = c == '\r' ? BODY_SIZE_LF : BODY_EXTENSION;
        return c == '\n' ? bad("a bare newline") : NULL;
    case BODY_SIZE_LF:
        b->at = b->left ? BODY_DATA : BODY_TRAILER;
        b->line_empty = true;
        b->line = b->left ? 0 : b->line;
        return c == '\n' ? NULL : bad("a bare carriage return");
    case BODY_DATA_CR:
        b->at = BODY_DATA_LF;
        return c == '\r' ? NULL : bad("a chunk longer than it says");
    case BODY_DATA_LF:
        b->at = BODY_SIZE;
        b->digits = 0;
        return c == '\n' ? NULL : bad("a chunk longer than it says");
    case BODY_TRAILER:
        if (c == '\r')
            b->at = BODY_END_LF;
        else
            b->line_empty = false;
        return c == '\n' ? bad("a bare newline") : NULL;
    case BODY_END_LF:
        b->over = b->line_empty;
        b->line_empty = true;
        b->at = BODY_TRAILER;
        return c == '\n' ? NULL : bad("a bare carriage return");
    default:
        return bad("it is not known where");
    }
}

static void take_content(struct body *b, const char *p, size_t n, struct bytes *ret) {
    *ret = (struct bytes){p, b->framing == FRAMING_CLOSE || n < b->left ? n : (size_t)b->left};
    if (b->framing == FRAMING_CLOSE)
        return;
    b->left -= ret->len;
    if (b->left)
        return;
    if (b->framing == FRAMING_LENGTH)
        b->over = true;
    else
        b->at = BODY_DATA_CR;
}

err_t body_take(struct body *b, const char *p, size_t n, size_t *ret_used, struct bytes *ret_content) {
    size_t used = 0;
    *ret_content = (struct bytes){p, 0};
    while (b->framing == FRAMING_CHUNKED && b->at != BODY_DATA && used < n && !b->over)
        TRY(frame_byte(b, p[used++]));
    if (used < n && !b->over) {
        take_content(b, p + used, n - used, ret_content);
        used += ret_content->len;
    }
    *ret_used = used;
    return NULL;
}
