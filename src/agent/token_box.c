#include "agent/token_box.h"
#include "agent/from_manager.h"
#include "agent/gateway/secret.h"
#include "agent/model.h"
#include "base/log.h"
#include "base/own.h"

#include <openssl/core_names.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/kdf.h>
#include <openssl/params.h>
#include <stdlib.h>

enum { PRIVATE = 32, SECRET = 32, PAGES = 4096, NAME_BYTES_MAX = 32, BOUND_MAX = 256 };

/* All that is secret, in pages_new()'s pages. */
struct hidden {
    uint8_t private[PRIVATE], shared[SECRET], key[SECRET];
};

struct token_box {
    char agent[NAME_BYTES_MAX + 1];
    struct hidden *hidden;
    uint8_t public[TOKEN_KEY];
};

static void own_pkey(EVP_PKEY **p) {
    EVP_PKEY_free(*p);
}
static void own_pctx(EVP_PKEY_CTX **p) {
    EVP_PKEY_CTX_free(*p);
}
static void own_kdf(EVP_KDF **p) {
    EVP_KDF_free(*p);
}
static void own_kctx(EVP_KDF_CTX **p) {
    EVP_KDF_CTX_free(*p);
}
static void own_cipher(EVP_CIPHER_CTX **p) {
    EVP_CIPHER_CTX_free(*p);
}
#define OWN(f) __attribute__((cleanup(f)))

static err_t failed(void) {
    return err_new(EXIT_FAILED, "the key for tokens of the web page: OpenSSL failed");
}

/* One sentence for all of it: who tries has no use for the difference. */
static err_t closed(void) {
    return err_new(EXIT_POLICY,
                   "that cannot be opened: it was encrypted for another agent, or changed on its way; "
                   "nothing was changed");
}

/* ---- the pair ---- */

static err_t make_pair(struct token_box *t) {
    OWN(own_pkey) EVP_PKEY *k = EVP_EC_gen("P-256");
    OSSL_PARAM number[] = {OSSL_PARAM_construct_BN(OSSL_PKEY_PARAM_PRIV_KEY, t->hidden->private, PRIVATE),
                           OSSL_PARAM_construct_end()};
    size_t n = 0;
    if (!k || !EVP_PKEY_get_params(k, number) || number[0].return_size != PRIVATE ||
        !EVP_PKEY_get_octet_string_param(k, OSSL_PKEY_PARAM_PUB_KEY, t->public, TOKEN_KEY, &n) ||
        n != TOKEN_KEY)
        return failed();
    char shown[TOKEN_SHOWN];
    log_info("a token of the web page is to be encrypted to the key %s",
             token_key_shown(shown, token_box_key(t)));
    return NULL;
}

static err_t make(const char *agent, struct token_box **ret) {
    void *pages;
    if (strlen(agent) > NAME_BYTES_MAX)
        return err_new(EXIT_USAGE, "an agent's name is too long");
    TRY(pages_new(PAGES, &pages));
    struct token_box *t = xcalloc(1, sizeof *t);
    t->hidden = pages;
    snprintf(t->agent, sizeof t->agent, "%s", agent);
    *ret = t;
    return NULL;
}

err_t token_box_new(const char *agent, struct token_box **ret) {
    struct token_box *t;
    TRY(make(agent, &t));
    err_t e = make_pair(t);
    if (e)
        token_box_free(t);
    else
        *ret = t;
    return e;
}

err_t token_box_with(const char *agent, const uint8_t private[PRIVATE], struct bytes public,
                     struct token_box **ret) {
    struct token_box *t;
    TRY(make(agent, &t));
    memcpy(t->hidden->private, private, PRIVATE);
    memcpy(t->public, public.p, TOKEN_KEY);
    *ret = t;
    return NULL;
}

void token_box_free(struct token_box *t) {
    if (!t)
        return;
    pages_free(t->hidden, PAGES);
    free(t);
}

struct bytes token_box_key(const struct token_box *t) {
    return (struct bytes){(const char *)t->public, TOKEN_KEY};
}

/* ---- opening ---- */

/* private NULL: a public key alone. A point that is not on the curve makes none. NULL: it is no key. */
static EVP_PKEY *key_of(uint8_t *private, const uint8_t *public) {
    static char group[] = "P-256";
    OSSL_PARAM params[4] = {
        OSSL_PARAM_construct_utf8_string(OSSL_PKEY_PARAM_GROUP_NAME, group, 0),
        OSSL_PARAM_construct_octet_string(OSSL_PKEY_PARAM_PUB_KEY, (void *)(uintptr_t) public, TOKEN_KEY),
        private ? OSSL_PARAM_construct_BN(OSSL_PKEY_PARAM_PRIV_KEY, private, PRIVATE)
                : OSSL_PARAM_construct_end(),
        OSSL_PARAM_construct_end()};
    EVP_PKEY *k = NULL;
    OWN(own_pctx) EVP_PKEY_CTX *c = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
    if (public[0] != POINT_CONVERSION_UNCOMPRESSED || !c || EVP_PKEY_fromdata_init(c) != 1 ||
        EVP_PKEY_fromdata(c, &k, private ? EVP_PKEY_KEYPAIR : EVP_PKEY_PUBLIC_KEY, params) != 1)
        return NULL;
    return k;
}

static bool agree(struct token_box *t, const uint8_t *theirs) {
    OWN(own_pkey) EVP_PKEY *ours = key_of(t->hidden->private, t->public), *peer = key_of(NULL, theirs);
    OWN(own_pctx) EVP_PKEY_CTX *c = ours && peer ? EVP_PKEY_CTX_new_from_pkey(NULL, ours, NULL) : NULL;
    size_t n = SECRET;
    return c && EVP_PKEY_derive_init(c) == 1 && EVP_PKEY_derive_set_peer(c, peer) == 1 &&
           EVP_PKEY_derive(c, t->hidden->shared, &n) == 1 && n == SECRET;
}

static bool derive(struct token_box *t, struct bytes bound) {
    static char sha256[] = "SHA256";
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_KDF_PARAM_DIGEST, sha256, 0),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_KEY, t->hidden->shared, SECRET),
        OSSL_PARAM_construct_octet_string(OSSL_KDF_PARAM_INFO, (void *)(uintptr_t)bound.p, bound.len),
        OSSL_PARAM_construct_end()};
    OWN(own_kdf) EVP_KDF *kdf = EVP_KDF_fetch(NULL, "HKDF", NULL);
    OWN(own_kctx) EVP_KDF_CTX *c = kdf ? EVP_KDF_CTX_new(kdf) : NULL;
    return c && EVP_KDF_derive(c, t->hidden->key, SECRET, params) == 1;
}

/* sealed: the text and its tag. */
static bool decrypt(struct token_box *t, const char *nonce, struct bytes bound, struct bytes sealed,
                    char *room, size_t *ret) {
    OWN(own_cipher) EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    char tag[TOKEN_TAG];
    int n = 0, rest = 0, len = (int)(sealed.len - TOKEN_TAG);
    memcpy(tag, sealed.p + len, TOKEN_TAG);
    if (!c || !EVP_DecryptInit_ex(c, EVP_aes_256_gcm(), NULL, t->hidden->key, (const uint8_t *)nonce) ||
        !EVP_DecryptUpdate(c, NULL, &n, (const uint8_t *)bound.p, (int)bound.len) ||
        !EVP_DecryptUpdate(c, (uint8_t *)room, &n, (const uint8_t *)sealed.p, len) ||
        EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, TOKEN_TAG, tag) != 1 ||
        EVP_DecryptFinal_ex(c, (uint8_t *)room + n, &rest) != 1)
        return false;
    *ret = (size_t)n + (size_t)rest;
    return true;
}

static struct bytes bound_of(const struct token_box *t, const char *theirs, char room[BOUND_MAX]) {
    size_t n = sizeof TOKEN_LABEL, name = strlen(t->agent) + 1;
    memcpy(room, TOKEN_LABEL, n);
    memcpy(room + n, t->agent, name);
    memcpy(room + n + name, t->public, TOKEN_KEY);
    memcpy(room + n + name + TOKEN_KEY, theirs, TOKEN_KEY);
    return (struct bytes){room, n + name + 2 * (size_t)TOKEN_KEY};
}

err_t token_box_open(struct token_box *t, struct bytes box, char *room, size_t *ret) {
    uint8_t id[TOKEN_ID];
    char bytes[BOUND_MAX];
    if (box.len <= TOKEN_HEAD + TOKEN_TAG || box.len > TOKEN_BOX_MAX)
        return err_new(EXIT_USAGE, "that is no encrypted token: it has %zu bytes", box.len);
    TRY(token_key_id(token_box_key(t), id));
    if (memcmp(box.p, id, TOKEN_ID) != 0)
        return err_new(
            EXIT_POLICY,
            "that was encrypted to a key that is not in use any more; nothing was changed: send /auth again");
    const char *theirs = box.p + TOKEN_ID, *nonce = theirs + TOKEN_KEY;
    struct bytes bound = bound_of(t, theirs, bytes), sealed = {box.p + TOKEN_HEAD, box.len - TOKEN_HEAD};
    bool opened =
        agree(t, (const uint8_t *)theirs) && derive(t, bound) && decrypt(t, nonce, bound, sealed, room, ret);
    explicit_bzero(t->hidden->shared, sizeof t->hidden->shared);
    explicit_bzero(t->hidden->key, sizeof t->hidden->key);
    return opened ? make_pair(t) : closed();
}

err_t token_box_take(struct agent *a, struct bytes box, const char **ret_text) {
    TRY(model_may_log_in(a));
    void *pages;
    size_t n = 0;
    TRY(pages_new(TOKEN_BOX_MAX, &pages));
    err_t e = token_box_open(a->token_box, box, pages, &n);
    log_info("an encrypted token of %zu bytes was %s", box.len, e ? "refused" : "opened");
    if (!e) {
        desk_state(a); /* there is another key now */
        e = model_secret(a, "", pages, n, ret_text);
    }
    pages_free(pages, TOKEN_BOX_MAX);
    return e;
}
