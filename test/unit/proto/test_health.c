// SPDX-License-Identifier: Apache-2.0
// The check on the wire: round trips, refusals, the copy with another port, the words.
#include "proto/health.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const char command[] = "{\"command\":[\"/bin/sh\",\"-c\",\"x\"],\"interval_ms\":1,\"timeout_"
                              "ms\":2,\"start_period_ms\":0,\"retries\":4}";
static const char http[] = "{\"path\":\"/a?b\",\"port\":80,\"interval_ms\":1,\"timeout_ms\":2,"
                           "\"start_period_ms\":3,\"retries\":4}";

static json_t *parsed(const char *text)
{
    json_t *j = NULL;
    struct err e;
    ck_assert_msg(json_parse(text, strlen(text), &j, &e) == 0, "%s", e.text);
    return j;
}

static void round_trip(const char *text)
{
    struct job_health *h = NULL;
    struct err e;
    cleanup_json json_t *j = parsed(text);
    ck_assert_msg(job_health_from_json(j, &h, &e) == 0, "%s", e.text);
    cleanup_json json_t *back = job_health_to_json(h);
    cleanup_free char *got = json_text(back);
    ck_assert_str_eq(got, text);
    job_health_free(h);
}

START_TEST(test_round_trips)
    {
        struct job_health *none = (struct job_health *)1;
        round_trip(command);
        round_trip(http);
        ck_assert_int_eq(job_health_from_json(NULL, &none, NULL), 0);
        ck_assert_ptr_null(none);
    }
END_TEST

static void refuse(const char *text, const char *key, json_t *stolen)
{
    struct job_health *h = NULL;
    struct err e;
    cleanup_json json_t *j = parsed(text);
    json_put(j, key, stolen);
    ck_assert_msg(job_health_from_json(j, &h, &e) == -EPROTO, "%s was accepted", key);
    ck_assert_ptr_null(h);
    ck_assert_ptr_nonnull(strstr(e.text, key));
}

START_TEST(test_refusals)
    {
        json_t *many = json_array();
        for (int i = 0; i <= HEALTH_ARGS_MAX; i++)
            (void)json_array_append_new(many, json_string("x"));
        refuse(command, "command", many);
        refuse(command, "command", json_array());
        refuse(command, "command", json_pack("[i]", 1));
        refuse(http, "path", json_string("no slash"));
        refuse(http, "path", json_string("/a\r\nHost: b"));
        refuse(http, "port", json_integer(0));
        refuse(http, "port", json_integer(65536));
        refuse(http, "interval_ms", json_integer(0));
        refuse(http, "timeout_ms", json_integer(-1));
        refuse(http, "start_period_ms", json_integer(INT64_MAX));
        refuse(command, "retries", json_integer(0));
    }
END_TEST

START_TEST(test_copy_has_its_own_port)
    {
        struct job_health from = {
            .path = (char *)"/", .port = 1, .interval_ms = 1, .timeout_ms = 1, .retries = 1};
        struct job_health *to = job_health_copy(&from, 20001);
        ck_assert_ptr_nonnull(to);
        ck_assert_int_eq(to->port, 20001);
        ck_assert_ptr_ne(to->path, from.path);
        job_health_free(to);
        job_health_free(NULL);
    }
END_TEST

START_TEST(test_words)
    {
        enum health_word w = HEALTH_WORD_MAX;
        for (int i = 0; i < HEALTH_WORD_MAX; i++) {
            ck_assert_int_eq(
                health_word_from_string(health_word_to_string((enum health_word)i), &w), 0);
            ck_assert_int_eq(w, i);
        }
        ck_assert_int_eq(health_word_from_string("fine", &w), -EINVAL);
        ck_assert_int_eq(health_word_from_string(NULL, &w), -EINVAL);
    }
END_TEST

int main(void)
{
    TCase *c = tcase_create("health");
    tcase_add_test(c, test_round_trips);
    tcase_add_test(c, test_refusals);
    tcase_add_test(c, test_copy_has_its_own_port);
    tcase_add_test(c, test_words);
    return run_case("health", c);
}
