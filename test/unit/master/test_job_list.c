// SPDX-License-Identifier: Apache-2.0
// Pages and counts of jobs against a walk over all of them, while jobs come, end, go and are loaded
// again.
#include "test/unit/master/cluster_fixture.h"
#include "test/unit/suite.h"

#define JOBS 2000
#define USERS 5

static char ids[JOBS][ID_BYTES];
static size_t n_ids;
static uint64_t state = 1;

static unsigned pick(unsigned n)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((state >> 33) % n);
}

static void submit_one(void)
{
    char text[160], user[8];
    struct err e = {""};
    struct job_problems problems = {0};
    struct job_warnings warnings = {0};
    struct job_spec *spec = NULL;
    struct job *j = NULL;
    (void)snprintf(text, sizeof(text),
                   "{\"name\":\"n%u\",\"components\":{\"m\":{\"command\":\"true\"}}}", pick(700));
    (void)snprintf(user, sizeof(user), "u%u", pick(pick(40) ? 2 : USERS));
    ck_assert_int_eq(
        job_spec_parse(text, strlen(text), "json", NULL, &spec, &problems, &warnings, &e), 0);
    if (cluster_job_submit(cluster, spec, user, &j, &e) < 0)
        job_spec_free(spec); // there is a live one of that name
    else
        memcpy(ids[n_ids++], j->id, ID_BYTES);
}

static void end_or_delete(unsigned stop_of_100)
{
    struct err e;
    for (size_t i = 0; i < n_ids; i++) {
        struct job *j = cluster_job_by_id(cluster, ids[i]);
        if (j && pick(100) < stop_of_100)
            cluster_job_stop(cluster, j, "ann", "enough");
        else if (j && j->state >= JOB_SUCCEEDED && pick(4) == 0)
            ck_assert_int_eq(cluster_job_delete(cluster, j, "ann", &e), 0);
    }
}

// By hand: every job, newest first.
static void check(const char *user, unsigned states)
{
    const struct job_filter f = {user, states};
    size_t n = 0;
    struct job *got = NULL;
    for (struct job *j = cluster_jobs_newest(cluster); j; j = cluster_job_older(cluster, j)) {
        if (!(states & JOB_IN(j->state)) || (user && strcmp(j->user, user) != 0))
            continue;
        got = cluster_jobs_next(cluster, got, &f);
        ck_assert_ptr_eq(got, j);
        n++;
    }
    ck_assert_ptr_null(cluster_jobs_next(cluster, got && n ? got : NULL, &f));
    ck_assert_uint_eq(cluster_jobs_matching(cluster, &f), n);
}

static void check_all(void)
{
    static const unsigned sets[] = {JOB_IN(JOB_STATE_MAX) - 1, JOB_IN(JOB_PENDING),
                                    JOB_IN(JOB_STOPPED), JOB_IN(JOB_RUNNING),
                                    JOB_IN(JOB_STOPPED) | JOB_IN(JOB_PENDING)};
    char user[8];
    for (size_t s = 0; s < sizeof(sets) / sizeof(*sets); s++) {
        check(NULL, sets[s]);
        for (unsigned u = 0; u <= USERS; u++) { // the last one has none
            (void)snprintf(user, sizeof(user), "u%u", u);
            check(user, sets[s]);
        }
    }
}

static void check_names(void)
{
    char name[8], user[8];
    for (unsigned n = 0; n < 700; n += 7) {
        (void)snprintf(name, sizeof(name), "n%u", n);
        (void)snprintf(user, sizeof(user), "u%u", n % USERS);
        struct job *want = NULL;
        for (struct job *j = cluster_jobs_newest(cluster); j; j = cluster_job_older(cluster, j)) {
            if (strcmp(j->name, name) != 0 || strcmp(j->user, user) != 0)
                continue;
            if (!want || (want->state >= JOB_SUCCEEDED && j->state < JOB_SUCCEEDED))
                want = j;
        }
        ck_assert_ptr_eq(cluster_job_find(cluster, name, user), want);
    }
}

START_TEST(test_lists_agree_with_a_walk)
    {
        n_ids = 0;
        while (n_ids < JOBS) {
            for (unsigned n = 100; n > 0 && n_ids < JOBS; n--)
                submit_one();
            end_or_delete(5);
            settle();
            if (n_ids % 500 < 100)
                check_all();
        }
        check_all();
        check_names();
        restart_cluster(2); // records come in any order
        check_all();
        check_names();
        end_or_delete(100);
        end_or_delete(0);
        settle();
        check_all();
    }
END_TEST

START_TEST(test_old_ones_go_and_new_ones_come)
    {
        // Blocks in front become empty and are given up, one job stays from the beginning.
        struct err e;
        submit_one();
        for (unsigned round = 0; round < 40; round++) {
            size_t from = n_ids = 1;
            while (n_ids < 200)
                submit_one();
            settle();
            for (size_t i = from; i < n_ids; i++) {
                struct job *j = cluster_job_by_id(cluster, ids[i]);
                cluster_job_stop(cluster, j, "ann", "enough");
                settle();
                ck_assert_int_eq(cluster_job_delete(cluster, j, "ann", &e), 0);
            }
            settle();
            check_all();
        }
        ck_assert_uint_eq(cluster_job_count(cluster), 1);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("job_list");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_lists_agree_with_a_walk);
    tcase_add_test(t, test_old_ones_go_and_new_ones_come);
    tcase_set_timeout(t, 300);
    return run_case("job_list", t);
}
