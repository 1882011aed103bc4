// SPDX-License-Identifier: Apache-2.0
// Keys and certificates on OpenSSL's EVP and X509 interfaces (RFC 5280). Errors of OpenSSL are
// turned into our texts at the call site and its queue is left empty: a stale entry there would be
// taken for the reason of the next TLS failure.
#include "common/clock.h"
#include "common/pki.h"

#include "common/cleanup.h"

#include <arpa/inet.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static void key_free(EVP_PKEY **k)
{
    EVP_PKEY_free(*k);
}
static void cert_free(X509 **c)
{
    X509_free(*c);
}
static void req_free(X509_REQ **r)
{
    X509_REQ_free(*r);
}
static void bio_free(BIO **b)
{
    (void)BIO_free(*b);
}
#define cleanup_key __attribute__((__cleanup__(key_free)))
#define cleanup_cert __attribute__((__cleanup__(cert_free)))
#define cleanup_req __attribute__((__cleanup__(req_free)))
#define cleanup_bio __attribute__((__cleanup__(bio_free)))

static int fail(struct err *e, int code, const char *what)
{
    char text[256] = "";
    unsigned long first = ERR_get_error();
    if (first)
        ERR_error_string_n(first, text, sizeof(text));
    ERR_clear_error();
    return err_set(e, code, "%s%s%s", what, first ? ": " : "", text);
}

static int take_pem(BIO *bio, char **ret, struct err *e)
{
    char *data = NULL;
    long len = BIO_get_mem_data(bio, &data);
    char *copy = len > 0 ? strndup(data, (size_t)len) : NULL;
    if (!copy)
        return fail(e, -ENOMEM, "out of memory");
    *ret = copy;
    return 0;
}

// Encrypted keys are refused: without a callback OpenSSL would ask on the terminal.
static int no_password(char *buf, int size, int rw, void *userdata)
{
    (void)buf, (void)size, (void)rw, (void)userdata;
    return -1;
}

static EVP_PKEY *read_key(const char *pem)
{
    cleanup_bio BIO *bio = BIO_new_mem_buf(pem, -1);
    return bio ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL) : NULL;
}

static X509 *read_cert(const char *pem)
{
    cleanup_bio BIO *bio = BIO_new_mem_buf(pem, -1);
    return bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
}

static X509_REQ *read_req(const char *pem)
{
    cleanup_bio BIO *bio = BIO_new_mem_buf(pem, -1);
    return bio ? PEM_read_bio_X509_REQ(bio, NULL, NULL, NULL) : NULL;
}

static bool is_p256(EVP_PKEY *key)
{
    char group[64];
    return EVP_PKEY_get_base_id(key) == EVP_PKEY_EC &&
           EVP_PKEY_get_group_name(key, group, sizeof(group), NULL) == 1 &&
           (strcmp(group, "prime256v1") == 0 || strcmp(group, "P-256") == 0);
}

int pki_key_new(char **ret_key_pem, struct err *e)
{
    cleanup_key EVP_PKEY *key = EVP_EC_gen("P-256");
    cleanup_bio BIO *bio = BIO_new(BIO_s_mem());
    if (!key || !bio || PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) != 1)
        return fail(e, -EIO, "making a key");
    return take_pem(bio, ret_key_pem, e);
}

static bool set_serial(X509 *cert)
{
    BIGNUM *n = BN_new();
    bool ok = n && BN_rand(n, 127, BN_RAND_TOP_ANY, BN_RAND_BOTTOM_ANY) == 1 &&
              BN_to_ASN1_INTEGER(n, X509_get_serialNumber(cert));
    BN_free(n);
    return ok;
}

static bool add_extension(X509 *cert, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, cert, NULL, NULL, 0);
    X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    bool ok = ext && X509_add_ext(cert, ext, -1) == 1;
    X509_EXTENSION_free(ext);
    return ok;
}

static bool set_name(X509_NAME *name, const char *cn)
{
    return name && X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_UTF8, (const unsigned char *)cn,
                                              -1, -1, 0) == 1;
}

// Everything but extensions, issuer and signature.
static X509 *cert_begin(EVP_PKEY *key, const char *cn, int64_t life_s)
{
    X509 *cert = X509_new();
    time_t now = clock_real_ms() / 1000;
    if (cert && X509_set_version(cert, X509_VERSION_3) == 1 && set_serial(cert) &&
        X509_time_adj_ex(X509_getm_notBefore(cert), 0, -PKI_SKEW_S, &now) &&
        X509_time_adj_ex(X509_getm_notAfter(cert), 0, life_s, &now) &&
        set_name(X509_get_subject_name(cert), cn) && X509_set_pubkey(cert, key) == 1)
        return cert;
    X509_free(cert);
    return NULL;
}

static int cert_finish(X509 *cert, X509 *issuer, EVP_PKEY *issuer_key, char **ret_pem,
                       struct err *e)
{
    cleanup_bio BIO *bio = BIO_new(BIO_s_mem());
    if (!bio || X509_set_issuer_name(cert, X509_get_subject_name(issuer)) != 1 ||
        !add_extension(cert, issuer, NID_subject_key_identifier, "hash") ||
        !add_extension(cert, issuer, NID_authority_key_identifier, "keyid:always") ||
        X509_sign(cert, issuer_key, EVP_sha256()) <= 0 || PEM_write_bio_X509(bio, cert) != 1)
        return fail(e, -EIO, "making a certificate");
    return take_pem(bio, ret_pem, e);
}

int pki_ca_new(const char *key_pem, const char *cluster_id, int64_t life_s, char **ret_cert_pem,
               struct err *e)
{
    char cn[64];
    cleanup_key EVP_PKEY *key = read_key(key_pem);
    if (!key)
        return fail(e, -EINVAL, "CA key");
    (void)snprintf(cn, sizeof(cn), "meadow cluster %.32s", cluster_id);
    cleanup_cert X509 *cert = cert_begin(key, cn, life_s);
    if (!cert || !add_extension(cert, cert, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
        !add_extension(cert, cert, NID_key_usage, "critical,keyCertSign,cRLSign"))
        return fail(e, -EIO, "making the CA");
    return cert_finish(cert, cert, key, ret_cert_pem, e);
}

static bool add_names(X509 *cert, const char *const *names)
{
    unsigned char address[16];
    GENERAL_NAMES *list = GENERAL_NAMES_new();
    bool ok = list != NULL;
    for (size_t i = 0; ok && names[i]; i++) {
        GENERAL_NAME *n = GENERAL_NAME_new();
        int len = inet_pton(AF_INET, names[i], address) == 1    ? 4
                  : inet_pton(AF_INET6, names[i], address) == 1 ? 16
                                                                : 0;
        ASN1_STRING *value = len ? ASN1_OCTET_STRING_new() : ASN1_IA5STRING_new();
        ok = n && value &&
             ASN1_STRING_set(value, len ? (const void *)address : (const void *)names[i],
                             len ? len : (int)strlen(names[i])) == 1;
        if (ok)
            GENERAL_NAME_set0_value(n, len ? GEN_IPADD : GEN_DNS, value);
        else
            ASN1_STRING_free(value);
        if (!ok || sk_GENERAL_NAME_push(list, n) <= 0) {
            GENERAL_NAME_free(n);
            ok = false;
        }
    }
    ok = ok && X509_add1_ext_i2d(cert, NID_subject_alt_name, list, 0, X509V3_ADD_DEFAULT) == 1;
    GENERAL_NAMES_free(list);
    return ok;
}

int pki_server_cert(const char *ca_cert_pem, const char *ca_key_pem, const char *key_pem,
                    const char *const *names, int64_t life_s, char **ret_cert_pem, struct err *e)
{
    cleanup_cert X509 *ca = read_cert(ca_cert_pem);
    cleanup_key EVP_PKEY *ca_key = read_key(ca_key_pem);
    cleanup_key EVP_PKEY *key = read_key(key_pem);
    if (!ca || !ca_key || !key || X509_check_private_key(ca, ca_key) != 1)
        return fail(e, -EINVAL, "CA certificate, CA key or server key");
    cleanup_cert X509 *cert = cert_begin(key, "meadow-master", life_s);
    if (!cert || !add_extension(cert, ca, NID_basic_constraints, "critical,CA:FALSE") ||
        !add_extension(cert, ca, NID_key_usage, "critical,digitalSignature") ||
        !add_extension(cert, ca, NID_ext_key_usage, "serverAuth") || !add_names(cert, names))
        return fail(e, -EIO, "making the server certificate");
    return cert_finish(cert, ca, ca_key, ret_cert_pem, e);
}

int pki_csr_new(const char *key_pem, const char *name, char **ret_csr_pem, struct err *e)
{
    cleanup_key EVP_PKEY *key = read_key(key_pem);
    cleanup_req X509_REQ *req = X509_REQ_new();
    cleanup_bio BIO *bio = BIO_new(BIO_s_mem());
    if (!key)
        return fail(e, -EINVAL, "private key");
    if (!req || !bio || X509_REQ_set_version(req, X509_REQ_VERSION_1) != 1 ||
        !set_name(X509_REQ_get_subject_name(req), name) || X509_REQ_set_pubkey(req, key) != 1 ||
        X509_REQ_sign(req, key, EVP_sha256()) <= 0 || PEM_write_bio_X509_REQ(bio, req) != 1)
        return fail(e, -EIO, "making a certificate request");
    return take_pem(bio, ret_csr_pem, e);
}

// The verified P-256 key of a request.
static int request_key(const char *csr_pem, EVP_PKEY **ret, struct err *e)
{
    cleanup_req X509_REQ *req = read_req(csr_pem);
    if (!req)
        return fail(e, -EPROTO, "not a certificate request");
    EVP_PKEY *key = X509_REQ_get_pubkey(req);
    if (!key || X509_REQ_verify(req, key) != 1 || !is_p256(key)) {
        EVP_PKEY_free(key);
        return fail(e, -EPROTO, "the request is not signed by an ECDSA P-256 key of its own");
    }
    *ret = key;
    return 0;
}

int pki_node_cert(const char *ca_cert_pem, const char *ca_key_pem, const char *csr_pem,
                  const char *node_id, int64_t life_s, char **ret_cert_pem, struct err *e)
{
    cleanup_cert X509 *ca = read_cert(ca_cert_pem);
    cleanup_key EVP_PKEY *ca_key = read_key(ca_key_pem);
    cleanup_key EVP_PKEY *key = NULL;
    if (!ca || !ca_key || X509_check_private_key(ca, ca_key) != 1)
        return fail(e, -EINVAL, "CA certificate or key");
    int r = request_key(csr_pem, &key, e);
    if (r < 0)
        return r;
    cleanup_cert X509 *cert = cert_begin(key, node_id, life_s);
    if (!cert || !add_extension(cert, ca, NID_basic_constraints, "critical,CA:FALSE") ||
        !add_extension(cert, ca, NID_key_usage, "critical,digitalSignature") ||
        !add_extension(cert, ca, NID_ext_key_usage, "clientAuth"))
        return fail(e, -EIO, "making the node certificate");
    return cert_finish(cert, ca, ca_key, ret_cert_pem, e);
}

static void to_hex(const unsigned char *md, char out[65])
{
    static const char digits[] = "0123456789abcdef";
    for (int i = 0; i < 32; i++) {
        out[i * 2] = digits[md[i] >> 4];
        out[i * 2 + 1] = digits[md[i] & 15];
    }
    out[64] = '\0';
}

int pki_sha256_hex(const void *data, unsigned long len, char ret_hex[65])
{
    unsigned char md[EVP_MAX_MD_SIZE];
    if (EVP_Digest(data ? data : "", len, md, NULL, EVP_sha256(), NULL) != 1) {
        ERR_clear_error();
        return -ENOMEM;
    }
    to_hex(md, ret_hex);
    return 0;
}

// Whether the text has `n` PEM blocks and no more, and a reader of certificates stopped for want of
// another one. "TRUSTED CERTIFICATE", CRLs, keys and broken blocks are no part of the fingerprint,
// but who loads the text as a trust store might trust them.
static bool nothing_else(const char *pem, size_t n)
{
    static const char begin[] = "-----BEGIN ";
    for (; (pem = strstr(pem, begin)); pem += sizeof(begin) - 1)
        if (n-- == 0)
            return false;
    return n == 0 && ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
}

int pki_cert_fingerprint(const char *cert_pem, char ret_hex[65], struct err *e)
{
    unsigned char md[EVP_MAX_MD_SIZE];
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    cleanup_bio BIO *bio = BIO_new_mem_buf(cert_pem, -1);
    bool ok = ctx && bio && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1;
    size_t n = 0;
    X509 *cert;
    ERR_clear_error();
    while (ok && (cert = PEM_read_bio_X509(bio, NULL, NULL, NULL))) {
        unsigned char *der = NULL;
        int len = i2d_X509(cert, &der);
        ok = len > 0 && EVP_DigestUpdate(ctx, der, (size_t)len) == 1;
        OPENSSL_free(der);
        X509_free(cert);
        n++;
    }
    bool alone = ok && n > 0 && nothing_else(cert_pem, n);
    ok = ok && n > 0 && EVP_DigestFinal_ex(ctx, md, NULL) == 1;
    EVP_MD_CTX_free(ctx);
    if (!ok)
        return fail(e, -EPROTO, "not a certificate");
    if (!alone)
        return fail(e, -EPROTO, "something besides certificates (BEGIN CERTIFICATE) is in it");
    ERR_clear_error(); // the end of the PEM text
    to_hex(md, ret_hex);
    return 0;
}

int pki_csr_key_fingerprint(const char *csr_pem, char ret_hex[65], struct err *e)
{
    cleanup_key EVP_PKEY *key = NULL;
    unsigned char *der = NULL;
    int r = request_key(csr_pem, &key, e);
    if (r < 0)
        return r;
    int len = i2d_PUBKEY(key, &der);
    r = len > 0 ? pki_sha256_hex(der, (unsigned long)len, ret_hex)
                : fail(e, -ENOMEM, "out of memory");
    OPENSSL_free(der);
    return r;
}

static int time_ms(const ASN1_TIME *time, int64_t *ret_ms)
{
    int days = 0, seconds = 0;
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    bool ok = epoch && ASN1_TIME_diff(&days, &seconds, epoch, time) == 1;
    ASN1_TIME_free(epoch);
    *ret_ms = ((int64_t)days * PKI_DAY_S + seconds) * 1000;
    return ok ? 0 : -EPROTO;
}

int pki_cert_not_before_ms(const char *cert_pem, int64_t *ret_ms, struct err *e)
{
    cleanup_cert X509 *cert = read_cert(cert_pem);
    return cert && time_ms(X509_get0_notBefore(cert), ret_ms) == 0
               ? 0
               : fail(e, -EPROTO, "not a certificate");
}

int pki_cert_not_after_ms(const char *cert_pem, int64_t *ret_ms, struct err *e)
{
    cleanup_cert X509 *cert = read_cert(cert_pem);
    return cert && time_ms(X509_get0_notAfter(cert), ret_ms) == 0
               ? 0
               : fail(e, -EPROTO, "not a certificate");
}
