/*
 * One connection of the harness, and the connection to the upstream that goes with it (kept for its next request).
 *
 *   state     means                                                     ends with
 *   AWAIT     nothing is under way; the next head is read               a whole head: REFUSE, CONNECT or PASS
 *   REFUSE    the answer is an error of ours; the body is passed over   the body's end: the error is said, AWAIT
 *   CONNECT   the upstream is being looked up and connected to          connected: PASS; none answers: REFUSE
 *   PASS      the request goes up, the answer comes down                the answer's end: AWAIT; a cut: LEAVE
 *   LEAVE     what is queued for the harness goes out                   then it is closed
 *
 * Only in PASS is anything read from the upstream. Must not: pass a byte of a request on before it was judged; say two
 * answers; go on with a connection on which the two sides might disagree where a message ends.
 */
#ifndef AGENT_GATEWAY_CONN_H
#define AGENT_GATEWAY_CONN_H

#include "http/body.h"
#include "agent/gateway/inside.h"

enum conn_state { CONN_AWAIT, CONN_REFUSE, CONN_CONNECT, CONN_PASS, CONN_LEAVE };

struct conn {
    struct gateway *g;
    struct conn *next, **at;
    enum conn_state state;
    struct bufferevent *down, *up; /* up: NULL when there is none */
    bool up_ended;                 /* what came before is still to be passed on */
    struct dial *dial;             /* the upstream is being looked up and connected to */
    struct event *deadline, *kick, *flush;

    /* of the request */
    struct secret *secret;  /* the one it is sent with */
    struct evbuffer *head;  /* what goes up first, before it is connected */
    struct evbuffer *piece; /* of an answer, looked through and not yet framed: see conn_flush_soon() */
    struct body request;
    bool chunked_up, to_head, close_down;
    struct sift strays; /* placeholders in its body */
    enum gate_error refusal;
    char why[256];

    /* of the answer */
    struct body answer;
    bool answering, chunked_down, close_up, scanning, counted;
    struct sift echoes; /* of the credential in its body */
    struct scan scan;
    struct tokens told; /* what of scan.seen was counted already */
};

/* pass.c: does what can be done with what has come, until nothing moves any more. c lives on after it. */
void conn_go(struct conn *c);

/* pass.c: what was gathered of the answer goes out, unless more came just now and is about to be gathered too. */
void conn_flush(struct conn *c);

/*
 * conn.c: conn_flush() in the loop's next turn, if there is anything. libevent reads one record of TLS in each turn; to
 * write each one by itself would wake the harness for each.
 */
void conn_flush_soon(struct conn *c);

/* conn.c; each only changes the state: conn_go() does the rest, in this turn of the loop or the next. */
void conn_connect(struct conn *c); /* leads to PASS, or to REFUSE */
void conn_fail(struct conn *c, enum gate_error what,
               const char *why); /* no answer was begun: an error is said */
void conn_leave(struct conn *c);
void conn_give_down(struct conn *c); /* the harness's side is another's now: c ends */
void conn_done(struct conn *c);      /* the answer is out: the next request */
void conn_drop_up(struct conn *c);

#endif
