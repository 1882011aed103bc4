// SPDX-License-Identifier: Apache-2.0
// agent.yml: defaults, the sample file, every refusal with its field; the identity on disk.
#include "node-agent/config.h"
#include "node-agent/identity.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/pki.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>
#include <sys/stat.h>

static char top[] = "/tmp/meadow-conf-XXXXXX";

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(top));
}

static void teardown(void)
{
    struct err e;
    ck_assert_int_eq(remove_tree(top, &e), 0);
}

static int load(const char *text, struct agent_config *c, struct err *e)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "%s/agent.yml", top);
    ck_assert_int_eq(atomic_file_write(path, text, strlen(text), 0600, e), 0);
    return agent_config_load(path, c, e);
}

START_TEST(defaults)
    {
        struct agent_config c;
        struct err e;
        ck_assert_msg(agent_config_load(NULL, &c, &e) == 0, "%s", e.text);
        ck_assert_ptr_nonnull(c.name);
        ck_assert_str_eq(c.runtime, "process");
        ck_assert_int_eq(c.cpu_milli, AGENT_ALL);
        ck_assert_int_eq(c.ports_first, 20000);
        ck_assert_int_eq(c.ports_count, 2000);
        ck_assert_int_eq(c.log_limit, 64 << 20);
        agent_config_free(&c);
    }
END_TEST

START_TEST(sample_is_the_defaults)
    {
        struct agent_config c;
        struct agent_config d;
        struct err e;
        ck_assert_msg(agent_config_load("deploy/agent.yml.sample", &c, &e) == 0, "%s", e.text);
        ck_assert_int_eq(agent_config_load(NULL, &d, &e), 0);
        ck_assert_str_eq(c.state_dir, d.state_dir);
        ck_assert_str_eq(c.run_dir, d.run_dir);
        ck_assert_str_eq(c.data_dir, d.data_dir);
        ck_assert_str_eq(c.master_url, d.master_url);
        ck_assert_str_eq(c.docker_socket, d.docker_socket);
        ck_assert_int_eq(c.log_limit, d.log_limit);
        ck_assert_int_eq(c.max_parallel_starts, d.max_parallel_starts);
        agent_config_free(&c);
        agent_config_free(&d);
    }
END_TEST

START_TEST(full)
    {
        struct agent_config c;
        struct err e;
        ck_assert_msg(load("name: n7\nmaster:\n  url: https://10.0.0.1:7420/\njoin_token: mjoin_x\n"
                           "runtime: docker\nresources:\n  cpu: 2.5\n  memory: 4g\n  gpu: 2\n"
                           "ports:\n  first: 61000\n  count: 100\nlabels:\n  - zone=a\n  - x=\n",
                           &c, &e) == 0,
                      "%s", e.text);
        ck_assert_str_eq(c.master_url, "https://10.0.0.1:7420");
        ck_assert_int_eq(c.cpu_milli, 2500);
        ck_assert_int_eq(c.memory, INT64_C(4) << 30);
        ck_assert_int_eq(c.gpu, 2);
        ck_assert_str_eq(c.labels[1], "x=");
        char *token = NULL;
        ck_assert_int_eq(agent_config_token(&c, &token, &e), 0);
        ck_assert_str_eq(token, "mjoin_x");
        free(token);
        agent_config_free(&c);
    }
END_TEST

START_TEST(refusals)
    {
        static const char *const bad[][2] = {
            {"namex: x\n", "namex"},
            {"image_gc:\n  low_threshold: 90\n", "image_gc: low_threshold 90"},
            {"runtime: podman\n", "runtime"},
            {"master:\n  url: http://x\n", "master.url"},
            {"state_dir: relative\n", "state_dir"},
            {"run_dir: "
             "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
             "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n",
             "run_dir"},
            {"ports:\n  first: 30000\n  count: 5000\n", "ports"},
            {"ports:\n  first: 65000\n  count: 2000\n", "ports"},
            {"resources:\n  cpu: many\n", "resources.cpu"},
            {"resources:\n  memory: -1g\n", "resources.memory"},
            {"resources:\n  gpu: 1.5\n", "resources.gpu"},
            {"labels:\n  - zone\n", "labels"},
            {"log_level: loud\n", "log_level"},
            {"join_token: a\njoin_token_file: b\n", "join_token"},
            {"max_parallel_starts: -1\n", "max_parallel_starts"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
            struct agent_config c;
            struct err e = {""};
            ck_assert_msg(load(bad[i][0], &c, &e) < 0, "accepted: %s", bad[i][0]);
            ck_assert_msg(strstr(e.text, bad[i][1]) != NULL, "%s: no \"%s\"", e.text, bad[i][1]);
        }
    }
END_TEST

START_TEST(token_from_a_file)
    {
        struct agent_config c = {0};
        char path[64];
        char *token = NULL;
        struct err e;
        (void)snprintf(path, sizeof(path), "%s/token", top);
        ck_assert_int_eq(atomic_file_write(path, " mjoin_a_b \n", 12, 0600, &e), 0);
        c.join_token_file = path;
        ck_assert_int_eq(agent_config_token(&c, &token, &e), 0);
        ck_assert_str_eq(token, "mjoin_a_b");
        free(token);
        c.join_token_file = NULL;
        ck_assert_int_eq(agent_config_token(&c, &token, &e), 0);
        ck_assert_ptr_null(token);
    }
END_TEST

static char x_name[] = "x";

START_TEST(identity_is_kept)
    {
        struct identity *id = NULL;
        struct err e;
        cleanup_free char *ca_key = NULL, *ca = NULL; // stands for the node's certificate, too
        ck_assert_int_eq(pki_key_new(&ca_key, &e), 0);
        ck_assert_int_eq(pki_ca_new(ca_key, "c", PKI_DAY_S, &ca, &e), 0);
        struct identity joined = {.cert_pem = ca,
                                  .ca_pem = ca,
                                  .cluster_id = x_name,
                                  .cluster_name = x_name,
                                  .node_id = x_name,
                                  .name = x_name};
        struct stat st;
        char path[96];

        ck_assert_msg(identity_load(top, &id, &e) == 0, "%s", e.text);
        ck_assert(!identity_joined(id));
        char *key = strdup(id->key_pem);
        (void)snprintf(path, sizeof(path), "%s/identity/key.pem", top);
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_int_eq(st.st_mode & 0777, 0600);
        identity_free(id);
        ck_assert_int_eq(identity_load(top, &id, &e),
                         0); // the same key, so that a join is idempotent
        ck_assert_str_eq(id->key_pem, key);
        ck_assert_int_eq(identity_store(id, top, &joined, &e), 0);
        ck_assert(identity_joined(id));
        identity_free(id);
        ck_assert_int_eq(identity_load(top, &id, &e), 0);
        ck_assert(identity_joined(id));
        ck_assert_str_eq(id->key_pem, key);
        ck_assert_str_eq(id->node_id, "x");
        identity_free(id);
        free(key);
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("config");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, defaults);
    tcase_add_test(tc, sample_is_the_defaults);
    tcase_add_test(tc, full);
    tcase_add_test(tc, refusals);
    tcase_add_test(tc, token_from_a_file);
    tcase_add_test(tc, identity_is_kept);
    return run_case("agent config", tc);
}
