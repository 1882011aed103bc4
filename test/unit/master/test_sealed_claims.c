// SPDX-License-Identifier: Apache-2.0
// What a sealed request may say, and each thing that it may not.
#include "master/api/sealed_claims.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>

#define NOW 1800000000

static const struct sealed_expected expected = {"ccluster", "ann", "thumb", NOW};

static json_t *good(void)
{
    return json_pack("{s:s,s:s,s:{s:s},s:s,s:i,s:i,s:s,s:s,s:s,s:s,s:{s:s,s:s}}", "method", "POST",
                     "path", "/v1/jobs?name=x", "headers", "content-type", "application/json",
                     "body", "{}", "iat", NOW - 5, "exp", NOW + 60, "jti", "0123456789abcdef",
                     "aud", "ccluster", "sub", "ann", "to", "thumb", "response_key", "kty", "oct",
                     "k", "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
}

// The status for a good request with one member replaced (NULL = removed); takes value.
static int with(const char *member, json_t *value)
{
    struct err e = {""};
    struct sealed_claims c = {0};
    cleanup_json json_t *j = good();
    if (value)
        json_put(j, member, value);
    else
        (void)json_object_del(j, member);
    int status = sealed_claims_check(j, &expected, &c, &e);
    if (status)
        ck_assert_str_ne(e.text, "");
    sealed_claims_reset(&c);
    return status;
}

START_TEST(accepted)
    {
        struct err e = {""};
        struct sealed_claims c;
        cleanup_json json_t *j = good();
        ck_assert_int_eq(sealed_claims_check(j, &expected, &c, &e), 0);
        ck_assert_str_eq(c.method, "POST");
        ck_assert_str_eq(c.path, "/v1/jobs?name=x");
        ck_assert_uint_eq(c.n_headers, 1);
        ck_assert_str_eq(c.headers[0].name, "Content-Type");
        ck_assert_str_eq(c.body, "{}");
        ck_assert_uint_eq(c.body_len, 2);
        ck_assert_str_eq(c.jti, "0123456789abcdef");
        sealed_claims_reset(&c);
        ck_assert_int_eq(with("body", NULL), 0);
        ck_assert_int_eq(with("body", json_null()), 0);
        ck_assert_int_eq(with("headers", NULL), 0);
    }
END_TEST

START_TEST(body_as_json)
    {
        struct err e = {""};
        struct sealed_claims c;
        cleanup_json json_t *j = good();
        json_put(j, "body", json_pack("{s:i}", "a", 1));
        ck_assert_int_eq(sealed_claims_check(j, &expected, &c, &e), 0);
        ck_assert_str_eq(c.body, "{\"a\":1}");
        sealed_claims_reset(&c);
        ck_assert_int_eq(with("body", json_integer(1)), 400);
        ck_assert_int_eq(with("body", json_true()), 400);
    }
END_TEST

START_TEST(addressees)
    {
        static const char *const members[] = {"aud", "sub", "to"};
        for (size_t i = 0; i < ARRAY_SIZE(members); i++) {
            ck_assert_int_eq(with(members[i], NULL), 403);
            ck_assert_int_eq(with(members[i], json_string("other")), 403);
            ck_assert_int_eq(with(members[i], json_string("")), 403);
            ck_assert_int_eq(with(members[i], json_pack("[s]", "ccluster")), 403);
        }
        ck_assert_int_eq(with("sub", json_string("ANN")), 403);
        ck_assert_int_eq(with("sub", json_string("a\xcc\x81nn")), 403); // combining accent
        ck_assert_int_eq(with("sub", json_string("\xd0\xb0nn")), 403);  // Cyrillic a
    }
END_TEST

START_TEST(times)
    {
        ck_assert_int_eq(with("iat", NULL), 400);
        ck_assert_int_eq(with("exp", NULL), 400);
        ck_assert_int_eq(with("exp", json_string("1800000060")), 400);
        ck_assert_int_eq(with("exp", json_integer(NOW - 5)), 400);       // not after iat
        ck_assert_int_eq(with("exp", json_integer(NOW - 5 + 241)), 400); // too long
        ck_assert_int_eq(with("exp", json_integer(NOW - 5 + 240)), 0);   // just not
        ck_assert_int_eq(with("exp", json_integer(NOW)), 401);           // over
        ck_assert_int_eq(with("iat", json_integer(NOW + 31)), 401);      // ahead
        ck_assert_int_eq(with("iat", json_integer(NOW + 30)), 0);
        ck_assert_int_eq(with("iat", json_integer(-1)), 400);
        ck_assert_int_eq(with("exp", json_integer(INT64_MAX)), 400);
        ck_assert_int_eq(with("iat", json_integer(INT64_MAX)), 400);
        ck_assert_int_eq(with("iat", json_integer(INT64_MIN)), 400);
    }
END_TEST

START_TEST(clock_is_told)
    {
        struct err e = {""};
        struct sealed_claims c;
        cleanup_json json_t *j = good();
        json_put_i64(j, "exp", NOW - 1);
        ck_assert_int_eq(sealed_claims_check(j, &expected, &c, &e), 401);
        ck_assert_ptr_nonnull(strstr(e.text, "2027-01-15T08:00:00.000Z (1800000000)"));
    }
END_TEST

START_TEST(targets)
    {
        static const char *const methods[] = {"",        "get",  "CONNECT",     "TRACE",
                                              "OPTIONS", "GET ", "GET\r\nX: y", "G\xc3\x89T"};
        static const char *const paths[] = {"",
                                            "v1/jobs",
                                            "http://x/v1/jobs",
                                            "/v1/jobs HTTP/1.1",
                                            "/v1/jobs\r\nX: y",
                                            "/v1/jobs\n",
                                            "/v1/j\tobs",
                                            "/v1/jobs#x",
                                            "/v1/j\xc3\xb6"
                                            "bs",
                                            "/v1/jobs\x7f",
                                            "/v1/../x",
                                            "/..",
                                            "/./x",
                                            "/v1/data/%2e%2E/x",
                                            "/v1/data/.%2e?x"};
        ck_assert_int_eq(with("method", NULL), 400);
        ck_assert_int_eq(with("path", NULL), 400);
        for (size_t i = 0; i < ARRAY_SIZE(methods); i++)
            ck_assert_int_eq(with("method", json_string(methods[i])), 400);
        for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
            ck_assert_msg(with("path", json_string(paths[i])) == 400, "%s", paths[i]);
        ck_assert_int_eq(with("path", json_string("/v1/data/..a/b..?x=../..")), 0);
        char path[4200];
        memset(path, '/', sizeof(path) - 1);
        path[sizeof(path) - 1] = '\0';
        ck_assert_int_eq(with("path", json_string(path)), 400);
    }
END_TEST

START_TEST(headers)
    {
        static const char *const wrong[] = {"Authorization",     "Cookie",
                                            "X-Forwarded-For",   "Host",
                                            "Forwarded",         "Content-Length",
                                            "Transfer-Encoding", "X-Meadow-Mode",
                                            "Accept ",           "",
                                            "Accept\r\nX"};
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
            ck_assert_msg(with("headers", json_pack("{s:s}", wrong[i], "x")) == 400, "%s",
                          wrong[i]);
        ck_assert_int_eq(with("headers", json_pack("{s:s,s:s}", "Accept", "a", "accept", "b")),
                         400);
        ck_assert_int_eq(with("headers", json_pack("{s:s}", "Accept", "a\r\nX: y")), 400);
        ck_assert_int_eq(with("headers", json_pack("{s:i}", "Accept", 1)), 400);
        ck_assert_int_eq(with("headers", json_pack("[s]", "Accept")), 400);
        ck_assert_int_eq(with("headers", json_pack("{s:s,s:s,s:s}", "Accept", "a", "CONTENT-TYPE",
                                                   "b", "Idempotency-Key", "c")),
                         0);
    }
END_TEST

START_TEST(other_members)
    {
        ck_assert_int_eq(with("authorization", json_string("Bearer x")), 400);
        ck_assert_int_eq(with("nbf", json_integer(1)), 400);
        ck_assert_int_eq(with("jti", NULL), 400);
        ck_assert_int_eq(with("jti", json_string("short")), 400);
        ck_assert_int_eq(with("jti", json_string("0123456789abcde:")), 400);
        ck_assert_int_eq(with("jti", json_string("0123456789abcde\n")), 400);
        ck_assert_int_eq(with("jti", json_integer(1)), 400);
    }
END_TEST

START_TEST(response_keys)
    {
        static const char *const wrong[] = {"{}", "{\"response_key\":1}",
                                            "{\"response_key\":{\"kty\":\"oct\",\"k\":\"AAAA\"}}",
                                            "{\"response_key\":{\"kty\":\"RSA\",\"k\":\"AAAA\"}}"};
        cleanup_json json_t *j = good();
        struct jwk *key = sealed_response_key(j);
        ck_assert_ptr_nonnull(key);
        jwk_free(key);
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
            cleanup_json json_t *w = json_loads(wrong[i], 0, NULL);
            ck_assert_ptr_null(sealed_response_key(w));
        }
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("sealed_claims");
    tcase_add_test(t, accepted);
    tcase_add_test(t, body_as_json);
    tcase_add_test(t, addressees);
    tcase_add_test(t, times);
    tcase_add_test(t, clock_is_told);
    tcase_add_test(t, targets);
    tcase_add_test(t, headers);
    tcase_add_test(t, other_members);
    tcase_add_test(t, response_keys);
    return run_case("sealed_claims", t);
}
