// SPDX-License-Identifier: Apache-2.0
// What becomes of logs that no job here has written.
#include "test/unit/master/cluster_fixture.h"

#include "master/cluster/array.h"
#include "master/cluster/cluster_internal.h"
#include "master/logs/log_store.h"
#include "test/unit/suite.h"

static int by_attempt(const void *a, const void *b)
{
    return strcmp(((const struct kept_log *)a)->attempt, ((const struct kept_log *)b)->attempt);
}

// The logs that the start found; the first was written last longest ago. Each takes a byte.
static void found(const char *const *attempts, size_t n)
{
    struct kept_log *logs = calloc(n, sizeof(*logs));
    for (size_t i = 0; i < n; i++) {
        (void)snprintf(logs[i].attempt, sizeof(logs[i].attempt), "%s", attempts[i]);
        logs[i].written_ms = clock_real_ms() - 60000 + (int64_t)i;
    }
    qsort(logs, n, sizeof(*logs), by_attempt);
    log_bytes = (int64_t)n;
    cluster_logs_found(logs, n, cluster);
}

// As the liveness timer does it.
static void look(void)
{
    lost_logs_look(cluster);
    history_look(cluster);
    settle();
}

static void leases_end(void)
{
    cluster->started_boot_ms -= 100000;
}

static struct agent agent;

// A job that ran twice, and is over.
static struct job *ran_twice(void)
{
    struct job *j = submit("{\"name\":\"two\",\"components\":{\"m\":{\"command\":\"x\","
                           "\"restart\":{\"policy\":\"on-failure\"}}}}");
    settle();
    (void)agent_apply(&agent, NULL);
    agent_state(&agent, 0, ATTEMPT_ENDED, CAUSE_NEVER_STARTED, 0, LOGS_COMPLETE);
    j->tasks[0].not_before_boot_ms = 0;
    task_timer_fired(cluster);
    settle();
    (void)agent_apply(&agent, NULL);
    agent_state(&agent, agent.n_held - 1, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_COMPLETE);
    ck_assert_int_eq(j->state, JOB_SUCCEEDED);
    ck_assert_int_eq(j->tasks[0].n_previous, 1);
    n_forgotten = 0;
    return j;
}

static void begin(void)
{
    setup();
    agent = (struct agent){0};
    agent_join(&agent, "n1", 4);
}

START_TEST(test_nobodys_go_first)
    {
        const struct task *t = ran_twice()->tasks;
        const char *const all[] = {t->previous[0], "azz", "aaa", t->attempt_id};
        found(all, 4);
        leases_end();
        look();
        ck_assert_int_eq(n_forgotten, 0); // there is room
        cluster->options.history.log_bytes = 3;
        look();
        ck_assert_int_eq(n_forgotten, 1);
        ck_assert_str_eq(forgotten[0], "azz"); // written before the other one
        cluster->options.history.log_bytes = 2;
        look();
        ck_assert_int_eq(n_forgotten, 2);
        ck_assert_str_eq(forgotten[1], "aaa");
        cluster->options.history.log_bytes = 1;
        look(); // nothing else is left to make room
        ck_assert_int_eq(n_forgotten, 4);
    }
END_TEST

START_TEST(test_old_ones_go_like_jobs)
    {
        const char *const all[] = {"aaa", "abb"};
        found(all, 2);
        leases_end();
        cluster->options.history.age_ms = 90000;
        look();
        ck_assert_int_eq(n_forgotten, 0);
        cluster->options.history.age_ms = 1000;
        agent.node->identity.skew_known = false; // does the clock tell the truth?
        look();
        ck_assert_int_eq(n_forgotten, 0);
        ck_assert_int_eq(say(&agent, false, NULL, false), 0);
        look();
        ck_assert_int_eq(n_forgotten, 2);
    }
END_TEST

START_TEST(test_nothing_goes_before_nodes_have_told)
    {
        const char *const all[] = {"aaa"};
        cluster->options.history.log_bytes = 0;
        found(all, 1);
        cluster->options.history.log_bytes = 1;
        log_bytes = 2;
        look(); // leases of the master before this one
        ck_assert_int_eq(n_forgotten, 0);
        leases_end();
        agent.node->inventory_seen = false;
        look();
        ck_assert_int_eq(n_forgotten, 0);
        agent.node->inventory_seen = true;
        cluster->options.restored = true; // nor may it be undone any more
        look();
        ck_assert_int_eq(n_forgotten, 0);
        cluster->options.restored = false;
        look();
        ck_assert_int_eq(n_forgotten, 1);
    }
END_TEST

static void hold(const char *id, const char *job)
{
    struct attempt_status *s = &agent.held[agent.n_held++];
    *s = (struct attempt_status){.change = ++agent.change, .state = ATTEMPT_RUNNING};
    (void)snprintf(s->id, sizeof(s->id), "%s", id);
    (void)snprintf(s->job, sizeof(s->job), "%s", job);
    ck_assert_int_eq(say(&agent, true, NULL, true), 0);
}

START_TEST(test_logs_of_orphans_stay)
    {
        const char *const all[] = {"abefore", "aafter", "anobody"};
        cluster->options.orphans_ms = 3600000;
        hold("abefore", "jaaaaaaaaaaaa");
        ck_assert_int_eq(agent.node->orphans, 1);
        found(all, 3);
        leases_end();
        look();
        hold("aafter", "jaaaaaaaaaaaa"); // its node was away until now
        ck_assert_int_eq(agent.node->orphans, 2);
        cluster->options.history.log_bytes = 1;
        look();
        ck_assert_int_eq(n_forgotten, 1);
        ck_assert_str_eq(forgotten[0], "anobody");
    }
END_TEST

// Many jobs are looked at in steps; one that is deleted meanwhile takes nothing along, and other
// logs wait.
START_TEST(test_in_steps)
    {
        static char ids[3000][ATTEMPT_ID_BYTES];
        const char *all[3001];
        struct job *third = NULL;
        struct err e = {""};
        for (int i = 0; i < 3; i++) {
            char text[128];
            (void)snprintf(text, sizeof(text),
                           "{\"name\":\"j%d\",\"components\":{\"m\":{\"command\":\"x\","
                           "\"num\":9000,\"resources\":{\"cpu\":9}}}}",
                           i);
            struct job *j = submit(text);
            settle();
            for (int k = 0; k < 1000; k++) {
                (void)snprintf(ids[i * 1000 + k], sizeof(ids[0]), "a%d-%d", i, k);
                memcpy(j->tasks[k].attempt_id, ids[i * 1000 + k], sizeof(ids[0]));
            }
            third = j;
        }
        for (int i = 0; i < 3000; i++)
            all[i] = ids[i];
        all[3000] = "anobody";
        found(all, 3001);
        leases_end();
        cluster->options.history.log_bytes = 3000;
        lost_logs_look(cluster);
        ck_assert_ptr_eq(cluster->lost.job, third);
        cluster_job_stop(cluster, third, "ann", "enough");
        settle();
        history_look(cluster); // not yet
        ck_assert_int_eq(n_forgotten, 0);
        ck_assert_int_eq(cluster_job_delete(cluster, third, "ann", &e), 0);
        ck_assert_ptr_null(cluster->lost.job);
        settle();
        n_forgotten = 0;
        log_bytes = 3001;
        look();
        ck_assert_int_eq(n_forgotten, 1);
        ck_assert_str_eq(forgotten[0], "a2-0"); // it went with its job: once more does nothing
    }
END_TEST

START_TEST(test_a_large_array_is_looked_at_in_steps)
    {
        const char *const all[] = {"aknown", "anobody"};
        struct job *array = submit("{\"name\":\"arr\",\"array\":\"1-15000\",\"components\":{"
                                   "\"m\":{\"command\":\"x\",\"resources\":{\"cpu\":9}}}}");
        for (int i = 0; i < 15000; i++)
            cluster_job_make(cluster, cluster_job_element(cluster, array, i));
        settle();
        (void)snprintf(array->elements->made[14999]->tasks[0].attempt_id, ATTEMPT_ID_BYTES,
                       "aknown");
        found(all, 2);
        leases_end();
        lost_logs_look(cluster);
        ck_assert_ptr_eq(cluster->lost.job, array);
        look();
        look();
        ck_assert(!cluster->lost.asking);
        cluster->options.history.log_bytes = 1;
        look();
        ck_assert_int_eq(n_forgotten, 1);
        ck_assert_str_eq(forgotten[0], "anobody");
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("lost_logs");
    tcase_add_checked_fixture(t, begin, teardown);
    tcase_add_test(t, test_nobodys_go_first);
    tcase_add_test(t, test_old_ones_go_like_jobs);
    tcase_add_test(t, test_nothing_goes_before_nodes_have_told);
    tcase_add_test(t, test_logs_of_orphans_stay);
    tcase_add_test(t, test_in_steps);
    tcase_add_test(t, test_a_large_array_is_looked_at_in_steps);
    return run_case("lost_logs", t);
}
