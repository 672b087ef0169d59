#include "http/tls.h"
#include "base/own.h"

#include <errno.h>
#include <event2/bufferevent_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

struct tls {
    char *ca;
    SSL_CTX *context; /* made when first needed */
};

struct tls *tls_new(const char *ca) {
    struct tls *t = xcalloc(1, sizeof *t);
    t->ca = xstrdup(ca);
    return t;
}

void tls_free(struct tls *t) {
    if (!t)
        return;
    SSL_CTX_free(t->context);
    free(t->ca);
    free(t);
}

static err_t tls_error(const char *what) {
    unsigned long code = ERR_get_error();
    char text[128] = "no reason given";
    if (code)
        ERR_error_string_n(code, text, sizeof text);
    ERR_clear_error();
    return err_new(EXIT_FAILED, "%s: %s", what, text);
}

static err_t make_context(struct tls *t) {
    OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG, NULL); /* no file of the room's steers it */
    SSL_CTX *c = SSL_CTX_new(TLS_client_method());
    if (!c)
        return tls_error("TLS");
    SSL_CTX_set_min_proto_version(c, TLS1_2_VERSION);
    SSL_CTX_set_mode(c, SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_verify(c, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_load_verify_file(c, t->ca) != 1) {
        SSL_CTX_free(c);
        ERR_clear_error();
        return err_new(EXIT_FAILED, "no CA certificates can be read from %s", t->ca);
    }
    t->context = c;
    return NULL;
}

/* The name, or the address, that the certificate must have. */
static bool expect_name(SSL *ssl, const struct upstream *u) {
    if (u->numeric)
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), u->host) == 1;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return SSL_set_tlsext_host_name(ssl, u->host) == 1 && SSL_set1_host(ssl, u->host) == 1;
}

err_t tls_open(struct tls *t, struct event_base *base, const struct upstream *to, struct bufferevent **ret) {
    int options = BEV_OPT_CLOSE_ON_FREE | BEV_OPT_DEFER_CALLBACKS;
    if (!to->tls) {
        *ret = bufferevent_socket_new(base, -1, options);
        return *ret ? NULL : err_new(EXIT_FAILED, "no memory for a connection");
    }
    if (!t->context)
        TRY(make_context(t));
    SSL *ssl = SSL_new(t->context);
    if (!ssl || !expect_name(ssl, to)) {
        SSL_free(ssl);
        return tls_error("TLS");
    }
    *ret = bufferevent_openssl_socket_new(base, -1, ssl, BUFFEREVENT_SSL_CONNECTING, options);
    if (!*ret) {
        SSL_free(ssl);
        return err_new(EXIT_FAILED, "no memory for a connection");
    }
    bufferevent_openssl_set_allow_dirty_shutdown(*ret, 0); /* an end without TLS's own is a cut */
    return NULL;
}

void tls_why(struct bufferevent *b, char *out, size_t size) {
    int why = EVUTIL_SOCKET_ERROR();
    unsigned long code = bufferevent_get_openssl_error(b);
    SSL *ssl = bufferevent_openssl_get_ssl(b);
    long verified = ssl ? SSL_get_verify_result(ssl) : X509_V_OK;
    char text[128];
    if (verified != X509_V_OK)
        snprintf(out, size, "its certificate is not good: %s", X509_verify_cert_error_string(verified));
    else if (code) {
        ERR_error_string_n(code, text, sizeof text);
        snprintf(out, size, "%s", text);
    } else {
        own_err err_t e = err_sys(why ? why : ECONNRESET, "it");
        snprintf(out, size, "%s", err_text(e));
    }
}
