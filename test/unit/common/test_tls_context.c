// SPDX-License-Identifier: Apache-2.0
// The context refuses what does not fit together, with a text that names the part.
#include "common/tls_context.h"

#include "test/unit/common/pki_util.h"

#include <openssl/err.h>
#include <string.h>

static void refused(const char *cert, const char *key, const char *ca_pem, const char *part)
{
    const struct tls_server_options o = {cert, key, ca_pem, false};
    SSL_CTX *ctx = NULL;
    struct err e;

    ck_assert_int_eq(tls_context_new(&o, &ctx, &e), -EINVAL);
    ck_assert_msg(strstr(e.text, part) != NULL, "%s", e.text);
    ck_assert_ptr_null(ctx);
    ck_assert_uint_eq(ERR_peek_error(), 0);
}

START_TEST(parts_must_fit)
    {
        struct identity ca = make_ca();
        struct identity one = make_server_id(&ca, "localhost"),
                        two = make_server_id(&ca, "localhost");
        const struct tls_server_options o = {one.cert, one.key, ca.cert, false};
        SSL_CTX *ctx = NULL;
        struct err e;

        must(tls_context_new(&o, &ctx, &e), &e);
        ck_assert_int_eq(SSL_CTX_get_min_proto_version(ctx), TLS1_3_VERSION);
        ck_assert_int_eq(SSL_CTX_get_verify_mode(ctx), SSL_VERIFY_PEER);
        SSL_CTX_free(ctx);
        refused("x", one.key, ca.cert, "server certificate");
        refused(one.cert, "x", ca.cert, "server key");
        refused(one.cert, two.key, ca.cert, "server key");
        refused(one.cert, one.key, "x", "CA certificate");
        identity_free(&ca);
        identity_free(&one);
        identity_free(&two);
    }
END_TEST

START_TEST(chains_are_sent)
    {
        struct identity ca = make_ca();
        struct identity server = make_server_id(&ca, "localhost");
        cleanup_free char *chain = malloc(strlen(server.cert) + strlen(ca.cert) + 1);
        SSL_CTX *ctx = NULL;
        STACK_OF(X509) *extra = NULL;
        struct err e;

        (void)strcat(strcpy(chain, server.cert), ca.cert);
        const struct tls_server_options o = {chain, server.key, NULL, false};
        must(tls_context_new(&o, &ctx, &e), &e);
        ck_assert_int_eq(SSL_CTX_get0_chain_certs(ctx, &extra), 1);
        ck_assert_int_eq(sk_X509_num(extra), 1);
        ck_assert_uint_eq(ERR_peek_error(), 0);
        SSL_CTX_free(ctx);
        identity_free(&ca);
        identity_free(&server);
    }
END_TEST

RUN_SUITE("tls_context", 30, parts_must_fit, chains_are_sent)
