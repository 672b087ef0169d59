/*
 * Who is logged in. A one-time link (made by root's word, ten minutes, one use) buys a session: a cookie and a key, both
 * needed for every call. Of links, cookies and keys only SHA-256 is kept; sessions outlive the relay in one small file.
 */
#ifndef RELAY_WEB_LOGINS_H
#define RELAY_WEB_LOGINS_H

#include "base/err.h"
#include "relay/web/guard.h"

enum { LINKS_MAX = 8, LINK_MS = 10 * 60 * 1000, SESSIONS_MAX = 16 };
#define SESSION_MS (INT64_C(30) * 24 * 3600 * 1000) /* since it was used */

struct logins;

/* path: the file, made when there is something to keep. */
err_t logins_open(const char *path, struct logins **ret);
void logins_free(struct logins *s);

/* A new one-time token; the oldest goes when there are LINKS_MAX. */
err_t logins_link(struct logins *s, char ret_token[WEB_SECRET_HEX + 1]);

/* EXIT_POLICY: no such token, or used, or too old. The token is used up even if keeping the session fails. */
err_t logins_login(struct logins *s, struct bytes token, char ret_cookie[WEB_SECRET_HEX + 1],
                   char ret_key[WEB_SECRET_HEX + 1]);

/* The session's number, 0: none. Takes the same time whatever is wrong. */
uint64_t logins_find(struct logins *s, struct bytes cookie, struct bytes key);

/* number 0: all of them. */
err_t logins_end(struct logins *s, uint64_t number);

/* Is it still logged in? Not: it was ended, its place went to another, or it ran out. */
bool logins_lives(const struct logins *s, uint64_t number);
size_t logins_count(const struct logins *s);

#endif
