/*
 * HTTP/1.1 heads, strictly (RFC 9112), from bytes that both sides may have chosen to confuse the other. libevent's own
 * HTTP client and server keep each whole message in memory and give the caller no say in when to read on, so a stream
 * could neither pass as it comes nor be held back; that is why the framing is ours. Pure.
 *
 * Refused: bare CR or LF, folded lines, a blank before the colon, names that are no tokens, control bytes in values,
 * Content-Length twice or beside Transfer-Encoding, a coding other than "chunked" alone, HTTP/1.0 requests.
 */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include "base/err.h"
#include "proto/msg.h"

#include <stdbool.h>
#include <stdint.h>

enum { HEAD_MAX = 65536, HEADERS_MAX = 100 };

/* How the end of a body is known. */
enum framing { FRAMING_NONE, FRAMING_LENGTH, FRAMING_CHUNKED, FRAMING_CLOSE };

struct header {
    struct bytes name, value; /* the value without the blanks around it */
};

struct head {
    struct bytes method, target; /* of a request */
    unsigned status;             /* of a response, 100 to 599 */
    struct bytes reason;
    struct header headers[HEADERS_MAX];
    size_t n;
    enum framing framing;
    uint64_t length; /* FRAMING_LENGTH */
    bool close;      /* the connection ends with this message */
    bool expects;    /* Expect: 100-continue */
    bool upgrades;   /* it asks for another protocol */
};

/*
 * p[0..n) is the whole head, the empty line included (head_end()). All texts of *ret point into p. EXIT_USAGE and a
 * sentence for what is refused.
 */
err_t head_request(const char *p, size_t n, struct head *ret);

/* to_head: it answers a HEAD, so it has no body whatever it says. */
err_t head_response(const char *p, size_t n, bool to_head, struct head *ret);

/* The header of this name, in any case; NULL when it is not there. *ret_more: there is another one. */
const struct header *head_find(const struct head *h, const char *name, bool *ret_more);

/* Is this header the connection's own (RFC 9110, 7.6.1), also by being named in Connection? Such are not passed on. */
bool head_hop_by_hop(const struct head *h, const struct header *one);

/* Texts of headers are ASCII: case does not count in names and in some values. */
bool head_is(struct bytes b, const char *word);

#endif
