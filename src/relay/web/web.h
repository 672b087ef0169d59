/*
 * What the files of the web front share.
 *
 *   state    means                                              should                     mustn't
 *   HEAD     the head of a request is awaited, or is coming     end at its time limit      wait longer for a byte that trickles
 *   BODY     its body is coming                                 be as long as was said     begin before the head was judged
 *   ASKED    the fleet was asked; answers go out as they come   stop taking when full      read a second request
 *   FILE     a body goes into the fleet's pipe, or a file       hold either side when      answer before the body has come,
 *            comes out of it (files.c)                          the other does not take    or end a file that is not whole
 *   LEAVE    what is queued goes out, what comes is dropped     close at its time limit    answer anything more
 */
#ifndef RELAY_WEB_WEB_H
#define RELAY_WEB_WEB_H

#include "relay/front.h"
#include "relay/web/guard.h"
#include "relay/web/logins.h"

#include <event2/bufferevent.h>
#include <stdbool.h>

enum {
    HEAD_MS = 5000,  /* a whole head, from its first byte or the connection's */
    IDLE_MS = 60000, /* between two requests of one who is logged in */
    BODY_MS = 20000,
    LEAVE_MS = 3000,
    FILE_MS = 90000,     /* between two pieces of a file; its room waits a minute */
    STUCK_S = 30,        /* a peer that takes nothing of what is queued for it */
    PING_MS = 15000,     /* a stream is never silent for longer */
    OUT_MAX = 256 * 1024 /* bytes queued for one peer before its streams pause and its next request waits */
};

struct front {
    const struct front_row *row;
    struct event_base *base;
    struct router *router;
    struct guard guard;
    struct logins *logins; /* NULL: the page is off */
    unsigned port;
    struct event *acceptable, *sweep;
    struct visitor *visitors;
    size_t n;
};

enum visitor_state { VISITOR_HEAD, VISITOR_BODY, VISITOR_ASKED, VISITOR_FILE, VISITOR_LEAVE };

struct visitor {
    struct front *web;
    struct visitor *next, **at;
    struct bufferevent *bev;
    struct event *kick;
    enum visitor_state state;
    int64_t until_ns, ping_ns;
    struct asker *asker; /* while it is a session's */
    uint64_t session;    /* 0: a stranger */
    bool held, paused, ended, busy;
    const struct route *route;
    char *head; /* of the request in hand: what asked points into; it holds cookie and key */
    size_t head_len;
    struct asked asked;
    struct passing *file; /* FILE */
};

/* ---- visitor.c ---- */

void visitor_open(struct front *web, int fd);
void visitor_close(struct visitor *c);
void visitor_sweep(struct visitor *c, int64_t now_ns);

/* Another session's from here on, or nobody's (0): what was asked for the old one is forgotten. */
void visitor_be(struct visitor *c, uint64_t session);

/* Closes those whose session is over, with their streams. */
void visitors_close_ended(struct front *web);

/* A whole answer. type NULL: plain text. A stranger's connection ends with it. headers: more lines, each ending with CRLF. */
void visitor_answer(struct visitor *c, unsigned status, const char *type, const char *headers, const void *p,
                    size_t n);

/* Asks the fleet under cookie 1; answers go out as server-sent events, the last of them "end". */
void visitor_ask(struct visitor *c, struct msg *m);

/* For files.c: the head of an answer without its end; a piece of a chunked one; the request is over; it goes on, until ms. */
void visitor_head(struct visitor *c, unsigned status, const char *type, const char *headers);
void visitor_chunk(struct visitor *c, const void *p, size_t n);
void visitor_over(struct visitor *c);
void visitor_file(struct visitor *c);

/* ---- files.c ---- */

/* POST: the body is a file for an agent's in-tray. GET: one of its outbox, as an attachment. */
void file_put(struct visitor *c, struct bytes body);
void file_get(struct visitor *c, struct bytes body);

/* In FILE: the fleet's answer; something came, or was taken (true: the request is over); its end. */
void file_answered(struct visitor *c, const struct msg *m);
bool file_go(struct visitor *c);
void file_drop(struct visitor *c);

/* ---- api.c ---- */

struct route {
    const char *path;
    bool post, stranger; /* stranger: no session is needed */
    uint64_t body_max;
    void (*run)(struct visitor *c, struct bytes body);
    bool file; /* the body is not gathered: run gets none of it */
};

/* NULL: there is none; *ret_status says why (404, 405). */
const struct route *route_find(const struct asked *a, unsigned *ret_status);

/* ---- assets.c ---- */

/* The page's file of this path; false: none. */
bool asset_find(struct bytes path, const char **ret_type, struct bytes *ret);

#endif
