// SPDX-License-Identifier: Apache-2.0
// Certificates as OpenSSL itself reads and verifies them.
#include "common/pki.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "test/unit/common/pki_util.h"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

static X509 *parse(const char *pem)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    (void)BIO_free(bio);
    ck_assert_ptr_nonnull(cert);
    return cert;
}

// X509_V_OK or the reason against the certificate.
static int verify(const char *ca_pem, const char *cert_pem, int purpose)
{
    X509 *ca = parse(ca_pem), *cert = parse(cert_pem);
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    ck_assert_int_eq(X509_STORE_add_cert(store, ca), 1);
    (void)X509_STORE_set_flags(store, X509_V_FLAG_X509_STRICT);
    ck_assert_int_eq(X509_STORE_CTX_init(ctx, store, cert, NULL), 1);
    (void)X509_STORE_CTX_set_purpose(ctx, purpose);
    (void)X509_verify_cert(ctx);
    int result = X509_STORE_CTX_get_error(ctx);
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    X509_free(ca);
    X509_free(cert);
    return result;
}

START_TEST(ca_may_only_sign)
    {
        struct identity ca = make_ca();
        X509 *cert = parse(ca.cert);
        char cn[128];

        ck_assert_int_eq(verify(ca.cert, ca.cert, X509_PURPOSE_ANY), X509_V_OK);
        ck_assert_int_eq(X509_check_ca(cert), 1);
        ck_assert_int_eq(X509_get_pathlen(cert), 0);
        ck_assert_uint_eq(X509_get_key_usage(cert), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
        (void)X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, cn,
                                        sizeof(cn));
        ck_assert_str_eq(cn, "meadow cluster test");
        X509_free(cert);
        identity_free(&ca);
    }
END_TEST

START_TEST(server_names)
    {
        struct identity ca = make_ca(), server = {0};
        const char *const names[] = {"master.example", "192.0.2.7", "2001:db8::1", NULL};
        struct err e;

        must(pki_key_new(&server.key, &e), &e);
        must(
            pki_server_cert(ca.cert, ca.key, server.key, names, DAYS * PKI_DAY_S, &server.cert, &e),
            &e);
        ck_assert_int_eq(verify(ca.cert, server.cert, X509_PURPOSE_SSL_SERVER), X509_V_OK);
        ck_assert_int_ne(verify(ca.cert, server.cert, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
        X509 *cert = parse(server.cert);
        ck_assert_int_eq(X509_check_host(cert, "master.example", 0, 0, NULL), 1);
        ck_assert_int_eq(X509_check_host(cert, "other.example", 0, 0, NULL), 0);
        ck_assert_int_eq(X509_check_ip_asc(cert, "192.0.2.7", 0), 1);
        ck_assert_int_eq(X509_check_ip_asc(cert, "2001:db8::1", 0), 1);
        ck_assert_int_eq(X509_check_ip_asc(cert, "192.0.2.8", 0), 0);
        ck_assert_int_eq(X509_check_ca(cert), 0);
        X509_free(cert);
        identity_free(&ca);
        identity_free(&server);
    }
END_TEST

START_TEST(node_certificate_takes_only_the_key)
    {
        struct identity ca = make_ca(), other = make_ca();
        struct identity node = make_node(&ca, "nabc", DAYS);
        char cn[128];
        X509 *cert = parse(node.cert);

        ck_assert_int_eq(verify(ca.cert, node.cert, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
        ck_assert_int_ne(verify(ca.cert, node.cert, X509_PURPOSE_SSL_SERVER), X509_V_OK);
        ck_assert_int_ne(verify(other.cert, node.cert, X509_PURPOSE_SSL_CLIENT), X509_V_OK);
        (void)X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, cn,
                                        sizeof(cn));
        ck_assert_str_eq(cn, "nabc"); // the request said "someone"
        ck_assert_int_eq(X509_NAME_entry_count(X509_get_subject_name(cert)), 1);
        X509_free(cert);
        identity_free(&ca);
        identity_free(&other);
        identity_free(&node);
    }
END_TEST

static char *request_of(EVP_PKEY *key)
{
    X509_REQ *req = X509_REQ_new();
    BIO *bio = BIO_new(BIO_s_mem());
    char *data = NULL;
    ck_assert_int_eq(X509_REQ_set_pubkey(req, key), 1);
    ck_assert_int_gt(X509_REQ_sign(req, key, EVP_sha256()), 0);
    ck_assert_int_eq(PEM_write_bio_X509_REQ(bio, req), 1);
    long len = BIO_get_mem_data(bio, &data);
    char *text = strndup(data, (size_t)len);
    (void)BIO_free(bio);
    X509_REQ_free(req);
    return text;
}

START_TEST(bad_requests_are_refused)
    {
        struct identity ca = make_ca();
        EVP_PKEY *p384 = EVP_EC_gen("P-384");
        cleanup_free char *other_curve = request_of(p384);
        cleanup_free char *good = NULL;
        char *out = NULL;
        char hex[65];
        struct err e;

        ck_assert_int_eq(pki_node_cert(ca.cert, ca.key, other_curve, "n", 1 * PKI_DAY_S, &out, &e),
                         -EPROTO);
        ck_assert_int_eq(pki_node_cert(ca.cert, ca.key, "nonsense", "n", 1 * PKI_DAY_S, &out, &e),
                         -EPROTO);
        ck_assert_int_eq(pki_csr_key_fingerprint(ca.cert, hex, &e), -EPROTO);
        must(pki_csr_new(ca.key, "x", &good, &e), &e);
        char *middle = strchr(good, '\n') + 40; // in the public key or the signature
        for (size_t i = 0; i < 200; i += 7)
            middle[i] = middle[i] == 'A' ? 'B' : middle[i] == '\n' ? '\n' : 'A';
        ck_assert_int_eq(pki_node_cert(ca.cert, ca.key, good, "n", 1 * PKI_DAY_S, &out, &e),
                         -EPROTO);
        struct identity stranger = make_ca();
        cleanup_free char *csr = NULL;
        must(pki_csr_new(ca.key, "x", &csr, &e), &e);
        ck_assert_int_eq(pki_node_cert(ca.cert, stranger.key, csr, "n", 1 * PKI_DAY_S, &out, &e),
                         -EINVAL);
        ck_assert_ptr_null(out);
        ck_assert_uint_eq(ERR_peek_error(), 0);
        EVP_PKEY_free(p384);
        identity_free(&ca);
        identity_free(&stranger);
    }
END_TEST

// A bundle that is trusted by its fingerprint holds nothing that the fingerprint doesn't cover.
START_TEST(fingerprint_of_all_or_nothing)
    {
        struct identity ca = make_ca(), evil = make_ca();
        static const char *const other[] = {"-----BEGIN TRUSTED CERTIFICATE-----\n",
                                            "-----BEGIN CERTIFICATE-----\n!!!!\n-----END "
                                            "CERTIFICATE-----\n-----BEGIN CERTIFICATE-----\n",
                                            "-----BEGIN PRIVATE KEY-----\n"};
        const char *base64 = strchr(evil.cert, '\n') + 1;
        char one[65], two[65];
        struct err e;

        for (size_t i = 0; i < ARRAY_SIZE(other); i++) {
            cleanup_free char *bundle = NULL;
            ck_assert_int_gt(asprintf(&bundle, "%s%s%s", ca.cert, other[i], base64), 0);
            ck_assert_int_eq(pki_cert_fingerprint(bundle, one, &e), -EPROTO);
        }
        cleanup_free char *plain = NULL, *commented = NULL;
        ck_assert_int_gt(asprintf(&plain, "%s%s", ca.cert, evil.cert), 0);
        ck_assert_int_gt(asprintf(&commented, "ours\n%stheirs\n%s\n", ca.cert, evil.cert), 0);
        must(pki_cert_fingerprint(plain, one, &e), &e);
        must(pki_cert_fingerprint(commented, two, &e), &e);
        ck_assert_str_eq(one, two);
        identity_free(&ca);
        identity_free(&evil);
    }
END_TEST

START_TEST(fingerprints)
    {
        struct identity ca = make_ca();
        struct identity a = make_node(&ca, "n", DAYS), b = make_node(&ca, "n", DAYS);
        char one[65], two[65];
        cleanup_free char *csr1 = NULL, *csr2 = NULL;
        struct err e;

        must(pki_sha256_hex("abc", 3, one) == 0 ? 0 : -1, &e);
        ck_assert_str_eq(one, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        ck_assert_int_eq(pki_sha256_hex(NULL, 0, one), 0);
        ck_assert_str_eq(one, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        must(pki_cert_fingerprint(a.cert, one, &e), &e);
        must(pki_cert_fingerprint(b.cert, two, &e), &e);
        ck_assert_str_ne(one, two);
        must(pki_csr_new(a.key, "first", &csr1, &e), &e);
        must(pki_csr_new(a.key, "second", &csr2, &e), &e);
        must(pki_csr_key_fingerprint(csr1, one, &e), &e);
        must(pki_csr_key_fingerprint(csr2, two, &e), &e);
        ck_assert_str_eq(one, two); // a node is its key
        ck_assert_int_eq(pki_cert_fingerprint("x", one, &e), -EPROTO);
        identity_free(&ca);
        identity_free(&a);
        identity_free(&b);
    }
END_TEST

START_TEST(validity)
    {
        struct identity ca = make_ca();
        struct identity node = make_node(&ca, "n", 3);
        int64_t end;
        struct err e;

        must(pki_cert_not_after_ms(node.cert, &end, &e), &e);
        int64_t left = end - clock_real_ms();
        ck_assert_int_gt(left, 3 * 86400000LL - 60000);
        ck_assert_int_le(left, 3 * 86400000LL);
        X509 *cert = parse(node.cert);
        time_t past = time(NULL) - 240;
        ck_assert_int_lt(X509_cmp_time(X509_get0_notBefore(cert), &past), 0);
        X509_free(cert);
        identity_free(&ca);
        identity_free(&node);
    }
END_TEST

START_TEST(bad_keys)
    {
        char *out = NULL;
        struct err e;

        ck_assert_int_eq(pki_ca_new("no key", "x", 1 * PKI_DAY_S, &out, &e), -EINVAL);
        ck_assert_int_eq(pki_csr_new("no key", "x", &out, &e), -EINVAL);
        ck_assert_ptr_null(out);
        ck_assert_uint_eq(ERR_peek_error(), 0);
    }
END_TEST

RUN_SUITE("pki", 30, ca_may_only_sign, server_names, node_certificate_takes_only_the_key,
          bad_requests_are_refused, fingerprints, fingerprint_of_all_or_nothing, validity, bad_keys)
