#include "relay/web/logins.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/hex.h"
#include "base/own.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FILE_MAX_BYTES = 16384, HASH = SHA256_DIGEST_LENGTH };
#define TOUCH_MS (INT64_C(24) * 3600 * 1000) /* how exactly "last used" is kept */

struct session {
    uint64_t number; /* 0: a free place */
    unsigned char cookie[HASH], key[HASH];
    int64_t used_wall_ms;
};

struct logins {
    char *path;
    uint64_t last_number;
    struct session all[SESSIONS_MAX];
    struct {
        unsigned char hash[HASH];
        int64_t until_ns; /* 0: a free place */
    } links[LINKS_MAX];
    size_t next_link;
};

static err_t fresh(char ret[WEB_SECRET_HEX + 1], unsigned char ret_hash[HASH]) {
    TRY(hex_random(ret, WEB_SECRET_BYTES));
    SHA256((unsigned char *)ret, WEB_SECRET_HEX, ret_hash);
    return NULL;
}

/* ---- the file ---- */

static err_t keep(struct logins *s) {
    own_buf struct buf out = {0};
    buf_printf(&out, "%" PRIu64 "\n", s->last_number);
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        const struct session *one = &s->all[i];
        char cookie[2 * HASH + 1], key[2 * HASH + 1];
        if (!one->number)
            continue;
        hex_put(cookie, one->cookie, HASH);
        hex_put(key, one->key, HASH);
        buf_printf(&out, "%" PRIu64 " %" PRId64 " %s %s\n", one->number, one->used_wall_ms, cookie, key);
    }
    return fs_write(s->path, buf_text(&out), out.len, geteuid(), getegid(), 0600);
}

static err_t bad_file(const struct logins *s) {
    return err_new(EXIT_FAILED, "%s is none of ours: remove it, and log in again", s->path);
}

static err_t read_lines(struct logins *s, const char *p) {
    if (sscanf(p, "%" SCNu64, &s->last_number) != 1)
        return bad_file(s);
    for (size_t i = 0; (p = strchr(p, '\n')) && *++p; i++) {
        char cookie[2 * HASH + 1], key[2 * HASH + 1];
        struct session *one = &s->all[i];
        if (i == SESSIONS_MAX ||
            sscanf(p, "%" SCNu64 " %" SCNd64 " %64[0-9a-f] %64[0-9a-f]", &one->number, &one->used_wall_ms,
                   cookie, key) != 4 ||
            !hex_get(cookie, one->cookie, HASH) || !hex_get(key, one->key, HASH))
            return bad_file(s);
    }
    return NULL;
}

err_t logins_open(const char *path, struct logins **ret) {
    struct logins *s = xcalloc(1, sizeof *s);
    s->path = xstrdup(path);
    own_buf struct buf text = {0};
    err_t e = fs_read(path, FILE_MAX_BYTES, &text);
    if (e && e->status == EXIT_NOTFOUND) {
        err_free(e);
        e = NULL;
    } else if (!e)
        e = read_lines(s, buf_text(&text));
    if (e) {
        logins_free(s);
        return e;
    }
    *ret = s;
    return NULL;
}

void logins_free(struct logins *s) {
    if (!s)
        return;
    free(s->path);
    free(s);
}

/* ---- links ---- */

err_t logins_link(struct logins *s, char ret_token[WEB_SECRET_HEX + 1]) {
    size_t at = s->next_link++ % LINKS_MAX;
    TRY(fresh(ret_token, s->links[at].hash));
    s->links[at].until_ns = clock_mono_ns() + (int64_t)LINK_MS * 1000000;
    return NULL;
}

static bool use_link(struct logins *s, struct bytes token) {
    unsigned char hash[HASH];
    bool good = false;
    SHA256((const unsigned char *)token.p, token.len, hash);
    for (size_t i = 0; i < LINKS_MAX; i++)
        if (!CRYPTO_memcmp(hash, s->links[i].hash, HASH) && s->links[i].until_ns) {
            good = s->links[i].until_ns > clock_mono_ns();
            s->links[i].until_ns = 0;
        }
    return good;
}

/* ---- sessions ---- */

static bool is_over(const struct session *one) {
    return !one->number || clock_wall_ms() - one->used_wall_ms > SESSION_MS;
}

/* A free place, or that of the one used least lately. */
static struct session *place(struct logins *s) {
    struct session *best = &s->all[0];
    for (size_t i = 0; i < SESSIONS_MAX && !is_over(best); i++)
        if (is_over(&s->all[i]) || s->all[i].used_wall_ms < best->used_wall_ms)
            best = &s->all[i];
    return best;
}

err_t logins_login(struct logins *s, struct bytes token, char ret_cookie[WEB_SECRET_HEX + 1],
                   char ret_key[WEB_SECRET_HEX + 1]) {
    if (!use_link(s, token))
        return err_new(EXIT_POLICY,
                       "this link was used or is too old: `agent-cage web login` prints another");
    struct session one = {.number = ++s->last_number, .used_wall_ms = clock_wall_ms()};
    TRY(fresh(ret_cookie, one.cookie));
    TRY(fresh(ret_key, one.key));
    struct session *at = place(s), was = *at;
    *at = one;
    err_t e = keep(s);
    if (e)
        *at = was;
    return e;
}

uint64_t logins_find(struct logins *s, struct bytes cookie, struct bytes key) {
    unsigned char c[HASH], k[HASH];
    struct session *found = NULL;
    SHA256((const unsigned char *)cookie.p, cookie.len, c);
    SHA256((const unsigned char *)key.p, key.len, k);
    for (size_t i = 0; i < SESSIONS_MAX; i++) {
        struct session *one = &s->all[i];
        int differs = CRYPTO_memcmp(c, one->cookie, HASH) | CRYPTO_memcmp(k, one->key, HASH);
        if (!differs && !is_over(one))
            found = one;
    }
    if (!found)
        return 0;
    if (clock_wall_ms() - found->used_wall_ms > TOUCH_MS) {
        found->used_wall_ms = clock_wall_ms();
        err_free(keep(s)); /* on a full disk it is only forgotten earlier */
    }
    return found->number;
}

err_t logins_end(struct logins *s, uint64_t number) {
    for (size_t i = 0; i < SESSIONS_MAX; i++)
        if (!number || s->all[i].number == number)
            s->all[i] = (struct session){0};
    if (!number)
        memset(s->links, 0, sizeof s->links);
    return keep(s);
}

bool logins_lives(const struct logins *s, uint64_t number) {
    for (size_t i = 0; i < SESSIONS_MAX; i++)
        if (number && s->all[i].number == number)
            return !is_over(&s->all[i]);
    return false;
}

size_t logins_count(const struct logins *s) {
    size_t n = 0;
    for (size_t i = 0; i < SESSIONS_MAX; i++)
        n += !is_over(&s->all[i]);
    return n;
}
