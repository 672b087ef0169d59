/*
 * The body behind a head: which bytes are its content and where it ends. Chunked bodies are unpacked here and packed
 * anew by whoever passes them on, so two sides can never see two different ends. Pure; no memory.
 */
#ifndef HTTP_BODY_H
#define HTTP_BODY_H

#include "http/head.h"

enum { BODY_LINE_MAX = 4096 }; /* of a chunk's size line and of all trailers together */

struct body {
    enum framing framing;
    enum {
        BODY_SIZE,
        BODY_EXTENSION,
        BODY_SIZE_LF,
        BODY_DATA,
        BODY_DATA_CR,
        BODY_DATA_LF,
        BODY_TRAILER,
        BODY_END_LF
    } at;
    uint64_t left;   /* of this chunk or of the whole */
    unsigned digits; /* of the size that is being read */
    size_t line;     /* bytes since the last content */
    bool line_empty; /* of a trailer */
    bool over;
};

void body_begin(struct body *b, enum framing framing, uint64_t length);

/*
 * Takes bytes from p[0..n) up to and with the next piece of content: *ret_used of them, of which *ret_content (pointing
 * into p, maybe empty) is content. Call again with the rest until all are used or b->over. An error: the body is broken.
 */
err_t body_take(struct body *b, const char *p, size_t n, size_t *ret_used, struct bytes *ret_content);

/* The connection ended: is that the body's end? */
bool body_may_end(const struct body *b);

#endif
