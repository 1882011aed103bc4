// SPDX-License-Identifier: Apache-2.0
// An attempt under Docker, from its start to its removal. Its end is known from meadow-init's
// record as soon as that is there (the engine says so a moment later). The engine is asked only
// where the record is not enough: a kill that may have been for memory, or no record at all.
#include "node-agent/runtime/docker_internal.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"

#include <signal.h>
#include <string.h>

#define INIT_FAILED 125

struct docker_task *docker_task_find(struct docker *d, const char *id)
{
    struct docker_task *t;
    HASH_FIND_STR(d->tasks, id, t);
    return t;
}

struct docker_task *docker_task_new(struct docker *d, const char *id)
{
    struct docker_task *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    (void)snprintf(t->id, sizeof(t->id), "%s", id);
    t->d = d;
    HASH_ADD_STR(d->tasks, id, t);
    return t;
}

void docker_task_free(struct docker_task *t)
{
    sweep_cancel(t->sweep);
    free(t->name);
    free(t->image);
    json_decref(t->body);
    free(t);
}

void docker_task_drop(struct docker_task *t)
{
    out_watch_remove(t->d->out, t->id);
    HASH_DEL(t->d->tasks, t);
    image_table_used(&t->d->images, t->image);
    sweep_cancel(t->sweep);
    t->sweep = NULL;
    t->phase = DOCKER_GONE;
    if (t->calls == 0)
        docker_task_free(t);
}

void docker_task_phase(struct docker_task *t, const char *text)
{
    outbox_phase(t->d->outbox, t->id, text);
}

// --- removal
// ---------------------------------------------------------------------------------------

static void on_deleted(struct docker_task *t, const struct http_result *r)
{
    char text[256];
    t->deleting = false;
    // 409: somebody else's removal of it is under way.
    if (r->error == 0 && (r->status < 300 || r->status == 404 || r->status == 409)) {
        t->container[0] = '\0';
        if (!t->removing)
            return; // what a failed start left behind; the attempt itself is still known
        outbox_removed(t->d->outbox, t->id);
        docker_task_drop(t);
        return;
    }
    docker_result_text(r, text, sizeof(text));
    log_warn("docker", "attempt %s: its container cannot be removed now: %s", t->id, text);
    if (r->error < 0)
        docker_engine_lost(t->d, text); // tried again once the engine is back
}

void docker_task_delete(struct docker_task *t)
{
    if (t->deleting || (!t->container[0] && !t->name))
        return;
    t->deleting = true;
    docker_request(
        t, "DELETE",
        docker_path("/containers/%s?force=1&v=1", t->container[0] ? t->container : t->name), NULL,
        on_deleted);
}

// --- the end
// -----------------------------------------------------------------------------------------

void docker_task_explain(const struct docker_task *t, struct attempt_status *status)
{
    if (status->cause != CAUSE_UNKNOWN || !t->left)
        return;
    status->cause = CAUSE_ENGINE;
    (void)snprintf(status->reason, sizeof(status->reason),
                   "the container engine was stopped or restarted, and its container with it");
}

void docker_task_end(struct docker_task *t, struct attempt_status *status)
{
    if (t->phase >= DOCKER_ENDED || docker_doubt(t, status))
        return;
    t->phase = DOCKER_ENDED;
    if (t->oom)
        outcome_mark_oom(status);
    docker_task_explain(t, status);
    (void)snprintf(status->container_id, sizeof(status->container_id), "%s", t->container);
    out_watch_remove(t->d->out, t->id);
    outbox_ended(t->d->outbox, status);
    if (t->removing)
        docker_task_delete(t);
}

void docker_task_fail(struct docker_task *t, enum attempt_cause cause, const char *text)
{
    struct attempt_status status;
    outcome_failed(&t->d->o.dirs, t->id, cause, text, &status);
    docker_task_end(t, &status);
}

bool docker_may_be_oom(const struct attempt_status *s)
{
    return s->exit_code == 128 + SIGKILL && s->cause == CAUSE_EXIT && !s->oom;
}

// Without a record: the cause by what the engine says.
static enum attempt_cause engine_cause(const struct docker_task *t, const json_t *state, int code)
{
    pid_t pid;
    int64_t ms;
    if (t->stopping)
        return CAUSE_STOPPED;
    if (t->oom)
        return CAUSE_OOM;
    if (attempt_started_read(&t->d->o.dirs, t->id, &pid, &ms) == 0)
        return CAUSE_UNKNOWN;
    if (strcmp(json_opt_str(state, "Status", ""), "created") == 0)
        return *json_opt_str(state, "Error", "") ? CAUSE_START_FAILED : CAUSE_ENGINE;
    return code == INIT_FAILED ? CAUSE_ENGINE : CAUSE_UNKNOWN;
}

static void end_by_engine(struct docker_task *t, const json_t *state)
{
    struct attempt_status status;
    int code = (int)json_opt_i64(state, "ExitCode", 0);
    const char *text = json_opt_str(state, "Error", "");
    enum attempt_cause cause = engine_cause(t, state, code);
    if (!*text)
        text = cause == CAUSE_UNKNOWN ? "its supervisor was killed"
               : code == INIT_FAILED ? "meadow-init failed; `docker logs` of the container says why"
               : cause == CAUSE_ENGINE ? "the engine was lost while it was being started"
                                       : "";
    outcome_failed(&t->d->o.dirs, t->id, cause, state ? text : "its container was removed",
                   &status);
    status.has_exit = state && strcmp(json_opt_str(state, "Status", ""), "created") != 0;
    status.exit_code = code;
    status.signal = code > 128 && code < 128 + NSIG ? code - 128 : 0;
    docker_task_end(t, &status);
    if (state && !status.has_exit)
        docker_task_delete(t); // never started: it must not be started late either
}

// What the engine knows of a container that is over; NULL = it has none.
static void end_inspected(struct docker_task *t, const json_t *state)
{
    struct attempt_status status;
    t->vanished = !state;
    if (json_opt_bool(state, "Running", false)) { // the news was old
        t->phase = DOCKER_RUNNING;
        if (t->stopping) // asked for meanwhile
            docker_task_signal(t);
        return;
    }
    if (json_opt_bool(state, "OOMKilled", false))
        t->oom = true;
    if (outcome_ended(&t->d->o.dirs, t->id, &status) == 0)
        docker_task_end(t, &status);
    else
        end_by_engine(t, state);
}

static void on_inspected(struct docker_task *t, const struct http_result *r)
{
    char text[256];
    t->inspecting = false;
    if (t->phase >= DOCKER_ENDED)
        return;
    if (r->error == 0 && r->status == 200) {
        cleanup_json json_t *j = json_loadb(r->body, r->len, 0, NULL);
        end_inspected(t, json_object_get(j, "State"));
        return;
    }
    if (r->error == 0 && r->status == 404) {
        end_inspected(t, NULL);
        return;
    }
    docker_result_text(r, text, sizeof(text));
    docker_engine_lost(t->d, text); // asked again by the listing that follows
}

void docker_task_exited(struct docker_task *t)
{
    if (t->phase >= DOCKER_ENDED || t->inspecting)
        return;
    t->phase = DOCKER_EXITED;
    t->inspecting = true;
    docker_request(t, "GET", docker_path("/containers/%s/json", t->container), NULL, on_inspected);
}

// --- records
// -----------------------------------------------------------------------------------------

static void tell_started(struct docker_task *t)
{
    struct attempt_status status;
    outcome_running(&t->d->o.dirs, t->id, &status);
    if ((t->started_told && t->health == status.health) || status.started_ms == 0)
        return;
    bool first = !t->started_told;
    t->started_told = true;
    t->health = status.health;
    if (t->phase < DOCKER_RUNNING)
        t->phase = DOCKER_RUNNING;
    (void)snprintf(status.container_id, sizeof(status.container_id), "%s", t->container);
    outbox_started(t->d->outbox, &status);
    if (t->stopping && first)
        docker_task_signal(t);
}

void docker_task_records(struct docker_task *t)
{
    struct attempt_status status;
    if (t->phase >= DOCKER_ENDED)
        return;
    tell_started(t);
    if (t->recorded || outcome_ended(&t->d->o.dirs, t->id, &status) < 0)
        return;
    t->recorded = true;
    // Killed and nobody here did it: for memory? The engine knows, once it has seen the end itself.
    if (status.exit_code == 128 + SIGKILL && status.cause == CAUSE_EXIT && !t->oom &&
        t->container[0])
        return;
    // Stopped, and nobody here did it.
    if (status.cause == CAUSE_UNKNOWN && t->d->ok && t->container[0])
        docker_task_exited(t);
    else
        docker_task_end(t, &status);
}

// --- stop
// ----------------------------------------------------------------------------------------------

static void on_signalled(struct docker_task *t, const struct http_result *r)
{
    char text[256];
    if (r->error == 0 && (r->status < 300 || r->status == 404 || r->status == 409))
        return; // not running (yet, or any more): init reads the file, or its end is told anyway
    docker_result_text(r, text, sizeof(text));
    log_warn("docker", "attempt %s: cannot be told to stop: %s", t->id, text);
    if (r->error < 0)
        docker_engine_lost(t->d, text); // told again once the engine is back
}

void docker_task_signal(struct docker_task *t)
{
    if (t->container[0] && t->d->ok && !t->inspecting)
        docker_request(t, "POST", docker_path("/containers/%s/kill?signal=SIGTERM", t->container),
                       NULL, on_signalled);
}
