// SPDX-License-Identifier: Apache-2.0
// Disk work of the executor in libuv's thread pool. A worker reads the task's spec, which nobody
// changes or frees while the task is pinned; everything else it needs is in its own record.
#include "node-agent/executor_internal.h"
#include "node-agent/secrets.h"

#include <stdlib.h>
#include <string.h>

enum work_kind { WORK_CLAIM, WORK_REMOVE };

struct work {
    uv_work_t request;
    struct executor *executor;
    struct task *task; // pinned
    struct attempt_dirs dirs;
    enum work_kind kind;
    const struct policy *policy;
    const char *secrets_dir;
    int result;
    enum attempt_cause failed; // when result < 0
    struct err err;
};

// The policy before anything is made: what it forbids leaves no trace.
static void claim(struct work *w)
{
    struct attempt_spec *spec = w->task->spec;

    w->result = w->policy ? policy_apply(w->policy, spec, &w->err) : 0;
    w->failed = w->result == -EACCES   ? CAUSE_POLICY
                : w->result == -ENOMEM ? CAUSE_ENGINE
                                       : CAUSE_START_FAILED;
    if (w->result < 0)
        return;
    w->failed = CAUSE_ENGINE;
    w->result = attempt_claim(&w->dirs, spec, &w->err);
    if (w->result < 0 || spec->n_secrets == 0)
        return;
    if (!w->secrets_dir || !*w->secrets_dir) {
        w->failed = CAUSE_POLICY;
        w->result = err_set(&w->err, -ENODEV,
                            "this node has no folder in memory (tmpfs) for the job's secrets");
        return;
    }
    w->result = secrets_write(w->secrets_dir, spec, &w->err);
    w->failed = w->result == -ENOKEY ? CAUSE_START_FAILED : CAUSE_ENGINE;
}

static void work_cb(uv_work_t *request)
{
    struct work *w = request->data;

    if (w->kind == WORK_CLAIM)
        claim(w);
    else
        w->result = attempt_remove(&w->dirs, w->task->status.id, &w->err);
}

static void done_cb(uv_work_t *request, int status)
{
    struct work *w = request->data;
    struct executor *x = w->executor;

    if (status < 0) {
        w->result = status;
        w->failed = CAUSE_ENGINE;
        (void)err_set(&w->err, status, "%s", uv_strerror(status));
    }
    w->task->pins--;
    if (w->kind == WORK_CLAIM)
        executor_claimed(x, w->task, w->result, w->failed, w->err.text);
    else
        executor_files_removed(x, w->task, w->result, w->err.text);
    free(w);
    x->works--;
    executor_finish_close(x);
}

static int queue_work(struct executor *x, struct task *task, enum work_kind kind)
{
    struct work *w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->request.data = w;
    w->executor = x;
    w->task = task;
    w->dirs = x->options.dirs;
    w->policy = x->options.policy;
    w->secrets_dir = x->options.secrets_dir;
    w->kind = kind;
    int r = uv_queue_work(x->options.loop, &w->request, work_cb, done_cb);
    if (r < 0) {
        free(w);
        return r;
    }
    task->pins++;
    x->works++;
    return 0;
}

void executor_claim(struct executor *x, struct task *task)
{
    int r = queue_work(x, task, WORK_CLAIM);
    if (r < 0)
        executor_claimed(x, task, r, CAUSE_ENGINE, uv_strerror(r));
}

int executor_remove_files(struct executor *x, struct task *task)
{
    return queue_work(x, task, WORK_REMOVE);
}
