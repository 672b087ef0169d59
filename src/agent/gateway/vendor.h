/* What is different between the vendors' APIs: the header that holds the credential, and how an error looks. Pure. */
#ifndef AGENT_GATEWAY_VENDOR_H
#define AGENT_GATEWAY_VENDOR_H

#include "agent/gateway/secret.h"
#include "base/buf.h"

enum gate_error {
    GATE_NOT_LOGGED_IN,
    GATE_ENDED,    /* the placeholder of a session that is over */
    GATE_RENEWING, /* the log-in is being renewed: the same request is good again in a moment */
    GATE_OVER_BUDGET,
    GATE_NOT_HERE, /* a path or a method that does not pass */
    GATE_BAD,      /* a request that is refused as it is */
    GATE_UPGRADE,  /* another protocol was asked for */
    GATE_NO_UPSTREAM,
    GATE_BAD_ANSWER,
    GATE_TOO_SLOW,
    GATE_ERRORS
};

/* The header, and what stands before the credential in it ("Bearer " or ""). */
struct vendor_place {
    const char *header, *before;
};
struct vendor_place vendor_place(enum vendor v, enum login l);

/* A whole response with the error as this vendor's programs know it. to_head: without its body. */
void vendor_error(struct buf *out, enum vendor v, enum gate_error what, const char *text, bool to_head,
                  bool close);

#endif
