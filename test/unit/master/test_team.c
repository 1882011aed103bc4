// SPDX-License-Identifier: Apache-2.0
// Teams: with a record or only named by users, loaded again, their quota at submission; what is
// left of a user who is removed; and the head of the queue over a restart.
#include "test/unit/master/cluster_fixture.h"

#include "master/cluster/team.h"
#include "master/scheduler/scheduler.h"
#include "test/unit/suite.h"

static void add_user(const char *name, const char *team)
{
    struct err e = {""};
    struct user u;
    user_init(&u, name, ROLE_USER);
    (void)snprintf(u.team, sizeof(u.team), "%s", team);
    ck_assert_int_eq(cluster_user_put(cluster, &u, &e), 0);
}

static int put(const char *name, int64_t weight, int64_t gpu)
{
    struct err e = {""};
    struct team t = {.weight = weight, .quota = PLAN_NO_QUOTA};
    (void)snprintf(t.name, sizeof(t.name), "%s", name);
    t.quota.gpu = gpu;
    return cluster_team_put(cluster, &t, &e);
}

static void count(const struct team *t, void *userdata)
{
    int *n = userdata;
    *n += 1;
    ck_assert_str_ne(t->name, "");
}

START_TEST(test_teams_are_who_names_them_and_what_is_set)
    {
        struct team t;
        int n = 0;
        add_user("ann", "red");
        add_user("bob", "red");
        add_user("cy", "");
        ck_assert(cluster_team_find(cluster, "red", &t));
        ck_assert_int_eq(t.weight, 1);
        ck_assert(!cluster_team_find(cluster, "blue", &t));
        ck_assert_int_eq(put("blue", 3, 2), 0);
        cluster_teams(cluster, count, &n);
        ck_assert_int_eq(n, 2);
        json_t *view = team_view(cluster, &t);
        ck_assert_int_eq(json_integer_value(json_object_get(view, "users")), 0);
        json_decref(view);
        add_user("bob", "green");
        add_user("ann", "");
        ck_assert(!cluster_team_find(cluster, "red", &t));
        ck_assert_int_eq(cluster_user_remove(cluster, "bob"), 0);
        ck_assert(!cluster_team_find(cluster, "green", &t));
        add_user("ann", "red");
        add_user("bob", "red");
        ck_assert(cluster_team_find(cluster, "red", &t));
        view = team_view(cluster, &t);
        ck_assert_int_eq(json_integer_value(json_object_get(view, "users")), 2);
        json_decref(view);
        ck_assert_int_eq(put("red", 0, -1), -EINVAL);
        ck_assert_int_eq(put("a b", 1, -1), -EINVAL);
        settle();
        restart_cluster(2);
        ck_assert(cluster_team_find(cluster, "blue", &t));
        ck_assert_int_eq(t.weight, 3);
        ck_assert_int_eq(t.quota.gpu, 2);
        ck_assert_int_eq(cluster_team_remove(cluster, "blue"), 0);
        ck_assert_int_eq(cluster_team_remove(cluster, "red"), -ENOENT);
        settle();
        ck_assert(!cluster_team_find(cluster, "blue", &t));
        ck_assert_ptr_null(json_object_get(queue.records, "team:blue"));
    }
END_TEST

START_TEST(test_a_job_that_never_fits_the_teams_quota_is_refused)
    {
        static const char text[] =
            "{\"name\":\"x\",\"components\":{\"m\":{\"command\":\"a\",\"resources\":{\"gpu\":2}}}}";
        struct err e = {""};
        struct job_problems problems = {0};
        struct job_warnings warnings = {0};
        struct job_spec *spec = NULL;
        add_user("ann", "red");
        ck_assert_int_eq(put("red", 1, 1), 0);
        ck_assert_int_eq(
            job_spec_parse(text, strlen(text), "json", NULL, &spec, &problems, &warnings, &e), 0);
        ck_assert_int_eq(scheduler_check_quota(cluster, spec, "ann", &e), -EINVAL);
        ck_assert_str_eq(
            e.text, "never fits your team's quota: needs gpu 2 in all, your team's quota is 1; "
                    "make the job smaller or ask an admin for more");
        ck_assert_int_eq(put("red", 1, 2), 0);
        ck_assert_int_eq(scheduler_check_quota(cluster, spec, "ann", &e), 0);
        job_spec_free(spec);
    }
END_TEST

START_TEST(test_of_a_removed_user_no_usage_is_left)
    {
        struct agent a = {0};
        half_life_ms = 3600000;
        restart_cluster(2);
        agent_join(&a, "n1", 4);
        add_user("ann", "");
        (void)submit("{\"name\":\"x\",\"components\":{\"m\":{\"command\":\"a\"}}}");
        settle();
        ck_assert_ptr_nonnull(json_object_get(queue.records, "usage:ann"));
        ck_assert_int_eq(cluster_user_remove(cluster, "ann"), 0);
        settle();
        ck_assert_ptr_null(json_object_get(queue.records, "usage:ann"));
        (void)agent_apply(&a, NULL); // its job goes on, and ends
        agent_state(&a, 0, ATTEMPT_ENDED, CAUSE_EXIT, 0, LOGS_COMPLETE);
        ck_assert_ptr_null(json_object_get(queue.records, "usage:ann"));
        add_user("ann", "");
        (void)submit("{\"name\":\"y\",\"components\":{\"m\":{\"command\":\"a\"}}}");
        settle();
        ck_assert_ptr_nonnull(json_object_get(queue.records, "usage:ann"));
    }
END_TEST

#define JOB_OF(name, cpu)                                                                          \
    "{\"name\":\"" name "\",\"components\":{\"m\":{\"command\":\"a\",\"resources\":{\"cpu\":" cpu  \
    "}}}}"

START_TEST(test_the_head_of_the_queue_is_kept)
    {
        struct agent a = {0};
        struct err e = {""};
        char head[JOB_ID_BYTES];
        hold_after_ms = 600000;
        restart_cluster(2);
        agent_join(&a, "n1", 4);
        (void)submit(JOB_OF("a", "3"));
        settle();
        memcpy(head, submit(JOB_OF("b", "4"))->id, sizeof(head));
        settle();
        cleanup_free char *before =
            strdup(json_string_value(json_object_get(queue.records, "queue_head")));
        ck_assert_ptr_nonnull(strstr(before, head));
        restart_cluster(3); // its node is not there: another would be the head, or none
        ck_assert_str_eq(json_string_value(json_object_get(queue.records, "queue_head")), before);
        a.node = cluster_node_by_name(cluster, "n1");
        ck_assert_int_eq(say(&a, true, node_info(4), false), 0);
        ck_assert_str_eq(json_string_value(json_object_get(queue.records, "queue_head")), before);
        cluster_job_stop(cluster, cluster_job_by_id(cluster, head), "ann", "stopped by ann");
        ck_assert_int_eq(cluster_job_delete(cluster, cluster_job_by_id(cluster, head), "ann", &e),
                         0);
        settle();
        ck_assert_ptr_null(json_object_get(queue.records, "queue_head"));
    }
END_TEST

// "all" of a node with 2 cards is more than 1 card.
START_TEST(test_all_of_a_node_counts_before_it_is_submitted)
    {
        static const char text[] = "{\"name\":\"x\",\"components\":{\"m\":{\"command\":\"a\","
                                   "\"resources\":{\"gpu\":\"all\"}}}}";
        static const char *const why[2] = {"team-quota", NULL};
        struct agent a = {0};
        agent_join(&a, "n1", 4);
        add_user("ann", "red");
        for (int i = 0; i < 2; i++) {
            struct err e = {""};
            struct job_problems problems = {0};
            struct job_warnings warnings = {0};
            struct job_spec *spec = NULL;
            json_t *plan = NULL;
            ck_assert_int_eq(put("red", 1, 1 + i), 0);
            ck_assert_int_eq(
                job_spec_parse(text, strlen(text), "json", NULL, &spec, &problems, &warnings, &e),
                0);
            ck_assert_int_eq(cluster_job_plan(cluster, spec, "ann", &plan, &e), 0);
            ck_assert_pstr_eq(json_string_value(json_object_get(plan, "why")), why[i]);
            ck_assert_int_eq(json_is_true(json_object_get(plan, "starts_now")), i);
            json_decref(plan);
            job_spec_free(spec);
        }
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("team");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_teams_are_who_names_them_and_what_is_set);
    tcase_add_test(t, test_a_job_that_never_fits_the_teams_quota_is_refused);
    tcase_add_test(t, test_all_of_a_node_counts_before_it_is_submitted);
    tcase_add_test(t, test_of_a_removed_user_no_usage_is_left);
    tcase_add_test(t, test_the_head_of_the_queue_is_kept);
    return run_case("team", t);
}
