// SPDX-License-Identifier: Apache-2.0
// Matching of paths and methods.
#include "master/api/router.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>

static char params[CALL_PARAMS][256];

static const struct route table[] = {
    {"GET", "/v1/jobs", ROLE_VIEWER, 0, NULL, 0},
    {"POST", "/v1/jobs", ROLE_USER, 0, NULL, 0},
    {"GET", "/v1/jobs/{j}", ROLE_VIEWER, 0, NULL, 0},
    {"POST", "/v1/jobs/{j}:stop", ROLE_USER, 0, NULL, 0},
    {"GET", "/v1/jobs/{j}/tasks", ROLE_VIEWER, 0, NULL, 0},
    {0},
};

START_TEST(test_matches)
    {
        ck_assert(router_match("/v1/jobs/{j}", "/v1/jobs/a.b-c", params));
        ck_assert_str_eq(params[0], "a.b-c");
        ck_assert(router_match("/v1/jobs/{j}:stop", "/v1/jobs/abc:stop", params));
        ck_assert_str_eq(params[0], "abc");
        ck_assert(router_match("/v1/jobs/{j}/tasks", "/v1/jobs/a%20b/tasks", params));
        ck_assert_str_eq(params[0], "a b");
        ck_assert(router_match("/v1/data/{path...}", "/v1/data/a/b%2Fc", params));
        ck_assert_str_eq(params[0], "a/b/c");
    }
END_TEST

START_TEST(test_refuses)
    {
        static const char *const bad[] = {"/v1/jobs/",
                                          "/v1/jobs/a/b",
                                          "/v1/jobs/a:stop",
                                          "/v1/jobs/%",
                                          "/v1/jobs/%0",
                                          "/v1/jobs/%zz",
                                          "/v1/jobs/%00",
                                          "/v1/jobs/a%0ab",
                                          "/v1/job",
                                          "/v1/jobsx",
                                          ""};
        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
            ck_assert_msg(!router_match("/v1/jobs/{j}", bad[i], params), "%s", bad[i]);
        ck_assert(!router_match("/v1/jobs/{j}:stop", "/v1/jobs/:stop", params));
        ck_assert(!router_match("/v1/jobs/{j}:stop", "/v1/jobs/a:stopp", params));
        char longer[400] = "/v1/jobs/";
        memset(longer + 9, 'x', 300);
        ck_assert(!router_match("/v1/jobs/{j}", longer, params));
    }
END_TEST

START_TEST(test_methods)
    {
        char allow[64];
        ck_assert_ptr_eq(router_find(table, "POST", "/v1/jobs", params, allow, sizeof(allow)),
                         &table[1]);
        ck_assert_ptr_eq(router_find(table, "HEAD", "/v1/jobs", params, allow, sizeof(allow)),
                         &table[0]);
        ck_assert_ptr_eq(
            router_find(table, "POST", "/v1/jobs/x:stop", params, allow, sizeof(allow)), &table[3]);
        ck_assert_ptr_null(router_find(table, "PUT", "/v1/jobs", params, allow, sizeof(allow)));
        ck_assert_str_eq(allow, "GET, POST");
        ck_assert_ptr_null(router_find(table, "GET", "/v1/nothing", params, allow, sizeof(allow)));
        ck_assert_str_eq(allow, "");
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("paths");
    tcase_add_test(t, test_matches);
    tcase_add_test(t, test_refuses);
    tcase_add_test(t, test_methods);
    return run_case("router", t);
}
