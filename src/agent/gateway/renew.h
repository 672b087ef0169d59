/*
 * The log-in is renewed by the agent alone: one question at a time to the vendor's token endpoint, over TLS.
 *
 *   state    means                                             ends with
 *   REST     the access token is good, or nothing renews it    RENEW_BEFORE_S before its end, or a 401: ASK
 *   ASK      the endpoint is asked                             200: kept, then used: REST; refused by its word: DEAD; else WAIT
 *   WAIT     it could not be asked, or said another error       RETRY_MS, doubled up to RETRY_MOST_MS: ASK
 *   DEAD     the vendor renews it no more, which counts        another credential: REST
 *            from the access token's end on
 *
 * A new pair is in the file, synced, before it is used for anything: of an agent that is killed in between the old pair is
 * left, whole. A vendor that gives a refresh token once then refuses the old one, which the chat is told. A pair that
 * cannot be kept (a full disk) is used all the same, and that is said. What comes back for a credential that was replaced
 * meanwhile is dropped.
 */
#ifndef AGENT_GATEWAY_RENEW_H
#define AGENT_GATEWAY_RENEW_H

#include "agent/gateway/inside.h"

enum { RENEW_BEFORE_S = 300, RENEW_FRESH_S = 60, RETRY_MS = 1000, RETRY_MOST_MS = 300000 };

/* url: "": the vendor's own. */
err_t renew_new(struct gateway *g, const char *url, struct renew **ret);
void renew_free(struct renew *r);

/* Another credential: its end is looked at. */
void renew_watch(struct renew *r);

/*
 * The upstream answered 401 to a request with `used`. True: it is being renewed, or was meanwhile, so the request may be made
 * again; false: it is as good as it gets.
 */
bool renew_refused(struct renew *r, const struct secret *used);

/* The access token is over, and a new one is on its way. */
bool renew_pending(const struct renew *r);

/* It is over, and none will come. */
bool renew_dead(const struct renew *r);

#endif
