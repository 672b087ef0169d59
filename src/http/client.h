/*
 * Requests to one host over one connection that is kept, one at a time. The answer is held whole, up to a bound of the
 * request's; its framing is held to RFC 9112 (head.h), so a half answer is a failure and never an answer. An answer that ends
 * with its connection ends by the host's word (of TLS too), not by a reset. Answers are cleared after use.
 */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include "http/dial.h"
#include "http/head.h"

struct http_client;

enum http_end {
    HTTP_ANSWERED,
    HTTP_UNSENT,  /* nothing of the request reached the host */
    HTTP_CUT,     /* it may have been done, or not */
    HTTP_TOO_BIG, /* the answer is over its bound; what came of it is the body */
    HTTP_ENDS
};

struct http_answer {
    enum http_end end;
    unsigned status; /* with HTTP_ANSWERED and HTTP_TOO_BIG */
    struct bytes body;
    const char *why; /* with the others; names no path */
};
typedef void http_fn(void *ctx, const struct http_answer *a);

/* `to` outlives it. */
struct http_client *http_client_new(struct event_base *base, struct dialer *dialer,
                                    const struct upstream *to);

/* Closes; nothing is called back. Safe inside a callback of its own. NULL is fine. */
void http_client_free(struct http_client *c);

/*
 * POST or GET (body NULL) `path`. The body's bytes are moved out of `body`. on_end is called once, from the loop, at most
 * wait_s seconds after the connection stands; it may ask again. Only when !http_client_busy().
 */
void http_client_ask(struct http_client *c, const char *path, const char *type, struct evbuffer *body,
                     size_t answer_max, int wait_s, http_fn *on_end, void *ctx);
bool http_client_busy(const struct http_client *c);

/* A body that passes a piece at a time. It outlives the request; its functions may neither free the client nor ask. */
struct http_flow {
    void *ctx;
    /* http_client_fetch(): the head came, with status 200; length: UINT64_MAX when it is not said. NULL: go on; else why not
     * (HTTP_CUT). */
    const char *(*begin)(void *ctx, uint64_t length);
    void (*piece)(void *ctx, struct bytes piece);
    void (*room)(void *ctx); /* http_client_post(): what was put is on its way */
};

/* GET. The body of a 200 goes to `flow`, of which on_end gets nothing; any other is held as ever. Each piece has wait_s. */
void http_client_fetch(struct http_client *c, const char *path, size_t answer_max, int wait_s,
                       const struct http_flow *flow, http_fn *on_end, void *ctx);

/* Held: no more of the answer is read, but for some KiB on their way. */
void http_client_hold(struct http_client *c, bool held);

/* POST whose body comes in pieces by http_client_put(), chunked, until http_client_put_end(). Each piece has wait_s. */
void http_client_post(struct http_client *c, const char *path, const char *type, size_t answer_max,
                      int wait_s, const struct http_flow *flow, http_fn *on_end, void *ctx);
void http_client_put(struct http_client *c, struct bytes piece);
void http_client_put_end(struct http_client *c);
bool http_client_full(const struct http_client *c);
enum { HTTP_PUT_MAX = 256 * 1024 }; /* as much waits, and it is full */

#endif
