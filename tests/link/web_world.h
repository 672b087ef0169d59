/* A relay with its web page, and a browser's side of it, by hand. */
#ifndef LINK_WEB_WORLD_H
#define LINK_WEB_WORLD_H

#include "relay_world.h"

#define OURS "Host: 127.0.0.1:%u\r\n"

/* The relay, and the session that setup logs in. */
extern struct world w;
extern char cookie[65], key[65];

int web_setup(void **state);
int web_teardown(void **state);

/* A connection to the page's port. */
int knock(void);

void put(int fd, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* A request: "GET /path", and more lines of its head, each with its CRLF. */
void put_call(int fd, const char *line, const char *more);

/* The same by the session of these two halves. */
void put_call_as(int fd, const char *c, const char *k, const char *line, const char *more);

/* The page's own POST, with its body. */
void post(int fd, const char *line, const char *body);

/* What comes until `until` has come; NULL: until the peer closes. Nothing else ends it, and it comes in time. Static. */
const char *get(int fd, const char *until);

/* 0: it is no answer. */
unsigned status_of(const char *answer);

/* root's word to the front, which takes it. */
void word(const char *text, struct msg *ret_end);

/* The token of a fresh link; the caller frees it. */
char *link_token(void);

/* The answer's status; 200: the halves of the new session. */
unsigned log_in(const char *token, char *ret_cookie, char *ret_key);

/* It still answers who is logged in. */
void expect_service(void);

#endif
