/* The certificate of a test's own host at 127.0.0.1, signed by itself: who trusts the file `ca` trusts the host. */
#ifndef UNIT_TLS_HOST_H
#define UNIT_TLS_HOST_H

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>

static inline SSL_CTX *tls_host(const char *ca) {
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    X509_set_version(x, 2);
    ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
    X509_gmtime_adj(X509_getm_notBefore(x), -3600);
    X509_gmtime_adj(X509_getm_notAfter(x), 3600);
    X509_set_pubkey(x, key);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC, (const unsigned char *)"test",
                               -1, -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(x));
    X509_EXTENSION *name = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
    X509_add_ext(x, name, -1);
    X509_EXTENSION_free(name);
    X509_sign(x, key, EVP_sha256());
    FILE *f = fopen(ca, "w");
    PEM_write_X509(f, x);
    fclose(f);
    SSL_CTX *c = SSL_CTX_new(TLS_server_method());
    SSL_CTX_set_mode(c, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_use_certificate(c, x);
    SSL_CTX_use_PrivateKey(c, key);
    X509_free(x);
    EVP_PKEY_free(key);
    return c;
}

#endif
