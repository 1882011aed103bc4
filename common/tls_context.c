// SPDX-License-Identifier: Apache-2.0
// Builds the context: certificate, key and CA from PEM text in memory; no session cache and no
// tickets (connections live long).
#include "common/tls_context.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <stdio.h>
#include <string.h>

static int fail(struct err *e, SSL_CTX *ctx, const char *what)
{
    char text[256] = "";
    unsigned long first = ERR_get_error();
    if (first)
        ERR_error_string_n(first, text, sizeof(text));
    ERR_clear_error();
    SSL_CTX_free(ctx);
    return err_set(e, -EINVAL, "%s%s%s", what, first ? ": " : "", text);
}

static int use_cert(SSL_CTX *ctx, const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    int ok = cert && SSL_CTX_use_certificate(ctx, cert) == 1;
    X509_free(cert);
    X509 *more;
    while (ok && (more = PEM_read_bio_X509(bio, NULL, NULL, NULL)))
        if (SSL_CTX_add0_chain_cert(ctx, more) != 1) {
            X509_free(more);
            ok = 0;
        }
    (void)BIO_free(bio);
    if (ok)
        ERR_clear_error(); // the end of the PEM text
    return ok;
}

static int use_key(SSL_CTX *ctx, const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    int ok = key && SSL_CTX_use_PrivateKey(ctx, key) == 1 && SSL_CTX_check_private_key(ctx) == 1;
    EVP_PKEY_free(key);
    (void)BIO_free(bio);
    return ok;
}

static int use_ca(SSL_CTX *ctx, const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *ca = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    int ok = ca && X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), ca) == 1 &&
             SSL_CTX_add_client_CA(ctx, ca) == 1;
    X509_free(ca);
    (void)BIO_free(bio);
    return ok;
}

static int choose_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                       const unsigned char *in, unsigned in_len, void *userdata)
{
    static const unsigned char ours[] = "\x08http/1.1";
    unsigned char *chosen = NULL;
    (void)ssl;
    (void)userdata;
    if (SSL_select_next_proto(&chosen, out_len, ours, sizeof(ours) - 1, in, in_len) !=
        OPENSSL_NPN_NEGOTIATED)
        return SSL_TLSEXT_ERR_NOACK;
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

// A client certificate that is over is let through the handshake: it may still be renewed, and
// nothing else; http_peer.cert_until_ms tells. Everything else must be right.
static int accept_expired(int ok, X509_STORE_CTX *store)
{
    return ok || (X509_STORE_CTX_get_error(store) == X509_V_ERR_CERT_HAS_EXPIRED &&
                  X509_STORE_CTX_get_error_depth(store) == 0);
}

static int64_t until_ms(const X509 *cert)
{
    int days = 0, seconds = 0;
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    bool ok = epoch && ASN1_TIME_diff(&days, &seconds, epoch, X509_get0_notAfter(cert)) == 1;
    ASN1_TIME_free(epoch);
    return ok ? ((int64_t)days * 86400 + seconds) * 1000 : 0;
}

int tls_context_new(const struct tls_server_options *o, SSL_CTX **ret, struct err *e)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    if (!ctx)
        return fail(e, ctx, "out of memory");
    if (SSL_CTX_set_min_proto_version(ctx, o->allow_tls12 ? TLS1_2_VERSION : TLS1_3_VERSION) != 1)
        return fail(e, ctx, "TLS version");
    if (SSL_CTX_set_cipher_list(ctx, "ECDHE+AESGCM:ECDHE+CHACHA20") != 1) // of 1.2
        return fail(e, ctx, "TLS 1.2 ciphers");
    // No renegotiation: a certificate that was checked stays the connection's.
    (void)SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION);
    if (!use_cert(ctx, o->cert_pem))
        return fail(e, ctx, "server certificate");
    if (!use_key(ctx, o->key_pem))
        return fail(e, ctx, "server key");
    if (o->ca_pem) {
        if (!use_ca(ctx, o->ca_pem))
            return fail(e, ctx, "CA certificate");
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER, accept_expired);
    }
    (void)SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    (void)SSL_CTX_set_num_tickets(ctx, 0);
    (void)SSL_CTX_set_mode(ctx, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_alpn_select_cb(ctx, choose_alpn, NULL);
    *ret = ctx;
    return 0;
}

void tls_context_peer(SSL *ssl, struct http_peer *peer)
{
    unsigned char md[EVP_MAX_MD_SIZE];
    X509 *cert = SSL_get1_peer_certificate(ssl);
    if (!cert)
        return;
    long verified = SSL_get_verify_result(ssl);
    peer->has_cert = verified == X509_V_OK || verified == X509_V_ERR_CERT_HAS_EXPIRED;
    peer->cert_until_ms = until_ms(cert);
    if (X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, peer->cert_cn,
                                  sizeof(peer->cert_cn)) < 0)
        peer->cert_cn[0] = '\0';
    if (X509_digest(cert, EVP_sha256(), md, NULL) == 1)
        for (size_t i = 0; i < 32; i++)
            (void)snprintf(peer->cert_sha256 + i * 2, 3, "%02x", md[i]);
    X509_free(cert);
}
