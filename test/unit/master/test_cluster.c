// SPDX-License-Identifier: Apache-2.0
// The cluster model against a scripted agent: no sockets, no store. The commit queue is replaced by
// one that is durable when the test says so, which is the point: nothing may be published before.
#include "common/cleanup.h"
#include "common/json.h"
#include "master/cluster/cluster.h"
#include "proto/version.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

// --- a commit queue by hand (in place of store/commit.c) ---

#define WAITERS 64

static struct {
    void (*collect)(void *userdata);
    void *userdata;
    bool marked;
    struct {
        void (*fn)(int result, void *userdata);
        void *userdata;
    } waiters[WAITERS];
    int n_waiters;
    int puts, dels, appends;
    json_t *records; // key -> text, as the store would have
} queue;

void commit_mark(struct commit *c)
{
    (void)c;
    queue.marked = true;
}

int commit_then(struct commit *c, int64_t timeout_ms, void (*fn)(int result, void *userdata),
                void *userdata)
{
    (void)c;
    (void)timeout_ms;
    ck_assert_int_lt(queue.n_waiters, WAITERS);
    queue.waiters[queue.n_waiters].fn = fn;
    queue.waiters[queue.n_waiters++].userdata = userdata;
    return 0;
}

void commit_put(struct commit *c, const char *key, char *json, int64_t ttl_ms)
{
    (void)c;
    (void)ttl_ms;
    queue.puts++;
    json_put_str(queue.records, key, json);
    free(json);
}

void commit_del(struct commit *c, const char *key)
{
    (void)c;
    queue.dels++;
    (void)json_object_del(queue.records, key);
}

void commit_append(struct commit *c, const char *stream, int64_t id, char *json, int64_t max_len)
{
    (void)c;
    (void)stream;
    (void)id;
    (void)max_len;
    queue.appends++;
    free(json);
}

bool commit_pending(const struct commit *c)
{
    (void)c;
    return queue.marked;
}

static struct commit *const fake = (struct commit *)&queue;

// --- the cluster under test ---

static uv_loop_t loop;
static struct cluster *cluster;
static int moved; // calls of assignment_moved
static char forgotten[8][ATTEMPT_ID_BYTES];
static int n_forgotten;

static void on_moved(struct node *n, void *userdata)
{
    (void)n;
    (void)userdata;
    moved++;
}

static void on_logs(const char *attempt_id, void *userdata)
{
    (void)attempt_id;
    (void)userdata;
}

static void on_forget(const char *attempt_id, void *userdata)
{
    (void)userdata;
    if (n_forgotten < 8)
        (void)snprintf(forgotten[n_forgotten++], ATTEMPT_ID_BYTES, "%s", attempt_id);
}

static void collect_only(void)
{
    while (queue.marked) {
        queue.marked = false;
        cluster_collect(cluster);
    }
}

// Everything pending becomes durable. Callbacks may mark again: that is the next batch.
static void settle(void)
{
    while (queue.marked || queue.n_waiters) {
        collect_only();
        int n = queue.n_waiters;
        queue.n_waiters = 0;
        struct {
            void (*fn)(int result, void *userdata);
            void *userdata;
        } due[WAITERS];
        memcpy(due, queue.waiters, sizeof(due));
        for (int i = 0; i < n; i++)
            due[i].fn(0, due[i].userdata);
    }
}

static struct cluster *make(void)
{
    const struct cluster_options o = {.loop = &loop,
                                      .id = "caaaaaaaaaaaa",
                                      .name = "test",
                                      .sync_interval_ms = 1000,
                                      .lease_ms = 60000,
                                      .assignment_moved = on_moved,
                                      .logs_complete = on_logs,
                                      .forget_logs = on_forget};
    return cluster_new(&o);
}

static void setup(void)
{
    struct err e = {""};
    memset(&queue, 0, sizeof(queue));
    queue.records = json_object();
    moved = n_forgotten = 0;
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    cluster = make();
    ck_assert_msg(cluster_start(cluster, fake, 1, 0, &e) == 0, "%s", e.text);
    settle();
}

static void end_cluster(void)
{
    cluster_close(cluster, NULL, NULL);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    cluster_free(cluster);
}

static void teardown(void)
{
    end_cluster();
    json_decref(queue.records);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

// --- a scripted agent ---

struct agent {
    struct node *node;
    char instance[INSTANCE_BYTES];
    int64_t seq, change;
    struct sync_position applied;
    struct attempt_status held[8];
    size_t n_held;
};

static json_t *node_info(int cpu)
{
    return json_pack("{s:s, s:s, s:b, s:{s:i, s:I, s:i}, s:{s:i, s:i}}", "address", "10.0.0.1",
                     "runtime", "process", "ready", 1, "resources", "cpu", cpu * 1000, "memory",
                     (json_int_t)8 << 30, "gpu", 2, "ports", "first", 20000, "count", 100);
}

static int say(struct agent *a, bool inventory, json_t *info, bool all)
{
    struct err e = {""};
    struct sync_request m = {.protocol = MEADOW_PROTOCOL,
                             .seq = ++a->seq,
                             .applied = a->applied,
                             .has_inventory = inventory};
    m.inventory_complete = inventory;
    m.node = info;
    memcpy(m.instance, a->instance, sizeof(m.instance));
    uint64_t sum = 0;
    for (size_t i = 0; i < a->n_held; i++)
        sum += inventory_hash(a->held[i].id, a->held[i].state);
    inventory_digest(sum, m.digest);
    if (all || inventory) {
        m.statuses = calloc(a->n_held + 1, sizeof(*m.statuses));
        memcpy(m.statuses, a->held, a->n_held * sizeof(*m.statuses));
        m.n_statuses = a->n_held;
    }
    int r = cluster_node_message(cluster, a->node, &m, &e);
    sync_request_reset(&m);
    if (r == 0)
        settle();
    return r;
}

static void agent_join(struct agent *a, const char *name, int cpu)
{
    struct err e = {""};
    char key[65];
    (void)snprintf(key, sizeof(key), "key-of-%s", name);
    ck_assert_msg(cluster_node_join(cluster, name, key, true, &a->node, &e) == 0, "%s", e.text);
    (void)snprintf(a->instance, sizeof(a->instance), "i-%s-1", name);
    settle();
    ck_assert_int_eq(say(a, true, node_info(cpu), false), 0);
    ck_assert_int_eq(a->node->state, NODE_READY);
}

// Fetches and applies what is assigned; returns how many entries the answer had.
static size_t agent_apply(struct agent *a, enum desired_state *ret_desired)
{
    struct sync_answer answer;
    ck_assert_int_eq(cluster_node_answer(cluster, a->node, &a->applied, &answer), 0);
    size_t n = answer.n_entries;
    for (size_t i = 0; i < n; i++) {
        size_t k = 0;
        while (k < a->n_held && strcmp(a->held[k].id, answer.entries[i].spec->id) != 0)
            k++;
        if (k == a->n_held) {
            a->held[k] = (struct attempt_status){.change = ++a->change};
            memcpy(a->held[k].id, answer.entries[i].spec->id, ATTEMPT_ID_BYTES);
            a->n_held++;
        }
        if (ret_desired)
            *ret_desired = answer.entries[i].desired;
    }
    for (size_t i = 0; i < answer.n_removed; i++)
        for (size_t k = 0; k < a->n_held; k++)
            if (strcmp(a->held[k].id, answer.removed[i]) == 0) {
                a->held[k] = a->held[--a->n_held];
                break;
            }
    a->applied = answer.position;
    sync_answer_reset(&answer);
    return n;
}

static void agent_state(struct agent *a, size_t i, enum attempt_state state,
                        enum attempt_cause cause, int code, enum logs_state logs)
{
    struct attempt_status *s = &a->held[i];
    s->change = ++a->change;
    s->state = state;
    s->cause = cause;
    s->exit_code = code;
    s->has_exit = cause == CAUSE_EXIT;
    s->logs = logs;
    ck_assert_int_eq(say(a, false, NULL, true), 0);
}

static struct job *submit(const char *text)
{
    struct err e = {""};
    struct job_problems problems = {0};
    struct job_warnings warnings = {0};
    struct job_spec *spec = NULL;
    struct job *j = NULL;
    ck_assert_msg(
        job_spec_parse(text, strlen(text), "json", NULL, &spec, &problems, &warnings, &e) == 0,
        "%s", e.text);
    job_problems_free(&problems);
    job_warnings_free(&warnings);
    ck_assert_msg(cluster_job_submit(cluster, spec, "ann", &j, &e) == 0, "%s", e.text);
    return j;
}

#define ONE                                                                                        \
    "{\"name\":\"one\",\"components\":{\"m\":{\"command\":\"true\",\"resources\":{\"cpu\":2}}}}"
#define AGAIN                                                                                      \
    "{\"name\":\"again\",\"components\":{\"m\":{\"command\":\"false\",\"restart\":{\"policy\":"    \
    "\"on-failure\",\"max_attempts\":2}}}}"

START_TEST(test_nothing_leaves_before_it_is_durable)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        (void)agent_apply(&a, NULL);
        moved = 0;
        int64_t last = cluster_last_event(cluster);
        struct job *j = submit(ONE);
        collect_only(); // placed, and on its way to the store
        ck_assert_int_eq(j->tasks[0].state, TASK_ASSIGNED);
        ck_assert_int_eq(moved, 0);
        ck_assert_int_eq(cluster_last_event(cluster), last);
        ck_assert(!cluster_node_settled(a.node));
        ck_assert_uint_eq(agent_apply(&a, NULL), 0);
        settle();
        ck_assert_int_eq(moved, 1);
        ck_assert_int_gt(cluster_last_event(cluster), last);
        ck_assert_uint_eq(agent_apply(&a, NULL), 1);
        ck_assert_uint_eq(agent_apply(&a, NULL), 0);
    }
END_TEST

START_TEST(test_a_job_runs_to_its_end_and_frees_its_node)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        struct job *j = submit(ONE);
        settle();
        ck_assert_int_eq(a.node->reserved.cpu_milli, 2000);
        ck_assert_uint_eq(agent_apply(&a, NULL), 1);
        agent_state(&a, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
        ck_assert_int_eq(j->state, JOB_RUNNING);
        ck_assert_int_eq(j->tasks[0].state, TASK_RUNNING);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_OPEN);
        ck_assert_int_eq(a.node->reserved.cpu_milli, 0);   // the process is gone
        ck_assert_int_eq(j->tasks[0].state, TASK_RUNNING); // shown as ended when its logs are in
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_COMPLETE);
        ck_assert_int_eq(j->tasks[0].state, TASK_SUCCEEDED);
        ck_assert_int_eq(j->state, JOB_SUCCEEDED);
        (void)agent_apply(&a, NULL);
        ck_assert_uint_eq(a.n_held, 0); // told to forget it
        ck_assert_int_eq(say(&a, false, NULL, false), 0);
        ck_assert_ptr_null(a.node->assignments);
        ck_assert(!a.node->wants_inventory);
    }
END_TEST

START_TEST(test_restart_gets_a_new_attempt_and_then_fails)
    {
        struct agent a = {0};
        char first[ATTEMPT_ID_BYTES];
        agent_join(&a, "n1", 4);
        struct job *j = submit(AGAIN);
        settle();
        memcpy(first, j->tasks[0].attempt_id, sizeof(first));
        (void)agent_apply(&a, NULL);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 1, LOGS_OPEN);
        ck_assert_int_eq(j->tasks[0].attempt, 2);
        ck_assert_str_ne(j->tasks[0].attempt_id, first);
        ck_assert_str_eq(j->tasks[0].previous[0], first);
        ck_assert_uint_eq(agent_apply(&a, NULL), 1);
        ck_assert_uint_eq(a.n_held, 2); // the first one is held until its logs are in
        ck_assert(cluster_node_holds(a.node, first));
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 1, LOGS_COMPLETE);
        ck_assert(!cluster_node_holds(a.node, first));
        agent_state(&a, 1, ATTEMPT_ENDED, CAUSE_EXIT, 1, LOGS_COMPLETE);
        ck_assert_int_eq(j->state, JOB_FAILED);
        ck_assert_str_eq(j->reason, "m/0: exit code 1");
    }
END_TEST

START_TEST(test_all_or_nothing_and_freed_room_starts_the_next)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        struct job *big = submit("{\"name\":\"b\",\"components\":{\"m\":{\"command\":\"x\",\"num\":"
                                 "2,\"resources\":{\"cpu\":2}}}}");
        struct job *waits = submit("{\"name\":\"w\",\"components\":{\"m\":{\"command\":\"x\","
                                   "\"num\":2,\"resources\":{\"cpu\":1}}}}");
        settle();
        ck_assert_int_eq(big->state, JOB_RUNNING);
        ck_assert_int_eq(waits->state, JOB_PENDING);
        ck_assert_int_eq(waits->totals[TASK_PENDING], 2);
        cluster_job_stop(cluster, big, "ann", "enough");
        settle();
        ck_assert_int_eq(big->state, JOB_STOPPING);
        enum desired_state d = DESIRED_RUN;
        ck_assert_uint_eq(agent_apply(&a, &d), 2);
        ck_assert_int_eq(d, DESIRED_STOP);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_STOPPED, 0, LOGS_COMPLETE);
        // The room is reported and, in the same batch, given away.
        ck_assert_int_eq(waits->state, JOB_RUNNING);
        ck_assert_int_eq(waits->totals[TASK_ASSIGNED], 2);
        agent_state(&a, 1, ATTEMPT_ENDED, CAUSE_STOPPED, 0, LOGS_COMPLETE);
        ck_assert_int_eq(big->state, JOB_STOPPED);
    }
END_TEST

START_TEST(test_stop_of_a_waiting_job_ends_it_at_once)
    {
        struct job *j = submit(ONE);
        settle();
        ck_assert_int_eq(j->state, JOB_PENDING);
        cluster_job_stop(cluster, j, "ann", "no");
        cluster_job_stop(cluster, j, "ann", "no");
        settle();
        ck_assert_int_eq(j->state, JOB_STOPPED);
        struct err e;
        ck_assert_int_eq(cluster_job_delete(cluster, j, "ann", &e), 0);
        settle();
        ck_assert_uint_eq(cluster_job_count(cluster), 0);
        ck_assert_uint_eq(json_object_size(queue.records), 0);
    }
END_TEST

START_TEST(test_absence_counts_only_in_a_complete_inventory_that_includes_it)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        struct job *j = submit(ONE);
        settle();
        ck_assert_int_eq(say(&a, true, NULL, false), 0); // has not applied the generation yet
        ck_assert_int_eq(j->tasks[0].state, TASK_ASSIGNED);
        (void)agent_apply(&a, NULL);
        agent_state(&a, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
        a.n_held = 0; // somebody removed it behind the agent's back
        ck_assert_int_eq(say(&a, false, NULL, false), 0);
        ck_assert_int_eq(j->tasks[0].state, TASK_RUNNING);
        ck_assert(a.node->wants_inventory); // but the digest tells
        ck_assert_int_eq(say(&a, true, NULL, false), 0);
        ck_assert_int_eq(j->tasks[0].state, TASK_UNKNOWN);
        ck_assert_int_eq(j->state, JOB_FAILED);
        ck_assert_int_eq(a.node->reserved.cpu_milli, 0);
    }
END_TEST

START_TEST(test_a_new_instance_says_never_started_and_another_attempt_follows)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        struct job *j = submit(ONE);
        settle();
        (void)agent_apply(&a, NULL);
        cluster_node_disconnected(cluster, a.node);
        (void)snprintf(a.instance, sizeof(a.instance), "i-n1-2");
        a.seq = a.change = 0;
        a.applied = (struct sync_position){0};
        a.n_held = 0;
        ck_assert_int_eq(say(&a, true, node_info(4), false), 0);
        ck_assert_int_eq(j->tasks[0].attempt,
                         1); // its generation was not applied by this instance: not gone
        (void)agent_apply(&a, NULL);
        ck_assert_uint_eq(a.n_held, 1);
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_NEVER_STARTED, 0, LOGS_COMPLETE);
        ck_assert_int_eq(j->tasks[0].attempt, 2);
        ck_assert_str_eq(j->tasks[0].issued_to, "i-n1-2");
        ck_assert_int_eq(j->tasks[0].starts, 1); // the lost one is not counted
    }
END_TEST

START_TEST(test_a_second_live_instance_is_refused)
    {
        struct agent a = {0}, b;
        agent_join(&a, "n1", 4);
        b = a;
        (void)snprintf(b.instance, sizeof(b.instance), "i-clone");
        ck_assert_int_eq(say(&b, true, NULL, false), -EBUSY);
        cluster_node_disconnected(cluster, a.node);
        ck_assert_int_eq(say(&b, true, NULL, false), 0);
    }
END_TEST

START_TEST(test_old_and_repeated_statuses_change_nothing)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        struct job *j = submit(ONE);
        settle();
        (void)agent_apply(&a, NULL);
        struct attempt_status old = a.held[0];
        agent_state(&a, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
        int puts = queue.puts;
        struct attempt_status now = a.held[0];
        a.held[0] = old;
        ck_assert_int_eq(say(&a, false, NULL, true), 0);
        a.held[0] = now;
        ck_assert_int_eq(say(&a, false, NULL, true), 0);
        ck_assert_int_eq(j->tasks[0].state, TASK_RUNNING);
        ck_assert_int_eq(queue.puts, puts);
    }
END_TEST

// What the records say is what there was: a master that starts on them goes on.
START_TEST(test_restart_of_the_master_goes_on)
    {
        struct agent a = {0};
        struct err e = {""};
        char id[ID_BYTES], attempt[ATTEMPT_ID_BYTES];
        const char *key;
        json_t *text;
        agent_join(&a, "n1", 4);
        struct job *j = submit(ONE);
        settle();
        (void)agent_apply(&a, NULL);
        agent_state(&a, 0, ATTEMPT_RUNNING, CAUSE_NONE, 0, LOGS_OPEN);
        memcpy(id, j->id, sizeof(id));
        memcpy(attempt, j->tasks[0].attempt_id, sizeof(attempt));
        end_cluster();
        cluster = make();
        json_object_foreach (queue.records, key, text) {
            const char *record = json_string_value(text);
            ck_assert_msg(cluster_load(cluster, key, record, strlen(record), &e) == 0, "%s: %s",
                          key, e.text);
        }
        ck_assert_msg(cluster_start(cluster, fake, 2, 100, &e) == 0, "%s", e.text);
        settle();
        j = cluster_job_by_id(cluster, id);
        a.node = cluster_node_by_name(cluster, "n1");
        ck_assert_int_eq(j->state, JOB_RUNNING);
        ck_assert_int_eq(a.node->state, NODE_NOT_READY);
        ck_assert_int_eq(a.node->reserved.cpu_milli, 2000);
        ck_assert_int_eq(say(&a, true, node_info(4), false), 0);
        (void)agent_apply(&a, NULL);
        ck_assert_uint_eq(a.n_held, 1);
        ck_assert_str_eq(a.held[0].id, attempt); // the same attempt
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_COMPLETE);
        ck_assert_int_eq(j->state, JOB_SUCCEEDED);
        ck_assert_int_eq(j->tasks[0].attempt, 1);
    }
END_TEST

START_TEST(test_environment)
    {
        struct agent a = {0};
        struct sync_answer answer;
        agent_join(&a, "n1", 8);
        (void)submit("{\"name\":\"e\",\"components\":{\"a-b\":{\"command\":\"x\",\"num\":2,"
                     "\"ports\":1,\"env\":{\"K\":\"v\",\"RANK\":\"no\"}},"
                     "\"w\":{\"command\":\"x\"}}}");
        settle();
        ck_assert_int_eq(cluster_node_answer(cluster, a.node, &a.applied, &answer), 0);
        ck_assert_uint_eq(answer.n_entries, 3);
        const struct attempt_spec *s = answer.entries[1].spec;
        ck_assert_str_eq(s->component, "a-b");
        int found = 0;
        for (size_t i = 0; i < s->n_env; i++) {
            const char *k = s->env[i].key, *v = s->env[i].value;
            found += (strcmp(k, "K") == 0 && strcmp(v, "v") == 0) ||
                     (strcmp(k, "RANK") == 0 && strcmp(v, "1") == 0) ||
                     (strcmp(k, "WORLD_SIZE") == 0 && strcmp(v, "2") == 0) ||
                     (strcmp(k, "MASTER_ADDR") == 0 && strcmp(v, "10.0.0.1") == 0) ||
                     (strcmp(k, "MEADOW_W_ADDRS") == 0 && strcmp(v, "10.0.0.1") == 0) ||
                     (strcmp(k, "MEADOW_A_B_ADDRS") == 0 && strncmp(v, "10.0.0.1:200", 12) == 0 &&
                      strchr(v, ','));
        }
        ck_assert_int_eq(found, 6);
        ck_assert_uint_eq(answer.entries[0].spec->n_ports, 2); // its own and MASTER_PORT
        ck_assert_uint_eq(s->n_ports, 1);
        sync_answer_reset(&answer);
    }
END_TEST

int main(void)
{
    Suite *s = suite_create("cluster");
    TCase *t = tcase_create("model");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_nothing_leaves_before_it_is_durable);
    tcase_add_test(t, test_a_job_runs_to_its_end_and_frees_its_node);
    tcase_add_test(t, test_restart_gets_a_new_attempt_and_then_fails);
    tcase_add_test(t, test_all_or_nothing_and_freed_room_starts_the_next);
    tcase_add_test(t, test_stop_of_a_waiting_job_ends_it_at_once);
    tcase_add_test(t, test_absence_counts_only_in_a_complete_inventory_that_includes_it);
    tcase_add_test(t, test_a_new_instance_says_never_started_and_another_attempt_follows);
    tcase_add_test(t, test_a_second_live_instance_is_refused);
    tcase_add_test(t, test_old_and_repeated_statuses_change_nothing);
    tcase_add_test(t, test_restart_of_the_master_goes_on);
    tcase_add_test(t, test_environment);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
