// SPDX-License-Identifier: Apache-2.0
// What the audit's lines say, and that offences are counted: a storm of them leaves few lines.
#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/http_inner.h"
#include "common/json.h"
#include "master/api/audit.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uv_loop_t loop;
static char dir[64], path[128];
static struct err e;
static struct api api;
static json_t *lines; // of the file, oldest first

static void on_answered(const struct http_inner_answer *answer, void *userdata)
{
    (void)answer;
    (void)userdata;
}

static void begin(int64_t aggregate_ms)
{
    char folder[80];
    (void)snprintf(dir, sizeof(dir), "/tmp/meadow-audit-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    (void)snprintf(folder, sizeof(folder), "%s/a", dir);
    (void)snprintf(path, sizeof(path), "%s/a/audit.log", dir);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    const struct audit_options o = {.loop = &loop, .folder = folder, .aggregate_ms = aggregate_ms};
    ck_assert_int_eq(audit_open(&o, &api.audit, &e), 0);
}

static size_t read_lines(void)
{
    size_t len;
    char *rest = NULL;
    cleanup_free char *text = NULL;
    json_decref(lines);
    lines = json_array();
    ck_assert_int_eq(atomic_file_read(path, 1 << 24, &text, &len, &e), 0);
    for (char *at = strtok_r(text, "\n", &rest); at; at = strtok_r(NULL, "\n", &rest)) {
        json_t *j = NULL;
        ck_assert_int_eq(json_parse(at, strlen(at), &j, &e), 0);
        (void)json_array_append_new(lines, j);
    }
    return json_array_size(lines);
}

static size_t finish(void)
{
    audit_close(api.audit);
    api.audit = NULL;
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    size_t n = read_lines();
    ck_assert_int_eq(remove_tree(dir, &e), 0);
    return n;
}

static void teardown(void)
{
    json_decref(lines);
    lines = NULL;
}

static const struct route change = {"POST", "/v1/things/{t}", ROLE_USER, ROUTE_MUTATES, NULL, 0};
static const struct route look = {"GET", "/v1/things", ROLE_USER, 0, NULL, 0};

static struct call make_call(const struct route *route, const char *address, const char *user)
{
    struct http_peer peer = {0};
    struct call call = {.api = &api, .route = route, .request_id = "rabcdefghijkl"};
    (void)snprintf(peer.address, sizeof(peer.address), "%s", address);
    const struct http_inner_options o = {.loop = &loop,
                                         .peer = &peer,
                                         .method = route ? route->method : "GET",
                                         .target = "/v1/things/one?secret=x",
                                         .answer_limit = 1000,
                                         .answered = on_answered};
    ck_assert_int_eq(http_inner_new(&o, &call.req), 0);
    if (user) {
        call.who.role = ROLE_USER;
        (void)snprintf(call.who.user, sizeof(call.who.user), "%s", user);
        (void)snprintf(call.who.token_id, sizeof(call.who.token_id), "tokenid");
    }
    (void)snprintf(call.params[0], sizeof(call.params[0]), "one");
    return call;
}

static void problem(const struct route *route, const char *address, const char *user, int status)
{
    struct call call = make_call(route, address, user);
    audit_problem(&call, status, "no, mtok_tabcdefghijkl_secret");
    http_inner_cancel(call.req);
}

static const char *text_of(size_t i, const char *key)
{
    return json_opt_str(json_array_get(lines, i), key, "");
}

START_TEST(test_a_change)
    {
        begin(60000);
        struct call call = make_call(&change, "192.0.2.7", "ann");
        cleanup_json json_t *answer = json_pack("{s:s,s:s}", "id", "new", "token", "hidden");
        audit_changed(&call, 201, answer);
        audit_changed(&call, 201, answer); // once only
        http_inner_cancel(call.req);
        ck_assert_uint_eq(read_lines(), 1); // before any loop turn: it is in the file
        ck_assert_str_eq(text_of(0, "outcome"), "done");
        ck_assert_str_eq(text_of(0, "user"), "ann");
        ck_assert_str_eq(text_of(0, "token"), "tokenid");
        ck_assert_str_eq(text_of(0, "address"), "192.0.2.7");
        ck_assert_str_eq(text_of(0, "method"), "POST");
        ck_assert_str_eq(text_of(0, "path"), "/v1/things/one");
        ck_assert_str_eq(text_of(0, "route"), "/v1/things/{t}");
        ck_assert_str_eq(text_of(0, "object"), "new");
        ck_assert_str_eq(text_of(0, "request"), "rabcdefghijkl");
        ck_assert_int_eq(json_opt_i64(json_array_get(lines, 0), "status", 0), 201);
        ck_assert_int_eq(json_opt_i64(json_array_get(lines, 0), "n", 0), 1);
        ck_assert_uint_eq(finish(), 1);
    }
END_TEST

START_TEST(test_what_is_no_offence)
    {
        begin(60000);
        problem(&look, "192.0.2.7", "ann", 404);
        problem(&look, "192.0.2.7", "ann", 503);
        problem(NULL, "192.0.2.7", "ann", 404);
        struct call call = make_call(&look, "192.0.2.7", "ann");
        audit_changed(&call, 200, NULL);
        http_inner_cancel(call.req);
        ck_assert_uint_eq(finish(), 0);
    }
END_TEST

START_TEST(test_repeats_are_counted)
    {
        begin(60000);
        for (int i = 0; i < 50; i++) {
            problem(&change, "192.0.2.7", "ann", 403);
            problem(&change, "192.0.2.7", "ann", 409);
            problem(i % 2 ? &change : &look, "192.0.2.8", NULL, 401); // one kind
            struct call call = make_call(NULL, "192.0.2.7", NULL);
            audit_refused(&call, "sealed", "doesn't open");
            audit_problem(&call, 403, "told already");
            http_inner_cancel(call.req);
        }
        ck_assert_uint_eq(read_lines(), 4);
        ck_assert_str_eq(text_of(0, "outcome"), "refused");
        ck_assert_str_eq(text_of(0, "why"), "no, mtok_tabcdefghijkl*******");
        ck_assert_str_eq(text_of(1, "outcome"), "failed");
        ck_assert_str_eq(text_of(3, "what"), "sealed");
        ck_assert_uint_eq(finish(), 8); // the counts are written at the end
        for (size_t i = 4; i < 8; i++)
            ck_assert_int_eq(json_opt_i64(json_array_get(lines, i), "repeats", 0), 49);
    }
END_TEST

START_TEST(test_the_count_comes_when_its_time_is_over)
    {
        begin(30);
        problem(&change, "192.0.2.7", "ann", 403);
        problem(&change, "192.0.2.7", "ann", 403);
        while (read_lines() < 2) // the timer's turn ends it
            (void)uv_run(&loop, UV_RUN_ONCE);
        ck_assert_int_eq(json_opt_i64(json_array_get(lines, 1), "repeats", 0), 1);
        problem(&change, "192.0.2.7", "ann", 403); // a new time begins
        ck_assert_uint_eq(read_lines(), 3);
        ck_assert_uint_eq(finish(), 3);
    }
END_TEST

START_TEST(test_a_storm_from_everywhere_is_bounded)
    {
        begin(60000);
        for (int i = 0; i < 5000; i++) {
            char address[64];
            (void)snprintf(address, sizeof(address), "2001:db8::%x", (unsigned)i);
            problem(&look, address, NULL, 401);
        }
        ck_assert_uint_eq(read_lines(), 1001);
        ck_assert_uint_eq(finish(), 1002);
        ck_assert_int_eq(json_opt_i64(json_array_get(lines, 1001), "repeats", 0), 3999);
    }
END_TEST

START_TEST(test_without_an_audit)
    {
        begin(60000);
        struct audit *kept = api.audit;
        api.audit = NULL;
        problem(&change, "192.0.2.7", "ann", 403);
        ck_assert(audit_usable(NULL));
        ck_assert(audit_synced(NULL));
        api.audit = kept;
        ck_assert_uint_eq(finish(), 0);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("audit_lines");
    tcase_add_checked_fixture(t, NULL, teardown);
    tcase_add_test(t, test_a_change);
    tcase_add_test(t, test_what_is_no_offence);
    tcase_add_test(t, test_repeats_are_counted);
    tcase_add_test(t, test_the_count_comes_when_its_time_is_over);
    tcase_add_test(t, test_a_storm_from_everywhere_is_bounded);
    tcase_add_test(t, test_without_an_audit);
    return run_case("audit_lines", t);
}
