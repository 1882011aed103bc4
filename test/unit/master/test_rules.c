// SPDX-License-Identifier: Apache-2.0
// Jobs that keep off others by name: however many they are, and both ways.
#include "test/unit/master/cluster_fixture.h"

#include "master/cluster/cluster_internal.h"
#include "master/scheduler/scheduler_internal.h"
#include "master/scheduler/scheduler_keepers.h"
#include "test/unit/suite.h"

#define KEEPERS 300

static struct agent a, b;

static void begin(void)
{
    setup();
    memset(&a, 0, sizeof(a));
    memset(&b, 0, sizeof(b));
    agent_join(&a, "n1", 4);
    agent_join(&b, "n2", 4);
}

static struct job *put(const char *name, int cpu, const char *more)
{
    char text[300];
    (void)snprintf(text, sizeof(text),
                   "{\"name\":\"%s\",\"components\":{\"m\":{\"command\":\"x\",\"resources\":{"
                   "\"cpu\":%d}%s}}}",
                   name, cpu, more);
    return submit(text);
}

static struct job *keeper(int number, int cpu)
{
    char name[32];
    (void)snprintf(name, sizeof(name), "keeper-%d", number);
    return put(name, cpu, ",\"anti_affinity\":[\"job:web\"]");
}

// All but the last one wait for a node that is large enough.
START_TEST(the_last_of_many_counts)
    {
        const struct job *last = NULL;
        for (int i = 0; i < KEEPERS; i++)
            last = keeper(i, i < KEEPERS - 1 ? 500 : 1);
        settle();
        ck_assert_ptr_eq(last->tasks[0].node, a.node);
        const struct job *other = put("other", 1, "");
        const struct job *web = put("web", 1, "");
        settle();
        ck_assert_ptr_eq(other->tasks[0].node, a.node); // the fullest that has room
        ck_assert_ptr_eq(web->tasks[0].node, b.node);
    }
END_TEST

// One that came first hears of them; those of other names, and of other users, are not meant.
START_TEST(who_waits_already_hears_of_it)
    {
        const struct job *web = put("web", 500, "");
        settle();
        ck_assert_ptr_null(web->rules);
        struct job *one = keeper(1, 1), *two = keeper(2, 500);
        const struct job *other = put("other", 500, "");
        settle();
        ck_assert_ptr_nonnull(web->rules);
        ck_assert_ptr_null(other->rules);
        ck_assert_uint_eq(HASH_COUNT(cluster->scheduler->kept_off), 1);
        ck_assert_ptr_eq(keepers_of(cluster, web)->job, one);
        cluster_job_stop(cluster, two, "ann", "");
        cluster_job_stop(cluster, one, "ann", "");
        settle();
        (void)agent_apply(&a, NULL);
        (void)agent_apply(&b, NULL);
        agent_state(one->tasks[0].node == a.node ? &a : &b, 0, ATTEMPT_ENDED, CAUSE_STOPPED, 143,
                    LOGS_COMPLETE);
        ck_assert_int_eq(one->state, JOB_STOPPED);
        ck_assert_ptr_null(keepers_of(cluster, web));
        ck_assert_uint_eq(HASH_COUNT(cluster->scheduler->kept_off), 0);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("rules");
    tcase_add_checked_fixture(t, begin, teardown);
    tcase_add_test(t, the_last_of_many_counts);
    tcase_add_test(t, who_waits_already_hears_of_it);
    return run_case("rules", t);
}
