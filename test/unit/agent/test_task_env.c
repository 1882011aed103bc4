// SPDX-License-Identifier: Apache-2.0
// The node's share of the environment: cards by UUID or number, data, peers' file, names.
#include "node-agent/task_env.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>

DEFINE_CLEANUP(attempt_spec, attempt_spec_free)

static char top[] = "/tmp/meadow-env-XXXXXX";
static const char *const uuids[] = {"GPU-a", "GPU-b", NULL};

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(top));
}

static void teardown(void)
{
    struct err e;
    ck_assert_int_eq(remove_tree(top, &e), 0);
}

static struct attempt_spec *spec_of(size_t n_gpus, size_t n_env)
{
    struct attempt_spec *s = calloc(1, sizeof(*s));
    ck_assert_ptr_nonnull(s);
    (void)strcpy(s->id, "a1");
    s->job_name = strdup("cim");
    s->component = strdup("actor");
    s->index = 4;
    s->gpus = calloc(n_gpus + 1, sizeof(*s->gpus));
    s->env = calloc(n_env + 1, sizeof(*s->env));
    ck_assert(s->gpus && s->env);
    s->n_gpus = n_gpus;
    for (size_t i = 0; i < n_gpus; i++)
        s->gpus[i] = (int)(n_gpus - 1 - i);
    return s;
}

static void add(struct attempt_spec *s, const char *key, const char *value)
{
    s->env[s->n_env++] = (struct job_env){strdup(key), strdup(value)};
}

static const char *get(const struct attempt_spec *s, const char *key)
{
    for (size_t i = 0; i < s->n_env; i++)
        if (strcmp(s->env[i].key, key) == 0)
            return s->env[i].value;
    return NULL;
}

static struct task_env_node node_of(bool container, bool simulated)
{
    struct task_env_node n = {.data_dir = "/srv/data",
                              .out_dir = top,
                              .work_dir = "/work/dir",
                              .container = container,
                              .gpus_simulated = simulated,
                              .gpu_uuids = uuids,
                              .n_gpus = 3};
    return n;
}

START_TEST(process_with_real_cards)
    {
        cleanup(attempt_spec) struct attempt_spec *s = spec_of(3, 1);
        struct task_env_node n = node_of(false, false);
        struct err e;
        ck_assert_int_eq(task_env_apply(s, &n, &e), 0);
        ck_assert_str_eq(get(s, "CUDA_VISIBLE_DEVICES"),
                         "2,GPU-b,GPU-a"); // a card without a UUID by number
        ck_assert_str_eq(get(s, "CONTAINER_NAME"), "meadow-cim-actor-4-a1");
        ck_assert_str_eq(get(s, "MEADOW_DATA"), "/srv/data");
        ck_assert_str_eq(get(s, "HOME"), "/work/dir");
        ck_assert_uint_eq(s->n_gpus, 3);
    }
END_TEST

START_TEST(simulated_cards_reach_no_engine)
    {
        cleanup(attempt_spec) struct attempt_spec *s = spec_of(2, 0);
        struct task_env_node n = node_of(false, true);
        struct err e;
        ck_assert_int_eq(task_env_apply(s, &n, &e), 0);
        ck_assert_str_eq(get(s, "CUDA_VISIBLE_DEVICES"), "1,0");
        ck_assert_str_eq(get(s, "CUDA_DEVICE_ORDER"), "PCI_BUS_ID");
        ck_assert_uint_eq(s->n_gpus, 0);
    }
END_TEST

START_TEST(container)
    {
        cleanup(attempt_spec) struct attempt_spec *s = spec_of(2, 2);
        struct task_env_node n = node_of(true, false);
        struct err e;
        s->mounts = calloc(1, sizeof(*s->mounts));
        ck_assert_ptr_nonnull(s->mounts);
        s->mounts[0].target = strdup("/mnt/data");
        s->n_mounts = 1;
        ck_assert_int_eq(task_env_apply(s, &n, &e), 0);
        ck_assert_str_eq(get(s, "CUDA_VISIBLE_DEVICES"), "0,1");
        ck_assert_str_eq(get(s, "MEADOW_DATA"), "/mnt/data");
        ck_assert_ptr_null(get(s, "HOME"));
        ck_assert_uint_eq(s->n_gpus, 2);
    }
END_TEST

START_TEST(users_values)
    {
        cleanup(attempt_spec) struct attempt_spec *s = spec_of(0, 3);
        struct task_env_node n = node_of(false, false);
        struct err e;
        add(s, "HOME", "/home/ann");
        add(s, "CUDA_VISIBLE_DEVICES", "0,1,2,3");
        ck_assert_int_eq(task_env_apply(s, &n, &e), 0);
        ck_assert_str_eq(get(s, "HOME"), "/home/ann");
        ck_assert_str_eq(get(s, "CUDA_VISIBLE_DEVICES"), ""); // no cards were granted
    }
END_TEST

START_TEST(many_peers_go_into_a_file)
    {
        cleanup(attempt_spec) struct attempt_spec *s = spec_of(0, 4);
        struct task_env_node n = node_of(false, false);
        char *text = NULL;
        size_t len;
        struct err e;
        char *big = malloc(PEERS_INLINE_MAX + 1);
        ck_assert_ptr_nonnull(big);
        memset(big, 'x', PEERS_INLINE_MAX);
        big[PEERS_INLINE_MAX] = '\0';
        add(s, "MEADOW_ACTOR_ADDRS", big);
        add(s, "MEADOW_LEARNER_ADDRS", "h:1");
        add(s, "KEEP", "1");
        ck_assert_int_eq(task_env_apply(s, &n, &e), 0);
        ck_assert_ptr_null(get(s, "MEADOW_ACTOR_ADDRS"));
        ck_assert_ptr_null(get(s, "MEADOW_LEARNER_ADDRS"));
        ck_assert_str_eq(get(s, "KEEP"), "1");
        ck_assert_int_eq(atomic_file_read(get(s, "MEADOW_PEERS_FILE"), 1 << 20, &text, &len, &e),
                         0);
        ck_assert_ptr_nonnull(strstr(text, "\nMEADOW_LEARNER_ADDRS=h:1\n"));
        free(text);
        free(big);
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("task_env");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, process_with_real_cards);
    tcase_add_test(tc, simulated_cards_reach_no_engine);
    tcase_add_test(tc, container);
    tcase_add_test(tc, users_values);
    tcase_add_test(tc, many_peers_go_into_a_file);
    return run_case("task_env", tc);
}
