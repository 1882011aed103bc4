// SPDX-License-Identifier: Apache-2.0
// The ends every suite of this folder shares.
#pragma once

#include <check.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// Runs `n` tests as one suite; the result is main()'s.
static inline int run_suite(const char *name, const TTest *const *tests, size_t n, double timeout_s)
{
    Suite *suite = suite_create(name);
    TCase *tc = tcase_create(name);
    tcase_set_timeout(tc, timeout_s);
    for (size_t i = 0; i < n; i++)
        tcase_add_test(tc, tests[i]);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

// How many cases, which seed: set for longer runs by hand.
static inline uint64_t number_from_env(const char *name, uint64_t otherwise)
{
    const char *v = getenv(name);
    return v ? strtoull(v, NULL, 10) : otherwise;
}

#define RUN_SUITE(name, timeout_s, ...)                                                            \
    int main(void)                                                                                 \
    {                                                                                              \
        const TTest *const tests[] = {__VA_ARGS__};                                                \
        return run_suite(name, tests, sizeof(tests) / sizeof(tests[0]), timeout_s);                \
    }
