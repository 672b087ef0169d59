/*
 * The model's API for tests: a process of its own that answers each request by the word behind "do=" in its target, one after
 * the other on each connection, a process for each. What it was asked is in a file, head and body, for the test to look at.
 *
 *   sse     an Anthropic stream: 100 in, 20 from the cache, 7 out; its first event, then 50 ms, then the rest
 *   json    a whole Anthropic message with the same figures
 *   big     10 MB in chunks, without figures          length  10 MB with a Content-Length
 *   close   without a length, ended by the connection cut     half an event, then the end
 *   stall   the head, then nothing                    echo    the credential, as it came, in the body
 *   hecho   the same in a header                      401 429 529   that status, with a body
 *   mute    ends without an answer                    hello   "hello", with Content-Length
 */
#ifndef TESTS_LINK_HTTP_DOUBLE_H
#define TESTS_LINK_HTTP_DOUBLE_H

#include "base/buf.h"

#include <stdint.h>
#include <sys/types.h>

struct http_double {
    pid_t pid;
    uint16_t port; /* on 127.0.0.1 */
    char log[64];  /* the file */
};

void http_double_start(struct http_double *d);
void http_double_stop(struct http_double *d);

/* All that it was asked so far. */
void http_double_log(const struct http_double *d, struct buf *out);

enum { HTTP_DOUBLE_BIG = 10 << 20 };

#endif
