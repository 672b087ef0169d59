/*
 * The credential: one place in memory (pages of its own, kept out of core files and, where the kernel lets us, out of
 * swap; cleared before they go), shared by count between the gateway and what it is sending just now; and its file in the
 * agent's own folder, mode 0600, which only the agent's account can reach.
 */
#ifndef AGENT_GATEWAY_SECRET_H
#define AGENT_GATEWAY_SECRET_H

#include "agent/gateway/oauth.h"
#include "agent/gateway/sift.h"
#include "base/err.h"
#include "proto/upstream.h"

#include <stdbool.h>
#include <stddef.h>

enum login { LOGIN_NONE, LOGIN_TOKEN, LOGIN_KEY, LOGIN_COUNT }; /* token: OAuth; key: an API key */
enum { SECRET_MIN = 8, SECRET_MAX = 16384 };

struct secret {
    enum login login;
    const char *p; /* the credential, n bytes, no NUL behind it */
    size_t n;
    struct needle needle; /* to find it in what others say */
    /* One that runs out (oauth.h): p is its access token, these are beside it in the same pages. */
    bool renewable;
    enum oauth_form form;
    int64_t expires_ms;   /* 0: not known */
    struct bytes refresh; /* the token that renews it */
    struct bytes account; /* "": none */
    struct bytes whole;   /* as it is kept */
    /* the rest is secret.c's */
    unsigned users;
    void *pages;
    size_t npages;
};

/* n bytes of memory as described above, zeroed. */
err_t pages_new(size_t n, void **ret);
void pages_free(void *p, size_t n);

const char *login_name(enum login l); /* "token", "key", "" */

/*
 * Copies it. kind: "token", "key", or "" to tell by its look, which may be that of a file with a pair of tokens (oauth.h). Blanks and newlines around it go; what then is empty or
 * holds a byte that may not stand in a header is EXIT_USAGE. The caller has the one use of it: secret_drop().
 */
err_t secret_new(enum vendor vendor, const char *kind, const char *p, size_t n, struct secret **ret);
struct secret *secret_use(struct secret *s);
void secret_drop(struct secret *s); /* NULL is fine */

/* Its needle; one that finds nothing for NULL. Lives as long as the use of s. */
const struct needle *secret_needle(const struct secret *s);

/* `home`: the agent's folder. Written in one step. Reading: *ret NULL when there is none. */
err_t secret_keep(int home, const struct secret *s);
err_t secret_kept(int home, enum vendor vendor, struct secret **ret);
err_t secret_forget(int home);

/* A mark that a credential was there which memory alone kept; a later start asks for it. */
err_t secret_mark(int home, bool there);
bool secret_marked(int home);

#endif
