// SPDX-License-Identifier: Apache-2.0
// Joining against a fake master: the token's form, a CA that is not the token's, refusals, a master
// that is not there.
#include "node-agent/join.h"
#include "node-agent/post.h"
#include "test/lib/fake_master.h"

#include "common/cleanup.h"
#include "common/pki.h"
#include "test/unit/suite.h"

#include <check.h>
#include <signal.h>
#include <string.h>

static uv_loop_t loop;
static struct fake_master master;
static struct join *join;
static char *key;
static unsigned calls;
static bool was_permanent;
static char reason[512];
static char node_id[32];

static void done(const struct identity *joined, bool permanent, const struct err *e, void *userdata)
{
    (void)userdata;
    calls++;
    was_permanent = permanent;
    (void)snprintf(reason, sizeof(reason), "%.500s", joined ? "" : e->text);
    (void)snprintf(node_id, sizeof(node_id), "%s", joined ? joined->node_id : "");
    if (joined) {
        ck_assert_str_eq(joined->ca_pem, master.ca_cert);
        ck_assert_str_eq(joined->cluster_name, "test");
        ck_assert_ptr_nonnull(strstr(joined->cert_pem, "BEGIN CERTIFICATE"));
    }
    join_close(TAKE_PTR(join));
    uv_stop(&loop);
}

static void setup(void)
{
    struct err e;
    (void)signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    fake_master_start(&master, &loop);
    ck_assert_int_eq(pki_key_new(&key, &e), 0);
}

static void teardown(void)
{
    fake_master_close(&master);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0)
        ;
    fake_master_free(&master);
    free(key);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void late(uv_timer_t *timer)
{
    (void)timer;
    ck_abort_msg("the join did not end");
}

static void run(const char *url, const char *token, const char *ca)
{
    struct err e;
    uv_timer_t bound;
    struct join_options o = {.loop = &loop,
                             .master_url = url,
                             .ca_pem = ca,
                             .token = token,
                             .name = "node-1",
                             .machine_id = "m",
                             .key_pem = key,
                             .done = done};
    ck_assert_msg(join_start(&o, &join, &e) == 0, "%s", e.text);
    ck_assert_uint_eq(calls, 0); // never from inside the start
    (void)uv_timer_init(&loop, &bound);
    (void)uv_timer_start(&bound, late, 20000, 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&bound, NULL);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    ck_assert_uint_eq(calls, 1);
}

START_TEST(token_form)
    {
        static const char *const bad[] = {"", "mjoin_", "mjoin_abc_x", "join_0", NULL};
        char token[128];
        struct join_token t;
        struct err e;

        for (int i = 0; bad[i]; i++)
            ck_assert_int_eq(join_token_parse(bad[i], &t, &e), -EINVAL);
        ck_assert_int_eq(join_token_parse(master.token, &t, &e), 0);
        ck_assert_str_eq(t.secret, "sesame");
        (void)snprintf(token, sizeof(token), "%.70s_", master.token);
        ck_assert_int_eq(join_token_parse(token, &t, &e), -EINVAL); // no secret
    }
END_TEST

START_TEST(joins)
    {
        run(master.url, master.token, NULL);
        ck_assert_str_eq(reason, "");
        ck_assert_str_eq(node_id, "ntestnode0000");
    }
END_TEST

START_TEST(joins_with_a_pinned_ca)
    {
        run(master.url, master.token, master.ca_cert);
        ck_assert_str_eq(reason, "");
    }
END_TEST

START_TEST(another_ca_gets_no_secret)
    {
        char token[160];
        (void)snprintf(token, sizeof(token), "%s", master.token);
        token[6] = token[6] == '0' ? '1' : '0';
        run(master.url, token, NULL);
        ck_assert(was_permanent);
        ck_assert_ptr_nonnull(strstr(reason, "CA"));
        ck_assert_uint_eq(master.joins, 0);
    }
END_TEST

START_TEST(wrong_secret_and_taken_name)
    {
        char token[sizeof(master.token) + 2];
        (void)snprintf(token, sizeof(token), "%s!", master.token);
        run(master.url, token, NULL);
        ck_assert(was_permanent);
        ck_assert_ptr_nonnull(strstr(reason, "wrong token"));
        calls = 0;
        master.refuse_join = "name taken";
        run(master.url, master.token, NULL);
        ck_assert_ptr_nonnull(strstr(reason, "name taken"));
    }
END_TEST

START_TEST(nobody_there)
    {
        run("https://127.0.0.1:1", master.token, NULL);
        ck_assert(!was_permanent);
        ck_assert_str_ne(reason, "");
    }
END_TEST

static void posted(int error, int status, const json_t *body, const struct err *e, void *userdata)
{
    char text[64];
    (void)e;
    (void)userdata;
    calls++;
    ck_assert_int_eq(error, 0);
    ck_assert_int_eq(status, 400);
    ck_assert_str_eq(post_problem(status, body, text, sizeof(text)), "HTTP 400: no JSON");
    ck_assert_str_eq(post_problem(502, NULL, text, sizeof(text)), "HTTP 502");
    uv_stop(&loop);
}

START_TEST(problems_are_read)
    {
        struct http_client *client;
        struct err e;
        struct http_client_options o = {.loop = &loop,
                                        .base_url = master.url,
                                        .ca_pem = master.ca_cert,
                                        .connect_timeout_ms = 5000};

        ck_assert_int_eq(http_client_new(&o, &client, &e), 0);
        ck_assert_int_eq(post_json(client, "/v1/nothing", NULL, 10000, posted, NULL, &e), 0);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        ck_assert_uint_eq(calls, 1);
        http_client_close(client, NULL, NULL);
    }
END_TEST

START_TEST(cancelled)
    {
        struct err e;
        struct join_options o = {.loop = &loop,
                                 .master_url = master.url,
                                 .token = master.token,
                                 .name = "n",
                                 .machine_id = "m",
                                 .key_pem = key,
                                 .done = done};
        ck_assert_int_eq(join_start(&o, &join, &e), 0);
        join_close(join);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        ck_assert_uint_eq(calls, 0);
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("join");
    tcase_set_timeout(tc, 30);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, token_form);
    tcase_add_test(tc, joins);
    tcase_add_test(tc, joins_with_a_pinned_ca);
    tcase_add_test(tc, another_ca_gets_no_secret);
    tcase_add_test(tc, wrong_secret_and_taken_name);
    tcase_add_test(tc, nobody_there);
    tcase_add_test(tc, problems_are_read);
    tcase_add_test(tc, cancelled);
    return run_case("join", tc);
}
