#include "agent/gateway/oauth.h"
#include "base/buf.h"
#include "base/own.h"

#include <jansson.h>
#include <string.h>

/* The public clients of the vendors' own programs: a token can be renewed only by the client that it was given to. */
static const struct {
    const char *name, *url, *client, *scopes;
    enum vendor vendor;
} forms[OAUTH_FORMS] = {
    [OAUTH_CLAUDE] = {"claude", "https://platform.claude.com/v1/oauth/token",
                      "9d1c250a-e61b-44d9-88ed-5944d1962f5e", "user:inference", ANTHROPIC},
    [OAUTH_CODEX] = {"codex", "https://auth.openai.com/oauth/token", "app_EMoamEEZ73f0CkXaXp7hrann",
                     "openid profile email", OPENAI},
};

static void drop_json(json_t **j) {
    json_decref(*j);
}
#define own_json __attribute__((cleanup(drop_json)))

void oauth_text_free(char **text) {
    if (*text)
        explicit_bzero(*text, strlen(*text));
    free(TAKE(*text));
}

void oauth_free(struct oauth *o) {
    oauth_text_free(&o->access);
    oauth_text_free(&o->refresh);
    oauth_text_free(&o->account);
    oauth_text_free(&o->scopes);
}

static char *copy_of(const json_t *object, const char *field) {
    const char *text = json_string_value(json_object_get(object, field));
    return xstrdup(text ? text : "");
}

/* ---- when it ends ---- */

static int digit(char c) {
    static const char set[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const char *at = c ? strchr(set, c) : NULL;
    return at ? (int)(at - set) : -1;
}

/* "exp" of a JWT's second part; 0 when it is none. The signature is its vendor's business. */
static int64_t end_of_jwt(const char *token) {
    const char *p = strchr(token, '.');
    char text[4096];
    size_t n = 0;
    unsigned bits = 0, have = 0;
    for (p = p ? p + 1 : ""; digit(*p) >= 0 && n < sizeof text; p++) {
        bits = bits << 6 | (unsigned)digit(*p);
        have += 6;
        if (have >= 8)
            text[n++] = (char)(bits >> (have -= 8) & 255);
    }
    own_json json_t *j = *p == '.' ? json_loadb(text, n, 0, NULL) : NULL;
    explicit_bzero(text, sizeof text);
    json_int_t end = json_integer_value(json_object_get(j, "exp"));
    return end > 0 && end < INT64_MAX / 1000 ? end * 1000 : 0;
}

/* ---- reading ---- */

static void read_claude(const json_t *j, struct oauth *o) {
    o->access = copy_of(j, "accessToken");
    o->refresh = copy_of(j, "refreshToken");
    o->account = xstrdup("");
    o->expires_ms = json_integer_value(json_object_get(j, "expiresAt"));
    own_buf struct buf scopes = {0};
    size_t i;
    const json_t *one;
    json_array_foreach(json_object_get(j, "scopes"), i, one) {
        const char *text = json_string_value(one);
        buf_printf(&scopes, "%s%s", i ? " " : "", text ? text : "");
    }
    o->scopes = xstrdup(scopes.len ? buf_text(&scopes) : forms[OAUTH_CLAUDE].scopes);
}

static void read_codex(const json_t *j, struct oauth *o) {
    o->access = copy_of(j, "access_token");
    o->refresh = copy_of(j, "refresh_token");
    o->account = copy_of(j, "account_id");
    o->scopes = xstrdup(forms[OAUTH_CODEX].scopes);
    o->expires_ms = end_of_jwt(o->access);
}

static void read_key(const char *key, struct oauth *o) {
    o->is_key = true;
    o->access = xstrdup(key);
    o->refresh = xstrdup("");
    o->account = xstrdup("");
    o->scopes = xstrdup("");
}

static void read_kept(const json_t *j, struct oauth *o) {
    o->access = copy_of(j, "access");
    o->refresh = copy_of(j, "refresh");
    o->account = copy_of(j, "account");
    o->scopes = copy_of(j, "scopes");
    o->expires_ms = json_integer_value(json_object_get(j, "expires_ms"));
}

static bool read_any(const json_t *j, struct oauth *o) {
    const json_t *claude = json_object_get(j, "claudeAiOauth"), *codex = json_object_get(j, "tokens");
    const char *form = json_string_value(json_object_get(j, "form"));
    const char *key = json_string_value(json_object_get(j, "OPENAI_API_KEY"));
    o->form = json_is_object(claude) ? OAUTH_CLAUDE : OAUTH_CODEX;
    for (int f = 0; form && f < OAUTH_FORMS; f++)
        if (!strcmp(form, forms[f].name)) {
            o->form = (enum oauth_form)f;
            read_kept(j, o);
            return true;
        }
    if (json_is_object(claude))
        read_claude(claude, o);
    else if (json_is_object(codex))
        read_codex(codex, o);
    else if (key)
        read_key(key, o);
    else
        return false;
    return true;
}

err_t oauth_read(enum vendor vendor, const char *p, size_t n, struct oauth *ret) {
    own_json json_t *j = json_loadb(p, n, JSON_REJECT_DUPLICATES, NULL);
    own_oauth struct oauth o = {0};
    if (!j || !read_any(j, &o))
        return err_new(EXIT_USAGE,
                       "that is no credential: no file of Claude Code's or Codex's that is known");
    if (forms[o.form].vendor != vendor)
        return err_new(EXIT_USAGE, "that is the credential of another vendor than this agent's");
    if (!*o.access || (!*o.refresh && !o.is_key))
        return err_new(EXIT_USAGE, "that is no credential: a token is missing in it");
    *ret = o;
    o = (struct oauth){0};
    return NULL;
}

char *oauth_text(const struct oauth *o) {
    own_json json_t *j = json_pack("{s:s, s:s, s:s, s:I, s:s, s:s}", "form", forms[o->form].name, "access",
                                   o->access, "refresh", o->refresh, "expires_ms", (json_int_t)o->expires_ms,
                                   "account", o->account, "scopes", o->scopes);
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    return text ? text : xstrdup("{}");
}

/* ---- renewing ---- */

const char *oauth_url(enum oauth_form form) {
    return forms[form].url;
}

char *oauth_question(const struct oauth *o) {
    own_json json_t *j = json_pack("{s:s, s:s, s:s, s:s}", "grant_type", "refresh_token", "refresh_token",
                                   o->refresh, "client_id", forms[o->form].client, "scope", o->scopes);
    char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;
    return text ? text : xstrdup("{}");
}

/* Tokens become parts of headers and of our file. */
static bool is_plain(const char *text) {
    for (; *text; text++)
        if ((unsigned char)*text <= ' ' || (unsigned char)*text >= 127)
            return false;
    return true;
}

err_t oauth_renewed(const struct oauth *old, const char *p, size_t n, int64_t now_ms, struct oauth *ret) {
    own_json json_t *j = json_loadb(p, n, 0, NULL);
    own_oauth struct oauth o = {.form = old->form,
                                .access = copy_of(j, "access_token"),
                                .refresh = copy_of(j, "refresh_token"),
                                .account = xstrdup(old->account),
                                .scopes = xstrdup(old->scopes)};
    if (!*o.access || !is_plain(o.access) || !is_plain(o.refresh))
        return err_new(EXIT_FAILED, "its answer holds no token");
    if (!*o.refresh) {
        free(o.refresh);
        o.refresh = xstrdup(old->refresh);
    }
    json_int_t span = json_integer_value(json_object_get(j, "expires_in"));
    o.expires_ms = span > 0 && span < INT32_MAX ? now_ms + span * 1000 : end_of_jwt(o.access);
    *ret = o;
    o = (struct oauth){0};
    return NULL;
}

void oauth_error(const char *p, size_t n, char *out, size_t size) {
    own_json json_t *j = json_loadb(p, n, 0, NULL);
    const json_t *error = json_object_get(j, "error");
    const char *text = json_string_value(error);
    text = text ? text : json_string_value(json_object_get(error, "code"));
    text = text ? text : json_string_value(json_object_get(error, "type"));
    bool word = text && strspn(text, "abcdefghijklmnopqrstuvwxyz_") == strlen(text);
    snprintf(out, size, "%s", word ? text : "");
}
