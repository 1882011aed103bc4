// SPDX-License-Identifier: Apache-2.0
// From spec to running container: image (only when it is missing, or when its own command is
// needed), create, start. A request to stop in between is honoured at the next step; a create that
// is under way is waited for, so that its container can be removed.
#include "node-agent/runtime/docker_internal.h"

#include "common/cleanup.h"
#include "common/json.h"

#include <string.h>

static void start_container(struct docker_task *t);

// Cancelled: whatever exists of it goes away. True when it was.
static bool stopped(struct docker_task *t)
{
    if (!t->stopping || t->phase >= DOCKER_STARTING)
        return t->phase >= DOCKER_ENDED;
    bool exists = t->phase >= DOCKER_CREATED && t->container[0];
    docker_task_fail(t, CAUSE_STOPPED, "stopped before it was started");
    if (exists)
        docker_task_delete(t);
    return true;
}

// A step failed. 5xx and no answer are the engine's, the rest is the job's; the leftover container
// is removed.
static void step_failed(struct docker_task *t, const char *step, const struct http_result *r)
{
    char text[256], reason[400];
    docker_result_text(r, text, sizeof(text));
    (void)snprintf(reason, sizeof(reason), "%s: %s", step, text);
    docker_task_fail(t, r->error < 0 || r->status >= 500 ? CAUSE_ENGINE : CAUSE_START_FAILED,
                     reason);
    docker_task_delete(t);
    if (r->error < 0)
        docker_engine_lost(t->d, text);
}

// --- start
// ---------------------------------------------------------------------------------------------

static void on_start(struct docker_task *t, const struct http_result *r)
{
    docker_task_records(t); // the record can be here before the engine's answer
    if (t->phase >= DOCKER_ENDED || t->recorded)
        return;
    if (r->error == 0 && r->status >= 300 && r->status != 304) {
        step_failed(t, "start", r);
        return;
    }
    if (r->error < 0) // whether it runs is seen when the engine is back
        docker_engine_lost(t->d, r->err.text);
    if (t->phase == DOCKER_STARTING)
        t->phase = DOCKER_RUNNING;
    if (t->stopping)
        docker_task_signal(t);
}

static void start_container(struct docker_task *t)
{
    struct err e;
    t->phase = DOCKER_CREATED;
    if (stopped(t))
        return;
    if (out_watch_add(t->d->out, t->id, &e) < 0) {
        docker_task_fail(t, CAUSE_ENGINE, e.text);
        docker_task_delete(t);
        return;
    }
    t->phase = DOCKER_STARTING;
    docker_task_phase(t, "starting");
    docker_request(t, "POST", docker_path("/containers/%s/start", t->container), NULL, on_start);
}

// --- create
// ------------------------------------------------------------------------------------------

// A container of this name exists: ours from before, or somebody else's.
static void on_existing(struct docker_task *t, const struct http_result *r)
{
    cleanup_json json_t *j =
        r->error == 0 && r->status == 200 ? json_loadb(r->body, r->len, 0, NULL) : NULL;
    const char *id =
        docker_own_attempt(&t->d->o, json_object_get(json_object_get(j, "Config"), "Labels"));
    const char *status = json_opt_str(json_object_get(j, "State"), "Status", "");
    if (!j) {
        step_failed(t, "look at the existing container", r);
        return;
    }
    if (!id || strcmp(id, t->id) != 0) {
        docker_task_fail(t, CAUSE_ENGINE,
                         "a container of this name exists that is not this attempt's");
        return;
    }
    (void)snprintf(t->container, sizeof(t->container), "%s", json_opt_str(j, "Id", t->name));
    if (strcmp(status, "created") == 0) {
        start_container(t);
        return;
    }
    t->phase = DOCKER_RUNNING;
    docker_task_records(t);
    if (strcmp(status, "running") != 0 && strcmp(status, "paused") != 0)
        docker_task_exited(t);
}

static bool is_conflict(const struct http_result *r) // podman: 500 and a text
{
    return r->status == 409 || (r->status == 500 && strstr(r->body, "already in use"));
}

static void on_create(struct docker_task *t, const struct http_result *r)
{
    if (t->phase >= DOCKER_ENDED)
        return;
    if (r->error == 0 && r->status == 201) {
        cleanup_json json_t *j = json_loadb(r->body, r->len, 0, NULL);
        (void)snprintf(t->container, sizeof(t->container), "%s", json_opt_str(j, "Id", t->name));
        start_container(t);
    } else if (r->error == 0 && r->status == 404 && !t->pulled && strstr(r->body, "mage")) {
        docker_pull_start(t);
    } else if (r->error == 0 && is_conflict(r)) {
        docker_request(t, "GET", docker_path("/containers/%s/json", t->name), NULL, on_existing);
    } else {
        step_failed(t, "create container", r);
    }
}

static void create(struct docker_task *t)
{
    cleanup_free char *name = docker_encode(t->name);
    if (stopped(t))
        return;
    t->phase = DOCKER_CREATING;
    docker_task_phase(t, "creating container");
    docker_request(t, "POST", name ? docker_path("/containers/create?name=%s", name) : NULL,
                   t->body, on_create);
}

// --- image
// ---------------------------------------------------------------------------------------------

static void on_image(struct docker_task *t, const struct http_result *r)
{
    char text[256];
    if (stopped(t))
        return;
    if (r->error == 0 && r->status == 404 && !t->pulled) {
        docker_pull_start(t);
        return;
    }
    if (r->error < 0 || r->status != 200) {
        step_failed(t, "look at the image", r);
        return;
    }
    cleanup_json json_t *image = json_loadb(r->body, r->len, 0, NULL);
    cleanup_json json_t *command = docker_image_command(image);
    if (!command) {
        (void)snprintf(text, sizeof(text), "neither the job nor image %.150s names a command",
                       t->image);
        docker_task_fail(t, CAUSE_START_FAILED, text);
        return;
    }
    docker_set_command(t->body, command);
    t->has_command = true;
    create(t);
}

void docker_start_create(struct docker_task *t)
{
    if (t->has_command) {
        create(t);
        return;
    }
    t->phase = DOCKER_IMAGE;
    // The reference stands in the path as it is: engines take its slashes there.
    docker_request(t, "GET", docker_path("/images/%s/json", t->image), NULL, on_image);
}

void docker_start_begin(struct docker_task *t)
{
    image_table_used(&t->d->images, t->image);
    docker_start_create(t);
}
