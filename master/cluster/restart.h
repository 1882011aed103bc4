// SPDX-License-Identifier: Apache-2.0
// What follows from the end of an attempt: pure, so that every rule of docs/job-file.md "Restarts"
// is a test case.
#pragma once

#include "master/cluster/model.h"

// Between tries after losses to the infrastructure, ms: from the second one, doubling.
#define RESTART_INFRA_MS 1000
#define RESTART_INFRA_MAX_MS 60000

enum restart_action {
    RESTART_DONE,     // the task is over: `state`
    RESTART_AGAIN,    // a new attempt after delay_ms
    RESTART_STOP_JOB, // the task failed and takes the job with it at once (exit code 65)
};

struct restart_input {
    enum restart_policy policy;
    int max_attempts; // 0 = no bound
    int64_t backoff_ms, max_backoff_ms;
    int starts;         // counted starts so far, this one included
    int ends;           // the program's own, in a row, this one included (restart_row)
    int infra_failures; // in a row, this one included
    int refusals;       // by nodes' own policies, this one included
    bool nodes_left;    // some node has not refused it
    bool stop_wanted;   // the task was told to stop
    enum node_lost_action lost_action;   // for CAUSE_NODE_LOST, CAUSE_MOVED
    bool preemptible;                    // may be moved, whatever lost_action says
    const struct attempt_status *status; // state ENDED
};

struct restart_decision {
    enum restart_action action;
    enum task_state state; // for DONE and STOP_JOB
    bool counted;          // this end was the program's own: it counts against max_attempts
    int64_t delay_ms;      // for AGAIN; the caller spreads it (backoff_spread)
    char reason[REASON_BYTES];
};

// The length of the row after one more end: one that had run for longer than the longest pause
// begins a new one, so that what works for days and then fails is not taken for a crash loop.
int restart_row(int before, const struct attempt_status *s, int64_t max_backoff_ms);

// Exit codes 64 (do not restart) and 65 (stop the job) are MARO's. The first restart is immediate,
// then the delay doubles from backoff_ms up to max_backoff_ms with each end in the row. Losses to
// the infrastructure are tried again whatever the policy says and are not counted. So is what a
// node's own policy refused, as long as there is a node that may think otherwise.
void restart_decide(const struct restart_input *in, struct restart_decision *ret);
