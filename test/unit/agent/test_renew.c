// SPDX-License-Identifier: Apache-2.0
// The list of instances, the mark of a removed node, and renewals against a fake master.
#include "node-agent/instances.h"
#include "node-agent/renew.h"
#include "test/lib/fake_master.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/pki.h"
#include "test/unit/suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static char dir[64];
static uv_loop_t loop;

static void setup(void)
{
    char path[128];
    struct err e;
    (void)signal(SIGPIPE, SIG_IGN);
    (void)snprintf(dir, sizeof(dir), "/tmp/meadow-renew-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/identity", dir);
    ck_assert_int_eq(make_dirs(path, 0700, &e), 0);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
}

static void teardown(void)
{
    struct err e;
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    ck_assert_int_eq(remove_tree(dir, &e), 0);
}

static void begin(struct instances *x, const char *name)
{
    struct err e;
    ck_assert_msg(instances_begin(dir, name, x, &e) == 0, "%s", e.text);
    ck_assert_str_eq(x->items[x->n - 1], name);
}

static bool has(const struct instances *x, const char *name)
{
    for (size_t i = 0; i < x->n; i++)
        if (strcmp(x->items[i], name) == 0)
            return true;
    return false;
}

START_TEST(instances_remember)
    {
        static struct instances x;
        struct err e;
        begin(&x, "i1");
        ck_assert_uint_eq(x.n, 1);
        ck_assert_int_eq(instances_answered(dir, &x, &e), 0);
        begin(&x, "i2");
        begin(&x, "i3"); // i2 was never answered, as far as it knows
        ck_assert(has(&x, "i1") && has(&x, "i2") && has(&x, "i3"));
        ck_assert_int_eq(instances_answered(dir, &x, &e), 0);
        ck_assert_int_eq(instances_answered(dir, &x, &e), 0);
        begin(&x, "i4");
        ck_assert(has(&x, "i1") && !has(&x, "i2") && has(&x, "i3") && has(&x, "i4"));
    }
END_TEST

START_TEST(instances_are_bounded)
    {
        static struct instances x;
        struct err e;
        char name[INSTANCE_BYTES];
        for (int i = 0; i < 2 * INSTANCES_ANSWERED_MAX; i++) {
            (void)snprintf(name, sizeof(name), "i%d", i);
            begin(&x, name);
            ck_assert_int_eq(instances_answered(dir, &x, &e), 0);
        }
        ck_assert_uint_eq(x.n, INSTANCES_ANSWERED_MAX);
        for (int i = 0; i < INSTANCES_TRIED_MAX + 5; i++) {
            (void)snprintf(name, sizeof(name), "t%d", i);
            begin(&x, name);
        }
        ck_assert_uint_eq(x.n, INSTANCES_ANSWERED_MAX + INSTANCES_TRIED_MAX);
        (void)snprintf(name, sizeof(name), "i%d", 2 * INSTANCES_ANSWERED_MAX - 1);
        ck_assert(has(&x, name)); // the last that was answered stays
        ck_assert(!has(&x, "t0") && has(&x, "t5"));
    }
END_TEST

START_TEST(a_removed_node_needs_another_token)
    {
        struct err e;
        struct identity *id = NULL;
        ck_assert_int_eq(identity_load(dir, &id, &e), 0);
        cleanup_free char *key = strdup(id->key_pem);
        ck_assert_int_eq(identity_set_removed(id, dir, "removed by x", "token-1", &e), 0);
        identity_free(id);
        ck_assert_int_eq(identity_load(dir, &id, &e), 0);
        ck_assert_str_eq(id->removed, "removed by x");
        ck_assert(!identity_may_return(id, "token-1") && !identity_may_return(id, NULL));
        ck_assert(identity_may_return(id, "token-2"));
        ck_assert_int_eq(identity_forget(id, dir, &e), 0);
        ck_assert_int_eq(identity_load(dir, &id, &e), 0);
        ck_assert_ptr_null(id->removed);
        ck_assert_str_ne(id->key_pem, key);
        identity_free(id);
    }
END_TEST

// --- renewal ---

static struct fake_master master;
static struct identity *identity;
static struct renew *renewing;
static struct http_client *client;
static unsigned renewals;

static void on_renewed(void *userdata)
{
    (void)userdata;
    renewals++;
    uv_stop(&loop);
}

static void get_identity(int64_t life_s)
{
    struct err e;
    cleanup_free char *csr = NULL, *cert = NULL;
    ck_assert_int_eq(identity_load(dir, &identity, &e), 0);
    ck_assert_int_eq(pki_csr_new(identity->key_pem, "node-1", &csr, &e), 0);
    ck_assert_int_eq(
        pki_node_cert(master.ca_cert, master.ca_key, csr, "ntestnode0000", life_s, &cert, &e), 0);
    const struct identity joined = {.cert_pem = cert,
                                    .ca_pem = master.ca_cert,
                                    .cluster_id = (char[]){"ctestcluster0"},
                                    .cluster_name = (char[]){"test"},
                                    .node_id = (char[]){"ntestnode0000"},
                                    .name = (char[]){"node-1"}};
    ck_assert_int_eq(identity_store(identity, dir, &joined, &e), 0);
}

static void start(void)
{
    struct err e;
    struct http_client_options co = {.loop = &loop,
                                     .base_url = master.url,
                                     .ca_pem = identity->ca_pem,
                                     .cert_pem = identity->cert_pem,
                                     .key_pem = identity->key_pem,
                                     .connect_timeout_ms = 5000};
    ck_assert_int_eq(http_client_new(&co, &client, &e), 0);
    struct renew_options o = {.loop = &loop,
                              .state_dir = dir,
                              .identity = identity,
                              .client = client,
                              .renewed = on_renewed};
    ck_assert_msg(renew_new(&o, &renewing, &e) == 0, "%s", e.text);
}

static void stop(void)
{
    fake_master_close(&master);
    http_client_close(client, NULL, NULL);
    renew_close(renewing);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    fake_master_free(&master);
    identity_free(identity);
}

START_TEST(renewed_when_due)
    {
        struct err e;
        struct identity *stored = NULL;
        renewals = 0;
        fake_master_start(&master, &loop);
        get_identity(1); // two thirds of a second from now
        cleanup_free char *old = strdup(identity->cert_pem);
        start();
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        ck_assert_uint_eq(renewals, 1);
        ck_assert_uint_eq(master.renewals, 1);
        ck_assert_str_ne(identity->cert_pem, old);
        ck_assert_int_eq(identity_load(dir, &stored, &e), 0);
        ck_assert_str_eq(stored->cert_pem, identity->cert_pem); // durably
        ck_assert_str_eq(stored->key_pem, identity->key_pem);
        identity_free(stored);
        ck_assert_int_eq(http_client_set_certs(client, identity->ca_pem, identity->cert_pem, &e),
                         0);
        renew_now(renewing); // by the new one
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        ck_assert_uint_eq(master.renewals, 2);
        stop();
    }
END_TEST

START_TEST(a_failure_is_tried_again)
    {
        renewals = 0;
        fake_master_start(&master, &loop);
        master.refuse_renewals = 1;
        get_identity(8);
        start();
        renew_now(renewing);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        ck_assert_uint_eq(renewals, 1);
        ck_assert_uint_eq(master.renewals, 2);
        stop();
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("renew");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 30);
    tcase_add_test(t, instances_remember);
    tcase_add_test(t, instances_are_bounded);
    tcase_add_test(t, a_removed_node_needs_another_token);
    tcase_add_test(t, renewed_when_due);
    tcase_add_test(t, a_failure_is_tried_again);
    return run_case("renew", t);
}
