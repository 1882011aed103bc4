// SPDX-License-Identifier: Apache-2.0
// Attempt codecs: round trips by text, refusal of everything that could harm a path or overflow a
// number.
#include "proto/attempt.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>

static const char *const full_spec =
    "{\"id\":\"aabcdefghij234567abcd\",\"issued_to\":\"iabcdefghij234567\",\"job\":\"jabc\","
    "\"job_name\":\"cim\",\"user\":\"ann\",\"component\":\"actor\",\"index\":3,\"attempt\":2,"
    "\"image\":\"pytorch:2.1\",\"command\":[\"/bin/sh\",\"-c\",\"echo \\u00e9\"],"
    "\"resources\":{\"cpu\":1500,\"memory\":1073741824,\"gpu\":2},\"gpus\":[0,3],\"ports\":[20000,"
    "20001],"
    "\"env\":{\"A\":\"1\",\"EMPTY\":\"\"},"
    "\"mounts\":[{\"source\":null,\"target\":\"/mnt/data\",\"read_only\":false},"
    "{\"source\":\"/srv\",\"target\":\"/x\",\"read_only\":true}],"
    "\"network\":\"host\",\"stop_signal\":15,\"grace_ms\":10000,\"timeout_ms\":0,\"lease_ms\":"
    "60000,"
    "\"log_limit\":67108864}";

static json_t *parsed(const char *text)
{
    json_t *j = NULL;
    struct err e;
    ck_assert_msg(json_parse(text, strlen(text), &j, &e) == 0, "%s", e.text);
    return j;
}

// What an inventory tells is what the claim says, or nothing.
START_TEST(holds_of_a_claim)
    {
        cleanup_json json_t *j = parsed(full_spec);
        struct attempt_spec *s = NULL;
        struct attempt_holds h, back;
        struct err e;
        ck_assert_int_eq(attempt_spec_from_json(j, &s, &e), 0);
        attempt_holds_of(s, &h);
        ck_assert(h.known);
        ck_assert_int_eq(h.resources.cpu_milli, 1500);
        ck_assert_uint_eq(h.gpus, 9);
        ck_assert_uint_eq(h.n_ports, 2);
        ck_assert_uint_eq(h.ports[1], 20001);
        cleanup_json json_t *status = json_object();
        attempt_holds_put(status, &h);
        attempt_holds_read(status, &back);
        ck_assert_mem_eq(&h, &back, sizeof(h));
        s->job[0] = '\0'; // only kept for its logs: it says nothing of what ran
        attempt_holds_of(s, &h);
        ck_assert(!h.known);
        attempt_holds_of(NULL, &h);
        ck_assert(!h.known);
        attempt_spec_free(s);
    }
END_TEST

START_TEST(holds_that_can_not_be_are_not_known)
    {
        static const char *const bad[] = {
            "{}",
            "{\"holds\":1}",
            "{\"holds\":{\"cpu\":-1,\"memory\":0,\"gpu\":0,\"gpus\":[],\"ports\":[]}}",
            "{\"holds\":{\"cpu\":1,\"memory\":9223372036854775807,\"gpu\":0,\"gpus\":[],\"ports\":["
            "]}}",
            "{\"holds\":{\"cpu\":1,\"memory\":0,\"gpu\":65,\"gpus\":[],\"ports\":[]}}",
            "{\"holds\":{\"cpu\":1,\"memory\":0,\"gpu\":0,\"gpus\":[64],\"ports\":[]}}",
            "{\"holds\":{\"cpu\":1,\"memory\":0,\"gpu\":0,\"gpus\":[],\"ports\":[65536]}}",
            "{\"holds\":{\"cpu\":1,\"memory\":0,\"gpu\":0,\"gpus\":[],\"ports\":[1,2,3,4,5,6,7,8,9,"
            "10,11,12,13,14,15,16,17]}}",
            "{\"holds\":{\"cpu\":1,\"memory\":0,\"gpu\":0,\"gpus\":[]}}",
        };
        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
            cleanup_json json_t *j = parsed(bad[i]);
            struct attempt_holds h;
            memset(&h, 1, sizeof(h));
            attempt_holds_read(j, &h);
            ck_assert_msg(!h.known && h.resources.cpu_milli == 0 && h.n_ports == 0, "%s", bad[i]);
        }
    }
END_TEST

START_TEST(spec_round_trip)
    {
        cleanup_json json_t *j = parsed(full_spec);
        struct attempt_spec *s = NULL;
        struct err e;

        ck_assert_msg(attempt_spec_from_json(j, &s, &e) == 0, "%s", e.text);
        ck_assert_str_eq(s->command[2], "echo \u00e9");
        ck_assert_ptr_null(s->command[3]);
        ck_assert_int_eq(s->ports[1], 20001);
        ck_assert_ptr_null(s->mounts[0].source);
        cleanup_json json_t *back = attempt_spec_to_json(s);
        cleanup_free char *text = json_text(back);
        cleanup_free char *want = json_text(j);
        ck_assert_str_eq(text, want);
        attempt_spec_free(s);
    }
END_TEST

START_TEST(spec_without_image_or_command)
    {
        cleanup_json json_t *j = parsed(full_spec);
        struct attempt_spec *s = NULL;
        struct err e;

        json_put(j, "image", json_null());
        json_put(j, "command", json_null());
        json_put(j, "mounts", json_array());
        ck_assert_msg(attempt_spec_from_json(j, &s, &e) == 0, "%s", e.text);
        ck_assert_ptr_null(s->image);
        ck_assert_ptr_null(s->command);
        attempt_spec_free(s);
    }
END_TEST

static void refuse(const char *key, json_t *stolen)
{
    cleanup_json json_t *j = parsed(full_spec);
    struct attempt_spec *s = NULL;
    struct err e;

    if (stolen)
        json_put(j, key, stolen);
    else
        (void)json_object_del(j, key);
    ck_assert_msg(attempt_spec_from_json(j, &s, &e) == -EPROTO, "%s was accepted", key);
    ck_assert_ptr_null(s);
    ck_assert_ptr_nonnull(strstr(e.text, "attempt"));
}

START_TEST(spec_refuses)
    {
        const char *key;
        json_t *value;
        cleanup_json json_t *j = parsed(full_spec);

        json_object_foreach (j, key, value) {
            if (strcmp(key, "image") != 0)
                refuse(key, json_real(1.5)); // nothing is a fraction
        }
        refuse("id", NULL);
        refuse("id", json_string("../../etc"));
        refuse("id", json_string(""));
        refuse("id", json_string("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
        refuse("command", json_array());
        refuse("command", json_pack("[i]", 1));
        refuse("ports", json_pack("[i]", 70000));
        refuse("gpus", json_pack("[i]", -1));
        refuse("env", json_pack("{s:i}", "A", 1));
        refuse("env", json_pack("{s:s}", "A=B", "1"));
        refuse("network", json_string("moon"));
        refuse("stop_signal", json_integer(65));
        refuse("lease_ms", json_integer(-1));
        refuse("mounts", json_pack("[{}]"));
        refuse("mounts", json_pack("[i]", 3));
    }
END_TEST

START_TEST(names_round_trip)
    {
        for (int i = 0; i < ATTEMPT_STATE_MAX; i++) {
            enum attempt_state v = ATTEMPT_STATE_MAX;
            ck_assert_int_eq(
                attempt_state_from_string(attempt_state_to_string((enum attempt_state)i), &v), 0);
            ck_assert_int_eq((int)v, i);
        }
        for (int i = 0; i < CAUSE_MAX; i++) {
            enum attempt_cause v = CAUSE_MAX;
            ck_assert_int_eq(
                attempt_cause_from_string(attempt_cause_to_string((enum attempt_cause)i), &v), 0);
            ck_assert_int_eq((int)v, i);
        }
        for (int i = 0; i < LOGS_MAX; i++) {
            enum logs_state v = LOGS_MAX;
            ck_assert_int_eq(logs_state_from_string(logs_state_to_string((enum logs_state)i), &v),
                             0);
            ck_assert_int_eq((int)v, i);
        }
        enum attempt_state s = ATTEMPT_ENDED;
        ck_assert_int_eq(attempt_state_from_string("ended ", &s), -EINVAL);
        ck_assert_int_eq(attempt_state_from_string(NULL, &s), -EINVAL);
    }
END_TEST

static struct attempt_status sample_status(void)
{
    struct attempt_status s = {.id = "aabcdefghij234567abcd",
                               .change = 42,
                               .state = ATTEMPT_ENDED,
                               .cause = CAUSE_EXIT,
                               .exit_code = 137,
                               .has_exit = true,
                               .signal = 9,
                               .oom = true,
                               .pull = true,
                               .reason = "killed",
                               .container_id = "abc",
                               .pid = 77,
                               .started_ms = 1000,
                               .ended_ms = 2000,
                               .logs = LOGS_INCOMPLETE};
    return s;
}

START_TEST(status_round_trip)
    {
        struct attempt_status s = sample_status();
        struct attempt_status back;
        struct err e;
        cleanup_json json_t *j = attempt_status_to_json(&s);

        ck_assert_msg(attempt_status_from_json(j, &back, &e) == 0, "%s", e.text);
        ck_assert_str_eq(back.id, s.id);
        ck_assert_int_eq(back.change, 42);
        ck_assert(back.state == s.state && back.cause == s.cause && back.logs == s.logs);
        ck_assert(back.has_exit && back.oom && back.pull);
        ck_assert_int_eq(back.exit_code, 137);
        ck_assert_int_eq(back.signal, 9);
        ck_assert_str_eq(back.reason, "killed");
        ck_assert_str_eq(back.container_id, "abc");
        ck_assert_int_eq(back.pid, 77);
        ck_assert_int_eq(back.started_ms, 1000);
        ck_assert_int_eq(back.ended_ms, 2000);
    }
END_TEST

START_TEST(status_keeps_exit_code_zero)
    {
        struct attempt_status s = {.id = "a", .state = ATTEMPT_ENDED, .has_exit = true};
        struct attempt_status back;
        cleanup_json json_t *j = attempt_status_to_json(&s);

        ck_assert_int_eq(attempt_status_from_json(j, &back, NULL), 0);
        ck_assert(back.has_exit);
        s.has_exit = false;
        cleanup_json json_t *without = attempt_status_to_json(&s);
        ck_assert_int_eq(attempt_status_from_json(without, &back, NULL), 0);
        ck_assert(!back.has_exit);
    }
END_TEST

START_TEST(status_reason_of_any_bytes)
    {
        struct attempt_status s = {.id = "a", .reason = "caf\xc3"};
        cleanup_json json_t *j = attempt_status_to_json(&s);

        ck_assert_str_eq(json_opt_str(j, "reason", "missing"), "caf?");
    }
END_TEST

START_TEST(status_refuses)
    {
        static const char *const bad[] = {
            "[]",
            "{}",
            "{\"id\":\"a\",\"change\":1,\"state\":\"dead\"}",
            "{\"id\":\"a/b\",\"change\":1,\"state\":\"ended\"}",
            "{\"id\":\"a\",\"state\":\"ended\"}",
            "{\"id\":\"a\",\"change\":1,\"state\":\"ended\",\"exit_code\":-1}",
            "{\"id\":\"a\",\"change\":1,\"state\":\"ended\",\"exit_code\":\"0\"}",
            "{\"id\":\"a\",\"change\":1,\"state\":\"ended\",\"signal\":500}",
        };

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
            struct attempt_status s;
            struct err e;
            cleanup_json json_t *j = parsed(bad[i]);
            ck_assert_msg(attempt_status_from_json(j, &s, &e) == -EPROTO, "accepted: %s", bad[i]);
        }
    }
END_TEST

// What a side that is one version ahead may say.
START_TEST(status_of_a_newer_side)
    {
        struct attempt_status s;
        struct err e;
        cleanup_json json_t *j = parsed("{\"id\":\"a\",\"change\":1,\"state\":\"ended\",\"cause\":"
                                        "\"bored\",\"health\":\"fine\",\"mood\":{\"x\":[1]}}");

        ck_assert_int_eq(attempt_status_from_json(j, &s, &e), 0);
        ck_assert_int_eq(s.cause, CAUSE_UNKNOWN); // never a success
        ck_assert_int_eq(s.health, HEALTH_WORD_NONE);
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("codec");
    tcase_add_test(tc, holds_of_a_claim);
    tcase_add_test(tc, holds_that_can_not_be_are_not_known);
    tcase_add_test(tc, spec_round_trip);
    tcase_add_test(tc, spec_without_image_or_command);
    tcase_add_test(tc, spec_refuses);
    tcase_add_test(tc, names_round_trip);
    tcase_add_test(tc, status_round_trip);
    tcase_add_test(tc, status_keeps_exit_code_zero);
    tcase_add_test(tc, status_reason_of_any_bytes);
    tcase_add_test(tc, status_refuses);
    tcase_add_test(tc, status_of_a_newer_side);
    return run_case("attempt", tc);
}
