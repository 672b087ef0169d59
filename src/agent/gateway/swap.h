/*
 * A request as it goes on to the upstream. The rules, as docs/gateway.md has them in a table:
 *
 *   path        what asks a model, and which models there are: a table of each vendor's; nothing else of its API
 *   credential  the placeholder, exactly, in the vendor's one header for this kind of login: the credential takes its place
 *   ChatGPT     …/backend-api/codex has no "/v1": it goes; the account of the log-in stands in a header of its own
 *   elsewhere   a placeholder anywhere else stays what it is, and is counted (strays)
 *   other       any other value of that header passes untouched
 *   ours        Host, the framing, Accept-Encoding (identity: figures are read from the answer); hop-by-hop headers go
 *
 *   ended       the placeholder of a session before this one, where this one's belongs: refused, and nothing of it goes on
 *
 * Pure: the credential itself is not seen here, only the place where it goes.
 */
#ifndef AGENT_GATEWAY_SWAP_H
#define AGENT_GATEWAY_SWAP_H

#include "http/head.h"
#include "agent/gateway/vendor.h"

/* How each placeholder begins; PLACEHOLDER_DIGITS hexadecimal digits follow. */
#define PLACEHOLDER_HEAD "placeholder-"
enum { PLACEHOLDER_DIGITS = 48 };

struct swap_rules {
    const struct upstream *upstream;
    enum login login; /* LOGIN_NONE: there is no credential, and a header with the placeholder is left out */
    struct bytes placeholder;
    struct bytes account; /* of a ChatGPT log-in: its upstream wants it beside the credential; "": none */
};

struct swapped {
    struct buf before, after; /* the head in two parts, the credential between them when `put` */
    bool put;
    unsigned strays; /* headers, or the target, that hold the placeholder where it is not looked for */
};

/* What the request is refused for, if it is. GATE_ERRORS: for nothing. */
enum gate_error swap_judge(const struct swap_rules *r, const struct head *h);

/* The caller ends *ret with swapped_free(). */
void swap_request(const struct swap_rules *r, const struct head *h, struct swapped *ret);
void swapped_free(struct swapped *s);

/* The head of an answer as it goes down: framing as body_of says (chunked unless the length is known), hop-by-hop headers gone. */
void swap_answer(const struct head *h, bool close, struct buf *out);

#endif
