// SPDX-License-Identifier: Apache-2.0
// Sync codecs and the inventory digest.
#include "proto/sync.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>

#define SPEC(id)                                                                                   \
    "{\"id\":\"" id "\",\"issued_to\":\"i1\",\"job\":\"j\",\"job_name\":\"n\",\"user\":\"u\","     \
    "\"component\":\"c\",\"index\":0,\"attempt\":1,\"image\":null,\"command\":[\"true\"],"         \
    "\"resources\":{\"cpu\":0,\"memory\":0,\"gpu\":0},\"gpus\":[],\"ports\":[],\"env\":{},"        \
    "\"mounts\":[],\"network\":\"host\",\"stop_signal\":15,\"grace_ms\":1,\"timeout_ms\":0,"       \
    "\"lease_ms\":0,\"log_limit\":0}"

static const char *const request_text =
    "{\"protocol\":1,\"agent_version\":\"0.1.0\",\"instance\":\"iabc\",\"boot_id\":\"b-1\",\"seq\":"
    "9,"
    "\"seen_epoch\":1,\"seen_commit\":77,\"applied\":{\"epoch\":1,\"generation\":5},"
    "\"digest\":\"0123456789abcdef\",\"has_inventory\":true,\"inventory_complete\":true,"
    "\"clock_ms\":1700000000000,"
    "\"statuses\":[{\"id\":\"a1\",\"change\":3,\"state\":\"running\",\"logs\":\"open\","
    "\"job\":\"jabc\",\"holds\":{\"cpu\":1500,\"memory\":1024,\"gpu\":2,\"gpus\":[0,63],"
    "\"ports\":[20000,65535]}}],"
    "\"node\":{\"hostname\":\"h\"},\"usage\":{\"load1\":0.5},\"images\":[\"a:1\"]}";

static const char *const answer_text =
    "{\"protocol\":1,\"epoch\":1,\"commit\":80,\"acked\":3,\"sync_interval_ms\":2000,"
    "\"time_ms\":1700000000000,\"want_inventory\":true,\"want_node\":true,"
    "\"lease_at_least_ms\":600000,\"leases_except\":[\"a7\",\"a8\"],"
    "\"assignment\":{\"full\":false,\"base\":{\"epoch\":1,\"generation\":5},"
    "\"position\":{\"epoch\":1,\"generation\":6},\"entries\":[{\"desired\":\"run\",\"spec\":" SPEC(
        "a1") "},{\"desired\":\"stop\",\"spec\":" SPEC("a2") "}],\"removed\":[\"a0\"]}}";

static json_t *parsed(const char *text)
{
    json_t *j = NULL;
    struct err e;
    ck_assert_msg(json_parse(text, strlen(text), &j, &e) == 0, "%s", e.text);
    return j;
}

START_TEST(request_round_trip)
    {
        cleanup_json json_t *j = parsed(request_text);
        struct sync_request q;
        struct err e;

        ck_assert_msg(sync_request_from_json(j, &q, &e) == 0, "%s", e.text);
        ck_assert_int_eq(q.n_statuses, 1);
        ck_assert(q.statuses[0].state == ATTEMPT_RUNNING);
        ck_assert_int_eq(q.applied.generation, 5);
        ck_assert(q.holds[0].known);
        ck_assert(q.holds[0].gpus == (UINT64_C(1) << 63 | 1));
        cleanup_json json_t *back = sync_request_to_json(&q);
        ck_assert(json_equal(back, j));
        sync_request_reset(&q);
        sync_request_reset(&q); // harmless twice
    }
END_TEST

START_TEST(answer_round_trip)
    {
        cleanup_json json_t *j = parsed(answer_text);
        struct sync_answer a;
        struct err e;

        ck_assert_msg(sync_answer_from_json(j, &a, &e) == 0, "%s", e.text);
        ck_assert_int_eq(a.n_entries, 2);
        ck_assert(a.entries[1].desired == DESIRED_STOP);
        ck_assert_str_eq(a.removed[0], "a0");
        ck_assert(a.lease_scope == LEASES_EXCEPT);
        ck_assert_uint_eq(a.n_leases, 2);
        ck_assert_str_eq(a.leases[1], "a8");
        ck_assert_int_eq(a.lease_at_least_ms, 600000);
        cleanup_json json_t *back = sync_answer_to_json(&a);
        ck_assert(json_equal(back, j));
        sync_answer_reset(&a);
    }
END_TEST

START_TEST(answer_without_assignment)
    {
        static const char text[] =
            "{\"protocol\":2,\"epoch\":0,\"commit\":0,\"acked\":0,"
            "\"sync_interval_ms\":2000,\"time_ms\":1,\"refused\":\"second\"}";
        cleanup_json json_t *j = parsed(text);
        struct sync_answer a;

        ck_assert_int_eq(sync_answer_from_json(j, &a, NULL), 0);
        ck_assert(!a.has_assignment);
        ck_assert_str_eq(a.refused, "second");
        sync_answer_reset(&a);
    }
END_TEST

START_TEST(refuses_each_missing_member)
    {
        cleanup_json json_t *request = parsed(request_text);
        cleanup_json json_t *answer = parsed(answer_text);
        const char *key;
        json_t *value;
        struct sync_request q;
        struct sync_answer a;
        struct err e;

        json_object_foreach (request, key, value) {
            cleanup_json json_t *broken = json_copy(request);
            json_put(broken, key, json_real(0.5));
            int r = sync_request_from_json(broken, &q, &e);
            if (strcmp(key, "has_inventory") == 0 || strcmp(key, "inventory_complete") == 0)
                sync_request_reset(&q);
            else
                ck_assert_msg(r == -EPROTO, "request member %s", key);
        }
        json_object_foreach (answer, key, value) {
            cleanup_json json_t *broken = json_copy(answer);
            json_put(broken, key, json_real(0.5));
            int r = sync_answer_from_json(broken, &a, &e);
            if (strncmp(key, "want_", 5) == 0)
                sync_answer_reset(&a);
            else
                ck_assert_msg(r == -EPROTO, "answer member %s", key);
        }
    }
END_TEST

START_TEST(digest_is_order_free)
    {
        uint64_t a = inventory_hash("a1", ATTEMPT_RUNNING);
        uint64_t b = inventory_hash("a2", ATTEMPT_ENDED);
        char one[17];
        char two[17];

        inventory_digest(a + b, one);
        inventory_digest(b + a, two);
        ck_assert_str_eq(one, two);
        ck_assert_int_eq(strlen(one), 16);
        inventory_digest(a + b - a, one);
        inventory_digest(b, two);
        ck_assert_str_eq(one, two);
        ck_assert(inventory_hash("a1", ATTEMPT_ENDED) != a);
        inventory_digest(0, one);
        ck_assert_str_eq(one, "0000000000000000");
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("codec");
    tcase_add_test(tc, request_round_trip);
    tcase_add_test(tc, answer_round_trip);
    tcase_add_test(tc, answer_without_assignment);
    tcase_add_test(tc, refuses_each_missing_member);
    tcase_add_test(tc, digest_is_order_free);
    return run_case("sync", tc);
}
