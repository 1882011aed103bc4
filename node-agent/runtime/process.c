// SPDX-License-Identifier: Apache-2.0
// The process runtime: each attempt is a meadow-init in a session of its own that outlives the
// agent. An attempt's life is seen by two events: a record in its out folder (inotify) and the
// death of its init (pidfd). With a record, that is the end; a death without one means that init
// was killed, so what it left is swept before the end is told.
#include "node-agent/runtime/runtime.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "node-agent/runtime/cgroup.h"
#include "node-agent/runtime/out_watch.h"
#include "node-agent/runtime/outbox.h"
#include "node-agent/runtime/outcome.h"
#include "common/pid_watch.h"
#include "node-agent/runtime/proc_scan.h"
#include "node-agent/runtime/process_spawn.h"
#include "node-agent/runtime/sweep.h"
#include "node-agent/runtime/transient.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <uthash.h>

struct process_runtime;

struct proc {
    char id[ATTEMPT_ID_BYTES];
    struct process_runtime *rt; // weak
    pid_t init_pid;             // 0 = not known (yet)
    struct pid_watch *watch;    // of meadow-init; NULL = gone or not known
    struct sweep *sweep;
    struct cgroup_leaf cgroup;
    int init_status; // wait status, -1 = not our child
    bool started_told, ended;
    enum health_word health; // told
    bool stopping, removing, stray;
    UT_hash_handle hh;
};

struct process_runtime {
    struct runtime base;
    struct runtime_options o;
    struct outbox *outbox;
    struct out_watch *out;
    struct proc *procs;
    struct transient *transient; // NULL = attempts are our children
    void (*closed)(void *userdata);
    void *closed_userdata;
};

static struct process_runtime *self(struct runtime *r)
{
    return container_of(r, struct process_runtime, base);
}

static struct proc *find(struct process_runtime *rt, const char *id)
{
    struct proc *p;
    HASH_FIND_STR(rt->procs, id, p);
    return p;
}

static struct proc *proc_new(struct process_runtime *rt, const char *id)
{
    struct proc *p = calloc(1, sizeof(*p));
    if (!p)
        return NULL;
    (void)snprintf(p->id, sizeof(p->id), "%s", id);
    p->rt = rt;
    p->init_status = -1;
    HASH_ADD_STR(rt->procs, id, p);
    return p;
}

static void proc_free(struct proc *p)
{
    out_watch_remove(p->rt->out, p->id);
    transient_forget(p->rt->transient, p);
    pid_watch_cancel(p->watch);
    sweep_cancel(p->sweep);
    HASH_DEL(p->rt->procs, p);
    free(p);
}

// --- the end -----------------------------------------------------------------------------------

static void tell_started(struct proc *p)
{
    struct attempt_status status;
    outcome_running(&p->rt->o.dirs, p->id, &status);
    if ((p->started_told && p->health == status.health) || status.started_ms == 0)
        return;
    p->started_told = true;
    p->health = status.health;
    status.pid = p->init_pid;
    outbox_started(p->rt->outbox, &status);
}

// A child must be reaped before it is forgotten, so its last moment is waited for.
static void finish_removal(struct proc *p)
{
    if (!p->removing || !p->ended || p->watch || p->sweep)
        return;
    outbox_removed(p->rt->outbox, p->id);
    proc_free(p);
}

static void tell_ended(struct proc *p, struct attempt_status *status)
{
    struct process_runtime *rt = p->rt;
    if (p->ended)
        return;
    p->ended = true;
    status->pid = p->init_pid;
    if (cgroup_had_oom(&p->cgroup))
        outcome_mark_oom(status);
    cgroup_remove(&p->cgroup);
    out_watch_remove(rt->out, p->id);
    outbox_ended(rt->outbox, status);
    finish_removal(p);
}

static void end_failed(struct proc *p, enum attempt_cause cause, const char *reason)
{
    struct attempt_status status;
    outcome_failed(&p->rt->o.dirs, p->id, cause, reason, &status);
    tell_ended(p, &status);
}

static void end_unseen(struct proc *p)
{
    struct attempt_status status;
    outcome_unseen(&p->rt->o.dirs, p->id, p->init_status, &status);
    tell_ended(p, &status);
}

static bool end_by_record(struct proc *p)
{
    struct attempt_status status;
    if (outcome_ended(&p->rt->o.dirs, p->id, &status) < 0)
        return false;
    if (status.started_ms)
        tell_started(p);
    tell_ended(p, &status);
    return true;
}

static void on_swept(void *userdata)
{
    struct proc *p = userdata;
    p->sweep = NULL;
    if (!end_by_record(p))
        end_unseen(p);
}

static void sweep_it(struct proc *p)
{
    cgroup_kill_all(&p->cgroup);
    int r = sweep_start(p->rt->o.loop, p->id, on_swept, p, &p->sweep);
    if (r == 0)
        return;
    if (r < 0)
        log_error("process", "attempt %s: cannot look for what is left of it: %s", p->id,
                  strerror(-r));
    end_unseen(p);
}

static void on_init_died(int status, void *userdata)
{
    struct proc *p = userdata;
    p->watch = NULL;
    p->init_status = status;
    if (p->ended)
        finish_removal(p);
    else if (!end_by_record(p))
        sweep_it(p);
}

// --- while it lives ----------------------------------------------------------------------------

static void watch_init(struct proc *p, pid_t pid)
{
    if (p->watch || pid <= 0)
        return;
    int r = pid_watch_start(p->rt->o.loop, pid, on_init_died, p, &p->watch);
    p->init_pid = pid;
    if (r < 0)
        log_error("process", "attempt %s: cannot watch process %d: %s", p->id, (int)pid,
                  strerror(-r));
    if (r == 0 && p->stopping)
        (void)pid_watch_signal(p->watch, SIGTERM);
}

static void on_record(const char *id, void *userdata)
{
    struct proc *p = find(userdata, id);
    pid_t pid;
    if (!p || p->ended)
        return;
    if (!p->watch && !p->sweep && attempt_init_alive(&p->rt->o.dirs, id, &pid))
        watch_init(p, pid ? pid : proc_owner_find(id));
    tell_started(p);
    (void)end_by_record(p);
}

// Takes over what runs already. False when its init is not alive.
static bool adopt_living(struct proc *p)
{
    struct err e;
    pid_t pid;
    if (p->cgroup.n == 0)
        cgroup_find_unit(p->id, &p->cgroup);
    if (out_watch_add(p->rt->out, p->id, &e) < 0)
        log_error("process", "%s", e.text);
    if (!attempt_init_alive(&p->rt->o.dirs, p->id, &pid))
        return false;
    watch_init(p, pid ? pid : proc_owner_find(p->id));
    // Not watched: it died just now, or it is only its record that will tell.
    return p->watch || attempt_init_alive(&p->rt->o.dirs, p->id, &pid);
}

// --- start ---------------------------------------------------------------------------------------

static void on_unit(int result, pid_t pid, const char *why, void *userdata)
{
    struct proc *p = userdata;
    if (p->ended)
        return;
    // A bus that broke off does not say whether it is started all the same.
    if (result < 0 && outcome_bar_start(&p->rt->o.dirs, p->id, CAUSE_ENGINE, why)) {
        if (!end_by_record(p))
            end_failed(p, CAUSE_ENGINE, why);
        return;
    }
    cgroup_find_unit(p->id, &p->cgroup);
    if (pid > 0)
        watch_init(p, pid);
    on_record(p->id, p->rt);                 // what it wrote meanwhile
    if (!p->ended && !p->watch && !p->sweep) // also where it lives and can't be watched
        sweep_it(p);
}

static void launch_unit(struct proc *p, const struct attempt_spec *spec)
{
    struct err e;
    int r = out_watch_add(p->rt->out, p->id, &e);
    if (r == 0)
        r = process_spawn_unit(p->rt->transient, &p->rt->o, spec, on_unit, p, &e);
    if (r < 0)
        end_failed(p, r == -EINVAL || r == -E2BIG ? CAUSE_START_FAILED : CAUSE_ENGINE, e.text);
}

static void launch(struct proc *p, const struct attempt_spec *spec)
{
    struct process_runtime *rt = p->rt;
    struct err e;
    pid_t pid = 0;
    int r = out_watch_add(rt->out, p->id, &e);
    if (r == 0) {
        cgroup_make(rt->o.cgroup_parent ? rt->o.cgroup_parent : "", p->id, &spec->resources,
                    &p->cgroup);
        r = process_spawn(&rt->o, spec, &p->cgroup, &pid, &e);
    }
    if (r < 0) {
        end_failed(p, r == -EINVAL || r == -E2BIG ? CAUSE_START_FAILED : CAUSE_ENGINE, e.text);
        return;
    }
    watch_init(p, pid);
    if (p->watch)
        return;
    // Nobody would see its end (no descriptor is left, say): better not to have it. Its command
    // dies with it.
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    sweep_it(p);
}

// What was started before. False: nothing of it lives, and it left no record.
static bool take_over(struct proc *p)
{
    cgroup_find(p->rt->o.cgroup_parent ? p->rt->o.cgroup_parent : "", p->id, &p->cgroup);
    if (!adopt_living(p))
        return end_by_record(p);
    tell_started(p);
    return true;
}

static void process_start(struct runtime *r, const struct attempt_spec *spec)
{
    struct process_runtime *rt = self(r);
    struct proc *p = find(rt, spec->id);
    struct attempt_status status;
    pid_t pid;
    int64_t ms;
    if (p) { // known: say again what is known
        p->started_told = false;
        tell_started(p);
        p->ended = false;
        if (!p->watch && !p->sweep && !end_by_record(p))
            end_unseen(p);
        return;
    }
    p = proc_new(rt, spec->id);
    if (!p) {
        outcome_failed(&rt->o.dirs, spec->id, CAUSE_ENGINE, "the agent is out of memory", &status);
        outbox_ended(rt->outbox, &status);
        return;
    }
    if (take_over(p))
        return;
    if (attempt_started_read(&rt->o.dirs, p->id, &pid, &ms) == 0)
        sweep_it(p);
    else if (rt->transient)
        launch_unit(p, spec);
    else
        launch(p, spec);
}

static void process_adopt(struct runtime *r, const char *id)
{
    struct process_runtime *rt = self(r);
    struct proc *p = find(rt, id) ? NULL : proc_new(rt, id);
    if (p && !take_over(p))
        sweep_it(p);
}

// --- stop, remove ------------------------------------------------------------------------------

static void process_stop(struct runtime *r, const char *id, int64_t grace_ms)
{
    struct process_runtime *rt = self(r);
    struct proc *p = find(rt, id);
    if (!p || p->ended)
        return;
    p->stopping = true;
    outcome_write_stop(&rt->o.dirs, id, grace_ms);
    if (p->watch)
        (void)pid_watch_signal(p->watch, SIGTERM);
}

static void process_remove(struct runtime *r, const char *id)
{
    struct process_runtime *rt = self(r);
    struct proc *p = find(rt, id);
    if (!p) {
        outbox_removed(rt->outbox, id);
        return;
    }
    p->removing = true;
    process_stop(r, id, 0);
    finish_removal(p);
}

// --- listing, at the start ---------------------------------------------------------------------

// What is known of a claim. False when there is nothing: no process and no sign that it was ever
// started.
static bool list_one(struct process_runtime *rt, const char *id, bool stray,
                     struct attempt_status *ret)
{
    pid_t pid;
    int64_t ms;
    struct proc *p = find(rt, id) ? NULL : proc_new(rt, id);
    if (!p) // asked to start it before we came to list
        return false;
    cgroup_find(rt->o.cgroup_parent ? rt->o.cgroup_parent : "", id, &p->cgroup);
    bool alive = adopt_living(p);
    outcome_running(&rt->o.dirs, id, ret);
    p->started_told = ret->started_ms != 0;
    p->health = ret->health;
    ret->pid = p->init_pid;
    if (alive)
        return true;
    if (stray && attempt_exit_read(&rt->o.dirs, id, &(struct exit_record){0}, NULL) < 0) {
        p->stray = true; // swept once the list is told
        return true;
    }
    bool known = outcome_ended(&rt->o.dirs, id, ret) == 0;
    if (!known && attempt_started_read(&rt->o.dirs, id, &pid, &ms) == 0) {
        outcome_failed(&rt->o.dirs, id, CAUSE_UNKNOWN,
                       "it ended while no agent was there, and its supervisor was killed", ret);
        known = true;
    }
    if (!known) {
        proc_free(p);
        return false;
    }
    if (cgroup_had_oom(&p->cgroup))
        outcome_mark_oom(ret);
    cgroup_remove(&p->cgroup);
    out_watch_remove(rt->out, id);
    p->ended = true;
    return true;
}

static void list_all(void *userdata)
{
    struct process_runtime *rt = userdata;
    cleanup_free char(*ids)[ATTEMPT_ID_BYTES] = NULL;
    cleanup_free struct proc_owner *owners = NULL;
    size_t n = 0, n_owners = 0, found = 0;
    struct proc *p, *next;
    struct err e;
    int r = attempt_claims_list(&rt->o.dirs, &ids, &n, &e);
    if (r == 0 && n > 0)
        r = proc_owners(&owners, &n_owners) < 0 ? err_set(&e, -EIO, "cannot look through /proc")
                                                : 0;
    struct runtime_attempt *items = r < 0 ? NULL : calloc(n + 1, sizeof(*items));
    if (!items) {
        outbox_engine(rt->outbox, false, r < 0 ? e.text : "out of memory", NULL);
        return;
    }
    for (size_t i = 0; i < n; i++)
        if (list_one(rt, ids[i], proc_owners_have(owners, n_owners, ids[i]), &items[found].status))
            found++;
    outbox_listed(rt->outbox, items, found);
    HASH_ITER (hh, rt->procs, p, next) {
        if (p->stray)
            sweep_it(p);
    }
}

// --- the rest of the table ---------------------------------------------------------------------

static json_t *process_usage(struct runtime *r)
{
    struct process_runtime *rt = self(r);
    struct proc *p, *next;
    json_t *all = json_object();
    HASH_ITER (hh, rt->procs, p, next) {
        int64_t cpu_ms = 0, memory = 0;
        if (p->ended || p->init_pid <= 0)
            continue;
        if (!cgroup_usage(&p->cgroup, &cpu_ms, &memory))
            proc_tree_usage(p->init_pid, &cpu_ms, &memory);
        json_t *one =
            json_pack("{s:I, s:I}", "cpu_ms", (json_int_t)cpu_ms, "memory", (json_int_t)memory);
        (void)json_object_set_new(all, p->id, one);
    }
    return all;
}

static void on_outbox_closed(void *userdata)
{
    struct process_runtime *rt = userdata;
    if (rt->closed)
        rt->closed(rt->closed_userdata);
    free(rt);
}

static void process_close(struct runtime *r, void (*closed)(void *userdata), void *userdata)
{
    struct process_runtime *rt = self(r);
    struct proc *p, *next;
    rt->closed = closed;
    rt->closed_userdata = userdata;
    HASH_ITER (hh, rt->procs, p, next)
        proc_free(p);
    transient_close(rt->transient);
    rt->transient = NULL;
    out_watch_close(rt->out);
    outbox_close(rt->outbox, on_outbox_closed, rt);
}

static const struct runtime_ops process_ops = {
    .name = "process",
    .start = process_start,
    .adopt = process_adopt,
    .stop = process_stop,
    .remove = process_remove,
    .usage = process_usage,
    .close = process_close,
};

int runtime_process_new(const struct runtime_options *o, struct runtime **ret, struct err *e)
{
    struct process_runtime *rt = calloc(1, sizeof(*rt));
    if (!rt)
        return err_set(e, -ENOMEM, "out of memory");
    rt->base.ops = &process_ops;
    rt->o = *o;
    int r = outbox_new(&rt->o, &rt->outbox, e);
    if (r < 0) {
        free(rt);
        return r;
    }
    r = out_watch_new(o->loop, &rt->o.dirs, on_record, rt, &rt->out, e);
    if (r < 0) {
        outbox_close(rt->outbox, on_outbox_closed, rt);
        return r;
    }
    if (o->units && transient_new(o->loop, &rt->transient) < 0)
        log_error("process", "out of memory: attempts start as processes of the agent");
    outbox_engine(rt->outbox, true, NULL, json_pack("{s:s}", "name", "process"));
    outbox_call(rt->outbox, list_all, rt);
    *ret = &rt->base;
    return 0;
}
