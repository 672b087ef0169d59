/*
 * Credentials that run out: a pair of tokens (RFC 6749) in the files that the vendors' own programs keep, and in ours. What a
 * vendor's token endpoint is asked, and what its answer means. Pure; what it gives out is cleared when it goes,
 * what the JSON library held of it meanwhile is not.
 *
 *   CLAUDE   .credentials.json of Claude Code: {"claudeAiOauth":{"accessToken","refreshToken","expiresAt" (ms),"scopes":[…]}}
 *   CODEX    auth.json of Codex: {"tokens":{"access_token","refresh_token","account_id"}}; its end is in the token ("exp" of a JWT,
 *            RFC 7519). With "OPENAI_API_KEY" instead of tokens it is a plain key.
 *   kept     {"form","access","refresh","expires_ms","account","scopes"}
 */
#ifndef AGENT_GATEWAY_OAUTH_H
#define AGENT_GATEWAY_OAUTH_H

#include "base/err.h"
#include "proto/upstream.h"

#include <stddef.h>
#include <stdint.h>

enum oauth_form { OAUTH_CLAUDE, OAUTH_CODEX, OAUTH_FORMS };

struct oauth {
    enum oauth_form form;
    char *access, *refresh, *account, *scopes; /* never NULL; "" where there is none */
    int64_t expires_ms;                        /* 0: not known */
    bool is_key;                               /* `access` is an API key: nothing else counts */
};

/* EXIT_USAGE: it is none of the three, or another vendor's. Quotes nothing of it. */
err_t oauth_read(enum vendor vendor, const char *p, size_t n, struct oauth *ret);
void oauth_free(struct oauth *o);
#define own_oauth __attribute__((cleanup(oauth_free)))

/* As it is kept. own_text clears it. */
char *oauth_text(const struct oauth *o);
void oauth_text_free(char **text);
#define own_text __attribute__((cleanup(oauth_text_free)))

/* Where the form's tokens are renewed, and the body of that request (JSON). */
const char *oauth_url(enum oauth_form form);
char *oauth_question(const struct oauth *o);

/* The answer of status 200: a new pair; a refresh token that is not said again stays. EXIT_FAILED: no such answer. */
err_t oauth_renewed(const struct oauth *old, const char *p, size_t n, int64_t now_ms, struct oauth *ret);

/* The "error" of an answer that is none, a plain word; "" when there is none. */
void oauth_error(const char *p, size_t n, char *out, size_t size);

#endif
