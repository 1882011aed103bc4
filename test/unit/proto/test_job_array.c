// SPDX-License-Identifier: Apache-2.0
// The elements of a job array: what is read, back to text, numbers and indices.
#include "proto/job_array.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

START_TEST(good)
    {
        static const struct {
            const char *text, *back; // NULL = the same
            int count, limit, first, last;
        } rows[] = {{"1-1000%50", NULL, 1000, 50, 1, 1000},
                    {"0-15:4", "0-12:4", 4, 0, 0, 12},
                    {"1,3,7", NULL, 3, 0, 1, 7},
                    {"7", NULL, 1, 0, 7, 7},
                    {"0-1:9", "0", 1, 0, 0, 0},
                    {"1-3,5-9:2,20%1", NULL, 7, 1, 1, 20},
                    {"0-99999%100000", NULL, 100000, 100000, 0, 99999},
                    {"999999", NULL, 1, 0, 999999, 999999}};
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
            struct job_array a = {0};
            struct err e = {""};
            ck_assert_msg(job_array_parse(rows[i].text, &a, &e) == 0, "%s", e.text);
            ck_assert_int_eq(a.count, rows[i].count);
            ck_assert_int_eq(a.limit, rows[i].limit);
            ck_assert_int_eq(job_array_index(&a, 0), rows[i].first);
            ck_assert_int_eq(job_array_index(&a, a.count - 1), rows[i].last);
            ck_assert_int_eq(job_array_index(&a, a.count), -1);
            for (int n = 0; n < a.count; n++)
                ck_assert_int_eq(job_array_number(&a, job_array_index(&a, n)), n);
            ck_assert_int_eq(job_array_number(&a, rows[i].last + 1), -1);
            char *text = job_array_text(&a);
            ck_assert_str_eq(text, rows[i].back ? rows[i].back : rows[i].text);
            free(text);
            job_array_reset(&a);
        }
    }
END_TEST

START_TEST(bad)
    {
        static const char *const texts[] = {
            "",        "a",        "1-",       "-3",    "3-1",  "1,",
            "1,,2",    "2,1",      "1-5,5",    "1-5:0", "1%0",  "1%",
            "1%5%6",   "1 ,2",     "0-100000", "1:2",   "+1",   "1-2-3",
            "1000000", "1%100001", "0x1",      "1.5",   "1-5:", "99999999999999999999"};
        for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
            struct job_array a = {0};
            struct err e = {""};
            ck_assert_msg(job_array_parse(texts[i], &a, &e) == -EINVAL, "%s", texts[i]);
            ck_assert_ptr_null(a.ranges);
            ck_assert_str_ne(e.text, "");
        }
        char many[2 * JOB_ARRAY_TEXT_MAX];
        memset(many, '1', sizeof(many));
        many[sizeof(many) - 1] = '\0';
        struct job_array a = {0};
        ck_assert_int_eq(job_array_parse(many, &a, NULL), -EINVAL);
    }
END_TEST

START_TEST(element_names)
    {
        size_t len = 0;
        int index = -1;
        ck_assert(job_element_split("jmfrggzdfmztw_7", &len, &index));
        ck_assert_uint_eq(len, 13);
        ck_assert_int_eq(index, 7);
        ck_assert(job_element_split("a_b_0", &len, &index));
        ck_assert_uint_eq(len, 3);
        ck_assert(!job_element_split("a_", &len, &index));
        ck_assert(!job_element_split("_7", &len, &index));
        ck_assert(!job_element_split("a_07", &len, &index));
        ck_assert(!job_element_split("a_7b", &len, &index));
        ck_assert(!job_element_split("a_1000000", &len, &index));
        ck_assert(!job_element_split("a7", &len, &index));
        ck_assert(job_id_is("jmfrggzdfmztw"));
        ck_assert(job_id_is("jmfrggzdfmztw_99999"));
        ck_assert(!job_id_is("jmfrggzdfmztw_"));
        ck_assert(!job_id_is("nmfrggzdfmztw_7"));
        ck_assert(!job_id_is("jmfrggzdfmztwa_7"));
        ck_assert(!job_id_is("train_7"));
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("job_array");
    tcase_add_test(t, good);
    tcase_add_test(t, bad);
    tcase_add_test(t, element_names);
    return run_case("job_array", t);
}
