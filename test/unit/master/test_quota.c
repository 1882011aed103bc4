// SPDX-License-Identifier: Apache-2.0
// Quotas as JSON: read, refused with the member's name, and written as they were read.
#include "master/cluster/quota.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>

static int read_text(const char *text, struct plan_quota *q, struct err *e)
{
    cleanup_json json_t *j = json_loads(text, JSON_DECODE_ANY, NULL);
    ck_assert_ptr_nonnull(j);
    return quota_from_json(j, q, e);
}

START_TEST(what_is_left_out_has_no_limit)
    {
        struct err e = {""};
        struct plan_quota q;
        ck_assert_int_eq(read_text("{\"gpu\": 2, \"cpu\": \"1500m\", \"jobs\": null}", &q, &e), 0);
        ck_assert_int_eq(q.gpu, 2);
        ck_assert_int_eq(q.cpu, 1500);
        ck_assert_int_eq(q.memory, -1);
        ck_assert_int_eq(q.jobs, -1);
        ck_assert_int_eq(read_text("null", &q, &e), 0);
        ck_assert_int_eq(q.gpu, -1);
    }
END_TEST

START_TEST(written_as_read)
    {
        struct err e = {""};
        struct plan_quota q, again;
        ck_assert_int_eq(
            read_text("{\"cpu\": 2, \"memory\": \"4g\", \"gpu\": 0, \"jobs\": 7, \"tasks\": 9}", &q,
                      &e),
            0);
        cleanup_json json_t *j = quota_to_json(&q);
        ck_assert_int_eq(quota_from_json(j, &again, &e), 0);
        ck_assert_mem_eq(&q, &again, sizeof(q));
        ck_assert_int_eq(q.memory, INT64_C(4) << 30);
    }
END_TEST

START_TEST(what_is_wrong_is_named)
    {
        static const struct {
            const char *text, *says;
        } rows[] = {{"{\"gpu\": -1}", "quota.gpu"},   {"{\"jobs\": 1.5}", "quota.jobs"},
                    {"{\"cpu\": true}", "quota.cpu"}, {"{\"memory\": \"much\"}", "quota.memory"},
                    {"{\"gpus\": 1}", "quota.gpus"},  {"[1]", "quota:"},
                    {"{\"cpu\": -2}", "quota.cpu"},   {"7", "quota:"}};
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
            struct err e = {""};
            struct plan_quota q = {1, 2, 3, 4, 5};
            ck_assert_int_eq(read_text(rows[i].text, &q, &e), -EINVAL);
            ck_assert_msg(strstr(e.text, rows[i].says), "%s: %s", rows[i].text, e.text);
            ck_assert_int_eq(q.cpu, 1);
        }
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("quota");
    tcase_add_test(t, what_is_left_out_has_no_limit);
    tcase_add_test(t, written_as_read);
    tcase_add_test(t, what_is_wrong_is_named);
    return run_case("quota", t);
}
