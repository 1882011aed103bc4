// SPDX-License-Identifier: Apache-2.0
// The restart rules, case by case.
#include "master/cluster/restart.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdlib.h>

struct restart_case {
    const char *what;
    enum restart_policy policy;
    int max_attempts, starts, infra;
    bool stop;
    enum attempt_cause cause;
    int code, signal;
    enum restart_action action;
    enum task_state state;
    bool counted;
    int64_t delay_ms;
    enum node_lost_action lost;
};

static const struct restart_case cases[] = {
    {"exit 0", RESTART_NEVER, 3, 1, 0, false, CAUSE_EXIT, 0, 0, RESTART_DONE, TASK_SUCCEEDED, true,
     0, 0},
    {"exit 1, never", RESTART_NEVER, 3, 1, 0, false, CAUSE_EXIT, 1, 0, RESTART_DONE, TASK_FAILED,
     true, 0, 0},
    {"exit 0, on-failure", RESTART_ON_FAILURE, 3, 1, 0, false, CAUSE_EXIT, 0, 0, RESTART_DONE,
     TASK_SUCCEEDED, true, 0, 0},
    {"first restart at once", RESTART_ON_FAILURE, 3, 1, 0, false, CAUSE_EXIT, 1, 0, RESTART_AGAIN,
     0, true, 0, 0},
    {"second waits", RESTART_ON_FAILURE, 0, 2, 0, false, CAUSE_EXIT, 1, 0, RESTART_AGAIN, 0, true,
     1000, 0},
    {"third waits double", RESTART_ON_FAILURE, 0, 3, 0, false, CAUSE_EXIT, 1, 0, RESTART_AGAIN, 0,
     true, 2000, 0},
    {"capped", RESTART_ON_FAILURE, 0, 40, 0, false, CAUSE_EXIT, 1, 0, RESTART_AGAIN, 0, true, 60000,
     0},
    {"out of attempts", RESTART_ON_FAILURE, 3, 3, 0, false, CAUSE_EXIT, 1, 0, RESTART_DONE,
     TASK_FAILED, true, 0, 0},
    {"always after success", RESTART_ALWAYS, 0, 1, 0, false, CAUSE_EXIT, 0, 0, RESTART_AGAIN, 0,
     true, 0, 0},
    {"64 is final", RESTART_ALWAYS, 0, 1, 0, false, CAUSE_EXIT, 64, 0, RESTART_DONE, TASK_FAILED,
     true, 0, 0},
    {"65 stops the job", RESTART_ALWAYS, 0, 1, 0, false, CAUSE_EXIT, 65, 0, RESTART_STOP_JOB,
     TASK_FAILED, true, 0, 0},
    {"signal", RESTART_ON_FAILURE, 3, 1, 0, false, CAUSE_EXIT, 137, 9, RESTART_AGAIN, 0, true, 0,
     0},
    {"oom", RESTART_NEVER, 3, 1, 0, false, CAUSE_OOM, 137, 9, RESTART_DONE, TASK_FAILED, true, 0,
     0},
    {"time limit is final", RESTART_ALWAYS, 0, 1, 0, false, CAUSE_TIMEOUT, 143, 15, RESTART_DONE,
     TASK_FAILED, true, 0, 0},
    {"can't start", RESTART_NEVER, 3, 1, 0, false, CAUSE_START_FAILED, 127, 0, RESTART_DONE,
     TASK_FAILED, true, 0, 0},
    {"no image", RESTART_NEVER, 3, 1, 0, false, CAUSE_IMAGE, 0, 0, RESTART_DONE, TASK_FAILED, true,
     0, 0},
    {"engine trouble, never", RESTART_NEVER, 3, 1, 1, false, CAUSE_ENGINE, 0, 0, RESTART_AGAIN, 0,
     false, 0, 0},
    {"engine trouble again", RESTART_NEVER, 3, 1, 3, false, CAUSE_ENGINE, 0, 0, RESTART_AGAIN, 0,
     false, 2000, 0},
    {"never started", RESTART_NEVER, 3, 1, 5, false, CAUSE_NEVER_STARTED, 0, 0, RESTART_AGAIN, 0,
     false, 0, 0},
    {"unknown, never", RESTART_NEVER, 3, 1, 0, false, CAUSE_UNKNOWN, 0, 0, RESTART_DONE,
     TASK_UNKNOWN, true, 0, 0},
    {"unknown, on-failure", RESTART_ON_FAILURE, 3, 1, 0, false, CAUSE_UNKNOWN, 0, 0, RESTART_AGAIN,
     0, true, 0, 0},
    {"unhealthy, never", RESTART_NEVER, 3, 1, 0, false, CAUSE_UNHEALTHY, 0, 0, RESTART_DONE,
     TASK_FAILED, true, 0, 0},
    {"unhealthy, on-failure", RESTART_ON_FAILURE, 3, 2, 0, false, CAUSE_UNHEALTHY, 0, 0,
     RESTART_AGAIN, 0, true, 1000, 0},
    {"unhealthy, out of attempts", RESTART_ON_FAILURE, 3, 3, 0, false, CAUSE_UNHEALTHY, 65, 0,
     RESTART_DONE, TASK_FAILED, true, 0, 0},
    {"stopped", RESTART_ALWAYS, 0, 1, 0, true, CAUSE_STOPPED, 143, 15, RESTART_DONE, TASK_STOPPED,
     false, 0, 0},
    {"done before the stop", RESTART_ALWAYS, 0, 1, 0, true, CAUSE_EXIT, 0, 0, RESTART_DONE,
     TASK_SUCCEEDED, false, 0, 0},
    {"failed before the stop", RESTART_ALWAYS, 0, 1, 0, true, CAUSE_EXIT, 3, 0, RESTART_DONE,
     TASK_FAILED, false, 0, 0},
    {"lost while stopping", RESTART_ALWAYS, 0, 1, 0, true, CAUSE_UNKNOWN, 0, 0, RESTART_DONE,
     TASK_STOPPED, false, 0, 0},
    {"node lost, never", RESTART_NEVER, 1, 1, 0, false, CAUSE_NODE_LOST, 0, 0, RESTART_AGAIN, 0,
     false, 0, NODE_LOST_RESTART},
    {"node lost, fail", RESTART_ALWAYS, 0, 1, 0, false, CAUSE_NODE_LOST, 0, 0, RESTART_DONE,
     TASK_LOST, false, 0, NODE_LOST_FAIL},
    {"node lost, an operator's word", RESTART_NEVER, 1, 1, 0, false, CAUSE_NODE_LOST, 0, 0,
     RESTART_AGAIN, 0, false, 0, NODE_LOST_WAIT},
    {"node lost while stopping", RESTART_ALWAYS, 0, 1, 0, true, CAUSE_NODE_LOST, 0, 0, RESTART_DONE,
     TASK_STOPPED, false, 0, NODE_LOST_WAIT},
    {"moved, never", RESTART_NEVER, 1, 1, 0, false, CAUSE_MOVED, 143, 15, RESTART_AGAIN, 0, false,
     0, NODE_LOST_RESTART},
    {"moved, fail", RESTART_ALWAYS, 0, 1, 0, false, CAUSE_MOVED, 143, 15, RESTART_DONE, TASK_LOST,
     false, 0, NODE_LOST_FAIL},
    {"moved while stopping", RESTART_ALWAYS, 0, 1, 0, true, CAUSE_MOVED, 143, 15, RESTART_DONE,
     TASK_STOPPED, false, 0, NODE_LOST_RESTART},
    {"fenced and killed", RESTART_NEVER, 1, 1, 1, false, CAUSE_FENCED, 137, 9, RESTART_AGAIN, 0,
     false, 0, NODE_LOST_RESTART},
};

START_TEST(test_case)
    {
        const struct restart_case *x = &cases[_i];
        struct attempt_status s = {
            .state = ATTEMPT_ENDED, .cause = x->cause, .exit_code = x->code, .signal = x->signal};
        struct restart_input in = {.policy = x->policy,
                                   .max_attempts = x->max_attempts,
                                   .backoff_ms = 1000,
                                   .max_backoff_ms = 60000,
                                   .starts = x->starts,
                                   .ends = x->starts,
                                   .infra_failures = x->infra,
                                   .stop_wanted = x->stop,
                                   .lost_action = x->lost,
                                   .status = &s};
        struct restart_decision d;
        restart_decide(&in, &d);
        ck_assert_msg(d.action == x->action, "%s: action %d", x->what, d.action);
        if (x->action != RESTART_AGAIN)
            ck_assert_msg(d.state == x->state, "%s: state %s", x->what,
                          task_state_to_string(d.state));
        else
            ck_assert_msg(d.delay_ms == x->delay_ms, "%s: delay %lld", x->what,
                          (long long)d.delay_ms);
        ck_assert_msg(d.counted == x->counted, "%s: counted", x->what);
    }
END_TEST

// Being moved is what it said it may be; losing the node is not.
START_TEST(preemptible_is_moved_whatever_it_says_of_lost_nodes)
    {
        struct attempt_status s = {.state = ATTEMPT_ENDED, .cause = CAUSE_MOVED};
        struct restart_input in = {
            .lost_action = NODE_LOST_FAIL, .preemptible = true, .starts = 1, .status = &s};
        struct restart_decision d;
        restart_decide(&in, &d);
        ck_assert_int_eq(d.action, RESTART_AGAIN);
        ck_assert(!d.counted);
        s.cause = CAUSE_NODE_LOST;
        restart_decide(&in, &d);
        ck_assert_int_eq(d.action, RESTART_DONE);
        ck_assert_int_eq(d.state, TASK_LOST);
    }
END_TEST

// What a node's policy forbids is no failure of the program: another node is asked, as long as
// there is one.
START_TEST(test_policy)
    {
        struct attempt_status s = {.state = ATTEMPT_ENDED, .cause = CAUSE_POLICY};
        struct restart_input in = {
            .policy = RESTART_NEVER, .starts = 1, .refusals = 1, .nodes_left = true, .status = &s};
        struct restart_decision d;
        restart_decide(&in, &d);
        ck_assert_int_eq(d.action, RESTART_AGAIN);
        ck_assert_int_eq(d.delay_ms, 0);
        ck_assert(!d.counted);
        in.refusals = 3;
        restart_decide(&in, &d);
        ck_assert_int_eq(d.delay_ms, 2000);
        in.nodes_left = false;
        restart_decide(&in, &d);
        ck_assert_int_eq(d.action, RESTART_DONE);
        ck_assert_int_eq(d.state, TASK_FAILED);
    }
END_TEST

START_TEST(test_a_long_run_begins_a_new_row)
    {
        struct attempt_status s = {.started_ms = 5000, .ended_ms = 65000};
        ck_assert_int_eq(restart_row(0, &s, 60000), 1);
        ck_assert_int_eq(restart_row(7, &s, 60000), 8);
        s.ended_ms = 65001;
        ck_assert_int_eq(restart_row(7, &s, 60000), 1);
        s.started_ms = 0; // never ran
        ck_assert_int_eq(restart_row(7, &s, 60000), 8);
    }
END_TEST

static const char *text_of(enum attempt_cause cause, int code, int signal)
{
    static struct restart_decision d;
    struct attempt_status s = {.state = ATTEMPT_ENDED,
                               .cause = cause,
                               .exit_code = code,
                               .signal = signal,
                               .reason = "as told"};
    restart_decide(&(struct restart_input){.policy = RESTART_NEVER, .status = &s}, &d);
    return d.reason;
}

// Each kind of end in its own words.
START_TEST(test_texts)
    {
        ck_assert_str_eq(text_of(CAUSE_EXIT, 3, 0), "exit code 3");
        ck_assert_str_eq(text_of(CAUSE_EXIT, 64, 0), "exit code 64: not to be started again");
        ck_assert_str_eq(text_of(CAUSE_EXIT, 65, 0), "exit code 65: asked for the job's end");
        ck_assert_str_eq(text_of(CAUSE_EXIT, 137, 9), "killed by signal 9 (SIGKILL)");
        ck_assert_str_eq(text_of(CAUSE_EXIT, 128 + 40, 40), "killed by signal 40");
        ck_assert_str_eq(text_of(CAUSE_OOM, 137, 9),
                         "killed for using more memory than it may (exit code 137)");
        ck_assert_str_eq(text_of(CAUSE_TIMEOUT, 143, 15), "ran into its time limit");
        ck_assert_str_eq(text_of(CAUSE_UNKNOWN, 0, 0), "as told");
        ck_assert_str_eq(text_of(CAUSE_IMAGE, 0, 0), "as told");
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("rules");
    tcase_add_loop_test(t, test_case, 0, sizeof(cases) / sizeof(*cases));
    tcase_add_test(t, preemptible_is_moved_whatever_it_says_of_lost_nodes);
    tcase_add_test(t, test_policy);
    tcase_add_test(t, test_a_long_run_begins_a_new_row);
    tcase_add_test(t, test_texts);
    return run_case("restart", t);
}
