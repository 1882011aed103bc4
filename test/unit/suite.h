// SPDX-License-Identifier: Apache-2.0
// How every program of unit tests ends: the main() of a suite.
#pragma once

#include <check.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

// Runs the suite, which is used up; the result is main()'s.
static inline int run_suite(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

// The same for a suite of one case.
static inline int run_case(const char *name, TCase *only)
{
    Suite *suite = suite_create(name);
    suite_add_tcase(suite, only);
    return run_suite(suite);
}

// The whole main() of plain tests: RUN_SUITE("name", 10, a_test, another_test). timeout_s is for
// each of them.
#define RUN_SUITE(name, timeout_s, ...)                                                            \
    int main(void)                                                                                 \
    {                                                                                              \
        const TTest *const tests[] = {__VA_ARGS__};                                                \
        TCase *all = tcase_create(name);                                                           \
        tcase_set_timeout(all, timeout_s);                                                         \
        for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)                              \
            tcase_add_test(all, tests[i]);                                                         \
        return run_case(name, all);                                                                \
    }

// How many cases, which seed: set in the environment for longer runs by hand.
static inline uint64_t number_from_env(const char *name, uint64_t otherwise)
{
    const char *v = getenv(name);
    return v ? strtoull(v, NULL, 10) : otherwise;
}
