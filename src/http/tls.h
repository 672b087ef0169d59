/* TLS as a client: certificates verified against a file of CAs, and the name that was dialled. Nothing turns that off. */
#ifndef HTTP_TLS_H
#define HTTP_TLS_H

#include "proto/upstream.h"

#include <event2/bufferevent.h>

struct tls;

/* `ca`: a file of CA certificates, read when first needed; copied. */
struct tls *tls_new(const char *ca);
void tls_free(struct tls *t);

/* A buffered connection that is not connected yet; over TLS when `to` says so. Its callbacks are deferred. */
err_t tls_open(struct tls *t, struct event_base *base, const struct upstream *to, struct bufferevent **ret);

/* Why it failed: TLS's word, else errno's. */
void tls_why(struct bufferevent *b, char *out, size_t size);

#endif
