// SPDX-License-Identifier: Apache-2.0
// Over many rounds: two users with equal shares win equally often, weights and teams show, a large
// job among small ones starts within the bound that is promised.
#include "test/unit/scheduler/queue_world.h"
#include "test/unit/suite.h"

static const struct plan_policy policy = {SCENE_HALF_LIFE, true, SCENE_HOLD_AFTER, 0, 0};

// One round: each user submits a job of 2 cards, one starts and runs for 60 s, the other is
// withdrawn. Returns whether ann's started.
static bool round_won(struct scene *s, int i)
{
    char play[128];
    (void)snprintf(
        play, sizeof(play),
        i % 3 ? "a%d ann 50 1,0,2; b%d bob 50 1,0,2" : "b%d bob 50 1,0,2; a%d ann 50 1,0,2", i, i);
    s->len = 0;
    scene_play(s, play);
    char winner = s->log[0], loser = winner == 'a' ? 'b' : 'a';
    ck_assert_msg(strchr(s->log, ' ') == NULL, "both started: %s", s->log);
    ck_assert(winner == 'a' || winner == 'b');
    (void)snprintf(play, sizeof(play), "+60; -%c%d; !%c%d", winner, i, loser, i);
    scene_play(s, play);
    return winner == 'a';
}

static int rounds(const char *before, int n)
{
    static struct scene s;
    int won = 0;
    scene_begin(&s, "g1=8,16,3", &policy);
    scene_play(&s, before);
    for (int i = 0; i < n; i++)
        won += round_won(&s, i);
    scene_free(&s);
    return won;
}

START_TEST(two_users_win_half_each)
    {
        int won = rounds("", 20);
        ck_assert_int_ge(won, 9);
        ck_assert_int_le(won, 11);
    }
END_TEST

START_TEST(twice_the_weight_wins_twice_as_often)
    {
        int won = rounds("weight ann 2", 30);
        ck_assert_int_ge(won, 18);
        ck_assert_int_le(won, 22);
    }
END_TEST

START_TEST(the_other_is_told_why)
    {
        static struct scene s;
        scene_begin(&s, "g1=8,16,3", &policy);
        scene_play(&s, "a ann 50 1,0,2; b bob 50 1,0,2");
        ck_assert_str_eq(s.log, "a>g1");
        ck_assert_int_eq(plan_queue_wait(&scene_job(&s, "b")->entry), PLAN_WAIT_CAPACITY);
        ck_assert_str_eq(plan_queue_head(s.queue).id, "b");
        scene_free(&s);
    }
END_TEST

START_TEST(a_gang_never_holds_a_part)
    {
        static struct scene s;
        scene_begin(&s, "n1=5", &policy);
        scene_play(&s, "a ann 50 1*3; b bob 50 1*3");
        ck_assert_str_eq(s.log, "a>n1,n1,n1");
        ck_assert_int_eq(s.world.nodes[0].free.cpu_milli, 2000);
        ck_assert(!scene_job(&s, "b")->runs);
        scene_free(&s);
    }
END_TEST

// Small jobs without limits come for ever; the large one starts when those have ended that were
// started before it had been the head for SCENE_HOLD_AFTER.
START_TEST(a_large_job_is_not_starved)
    {
        static struct scene s;
        char play[128];
        int passed = 0, running = 0;
        scene_begin(&s, "n1=4", &policy);
        scene_play(&s, "s0 ann 50 1; s1 ann 50 1; big bob 50 4");
        for (int i = 2; i < 40 && !scene_job(&s, "big")->runs; i++) {
            (void)snprintf(play, sizeof(play), "s%d ann 50 1; +60", i);
            scene_play(&s, play);
            char *oldest = s.jobs[running == 0 ? 0 : running].id;
            if (strcmp(oldest, "big") == 0)
                oldest = s.jobs[++running].id;
            if (scene_job(&s, oldest)->runs) {
                (void)snprintf(play, sizeof(play), "-%s", oldest);
                scene_play(&s, play);
                running++;
            }
            passed = i;
            s.len = 0;
        }
        ck_assert_msg(scene_job(&s, "big")->runs, "still waits after %d others", passed);
        ck_assert_int_le(passed, 20);
        scene_free(&s);
    }
END_TEST

static void pass(struct scene *s, int from, int to)
{
    for (int i = from; i < to; i++) {
        char play[64];
        (void)snprintf(play, sizeof(play), "s%d ann 50 1", i);
        scene_play(s, play);
        if (s->jobs[s->n_jobs - 1].runs)
            scene_end(s, &s->jobs[s->n_jobs - 1]);
    }
}

// One that no empty cluster could have had is watched again as soon as there is more.
START_TEST(what_grew_large_enough_is_seen)
    {
        static struct scene s;
        struct plan_policy often = policy;
        often.overtakes = 2;
        scene_begin(&s, "n1=4", &often);
        scene_play(&s, "a ann 50 1 | big bob 50 8");
        pass(&s, 0, 8);
        s.world.nodes[0].total.cpu_milli += 4000;
        s.world.nodes[0].free.cpu_milli += 4000;
        plan_index_free(s.index);
        ck_assert_int_eq(plan_index_new(s.world.nodes, s.world.n_nodes, &s.index), 0);
        plan_queue_grew(s.queue);
        pass(&s, 8, 13);
        ck_assert_str_eq(plan_queue_head(s.queue).id, "big");
        ck_assert(plan_queue_head(s.queue).strict);
        scene_free(&s);
    }
END_TEST

START_TEST(what_passed_it_counts_on_when_it_is_queued_anew)
    {
        static struct scene s;
        struct plan_policy often = policy;
        often.overtakes = 4;
        scene_begin(&s, "n1=4", &often);
        scene_play(&s, "a ann 50 1 | big ann 50 4");
        for (int i = 0; i < 24; i++) {
            scene_anew(&s, scene_job(&s, "big"), 50);
            pass(&s, i, i + 1);
        }
        ck_assert_str_eq(plan_queue_head(s.queue).id, "big");
        ck_assert(plan_queue_head(s.queue).strict);
        scene_restart(&s); // a new master knows
        pass(&s, 24, 25);
        ck_assert_str_eq(plan_queue_head(s.queue).id, "big");
        ck_assert(plan_queue_head(s.queue).strict);
        ck_assert_ptr_nonnull(s.jobs[s.n_jobs - 1].entry.lane); // what came waits
        scene_free(&s);
    }
END_TEST

static void load(struct scene *s, const char *user, int64_t minutes, int64_t half_lives_ago)
{
    int64_t used = (INT64_C(1) << 20) * 60000 * 256 * minutes;
    const struct share_usage u = {{used, 0, 0}, s->now_ms - half_lives_ago * SCENE_HALF_LIFE};
    ck_assert_int_eq(plan_queue_load_usage(s->queue, user, &u), 0);
}

// What users had is stored as of when each held something last; for their team it has faded since.
START_TEST(what_a_team_had_long_ago_is_forgotten_over_a_restart)
    {
        static struct scene s;
        scene_begin(&s, "n1=4", &policy);
        load(&s, "ann", 1000, 12);
        load(&s, "cy", 1, 0);
        load(&s, "bob", 10, 0);
        scene_play(&s, "team ann red; team cy red; team bob blue; b bob 50 4; a cy 50 4");
        ck_assert_str_eq(s.log, "a>n1");
        scene_free(&s);
    }
END_TEST

// Each had all of a cluster that was smaller then, with the longest half life: no sum overflows.
START_TEST(a_team_of_many_with_a_past_comes_last)
    {
        static struct scene s;
        const struct plan_policy slow = {SHARE_HALF_LIFE_MAX, true, SCENE_HOLD_AFTER, 0, 0};
        static const char *const names[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"};
        char text[64];
        scene_begin(&s, "n1=4", &slow);
        for (size_t i = 0; i < 8; i++) {
            const struct share_usage u = {{INT64_C(2000000000000000000), 0, 0}, s.now_ms};
            ck_assert_int_eq(plan_queue_load_usage(s.queue, names[i], &u), 0);
            (void)snprintf(text, sizeof(text), "team %s red", names[i]);
            scene_play(&s, text);
        }
        s.len = 0;
        scene_play(&s, "v a 50 4; w other 50 4");
        ck_assert_msg(strstr(s.log, "w>n1"), "%s", s.log);
        scene_free(&s);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("fairness");
    tcase_add_test(t, two_users_win_half_each);
    tcase_add_test(t, twice_the_weight_wins_twice_as_often);
    tcase_add_test(t, the_other_is_told_why);
    tcase_add_test(t, what_a_team_had_long_ago_is_forgotten_over_a_restart);
    tcase_add_test(t, a_team_of_many_with_a_past_comes_last);
    tcase_add_test(t, a_gang_never_holds_a_part);
    tcase_add_test(t, a_large_job_is_not_starved);
    tcase_add_test(t, what_grew_large_enough_is_seen);
    tcase_add_test(t, what_passed_it_counts_on_when_it_is_queued_anew);
    return run_case("fairness", t);
}
