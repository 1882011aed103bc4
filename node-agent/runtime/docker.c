// SPDX-License-Identifier: Apache-2.0
// The Docker runtime (and Podman's compatible API): the driver's table of functions. Its parts:
// docker_engine.c (connection, events, listing), docker_task.c (an attempt's life), docker_start.c
// and docker_pull.c (from spec to container), docker_api.c and docker_body.c (what the API reads
// and says), docker_call.c (requests).
#include "node-agent/runtime/docker_internal.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "node-agent/runtime/cgroup.h"
#include "node-agent/task_env.h"

#include <inttypes.h>
#include <string.h>

#define RETRY_MIN_MS 200
#define RETRY_MAX_MS 5000

static struct docker *self(struct runtime *r)
{
    return container_of(r, struct docker, base);
}

static void on_record(const char *id, void *userdata)
{
    struct docker_task *t = docker_task_find(userdata, id);
    if (t)
        docker_task_records(t);
}

// --- start
// ---------------------------------------------------------------------------------------------

static struct docker_task *task_from_spec(struct docker *d, const struct attempt_spec *spec)
{
    struct docker_task *t = docker_task_new(d, spec->id);
    if (!t)
        return NULL;
    t->name = task_container_name(spec);
    t->image = spec->image ? strdup(spec->image) : NULL;
    t->body = docker_create_body(&d->o, spec);
    t->has_command = spec->command && spec->command[0];
    if (t->name && t->body && (t->image || !spec->image))
        return t;
    HASH_DEL(d->tasks, t);
    docker_task_free(t);
    return NULL;
}

// Says again what is known of an attempt.
static void repeat(struct docker_task *t)
{
    t->started_told = false;
    t->recorded = false;
    if (t->phase == DOCKER_ENDED)
        t->phase = DOCKER_EXITED;
    if (t->phase == DOCKER_CREATED && t->container[0])
        docker_task_fail(t, CAUSE_NEVER_STARTED,
                         "its container was made but not started by an earlier agent");
    else if (t->phase >= DOCKER_RUNNING)
        docker_task_records(t);
    if (t->phase == DOCKER_EXITED)
        docker_task_exited(t);
}

static void docker_start(struct runtime *r, const struct attempt_spec *spec)
{
    struct docker *d = self(r);
    struct docker_task *t = docker_task_find(d, spec->id);
    struct attempt_status status;
    if (t && t->phase != DOCKER_NEW) {
        repeat(t);
        return;
    }
    if (t)
        return; // being removed
    t = task_from_spec(d, spec);
    if (!t) {
        outcome_failed(&d->o.dirs, spec->id, CAUSE_ENGINE, "the agent is out of memory", &status);
        outbox_ended(d->outbox, &status);
    } else if (outcome_ended(&d->o.dirs, spec->id, &status) == 0) {
        docker_task_end(t, &status);
    } else if (!t->image) {
        docker_task_fail(t, CAUSE_START_FAILED, "no image: this node runs containers");
    } else if (!d->ok) {
        docker_task_fail(t, CAUSE_ENGINE, "the container engine is not usable");
    } else {
        docker_start_begin(t);
    }
}

static void docker_adopt(struct runtime *r, const char *id)
{
    struct docker *d = self(r);
    struct docker_task *t = docker_task_find(d, id);
    struct err e;
    if (!t)
        t = docker_task_new(d, id);
    if (!t || t->phase >= DOCKER_RUNNING)
        return;
    t->phase = DOCKER_RUNNING;
    if (out_watch_add(d->out, id, &e) < 0)
        log_error("docker", "%s", e.text);
    docker_task_records(t);
    if (t->phase == DOCKER_RUNNING && t->container[0])
        docker_task_exited(t); // or not: the engine is asked
}

// --- stop, remove
// ----------------------------------------------------------------------------------------

static void docker_stop(struct runtime *r, const char *id, int64_t grace_ms)
{
    struct docker *d = self(r);
    struct docker_task *t = docker_task_find(d, id);
    if (!t || t->phase >= DOCKER_ENDED)
        return;
    t->stopping = true;
    outcome_write_stop(&d->o.dirs, id, grace_ms);
    if (t->pull)
        docker_pull_cancel(t);
    else if (t->phase >= DOCKER_STARTING)
        docker_task_signal(t);
}

static void docker_remove(struct runtime *r, const char *id)
{
    struct docker *d = self(r);
    struct docker_task *t = docker_task_find(d, id);
    if (!t && !d->listed)
        t = docker_task_new(d, id); // the listing will show whether there is something to remove
    if (!t) {
        outbox_removed(d->outbox, id);
        return;
    }
    t->removing = true;
    if (t->phase == DOCKER_NEW)
        return;
    if (t->phase < DOCKER_ENDED && t->phase != DOCKER_CREATED) {
        docker_stop(r, id, 0); // its end removes it
    } else if ((t->container[0] || t->name) && !t->deleting) {
        docker_task_delete(t); // by name when its creation was never answered
    } else if (!t->deleting) {
        outbox_removed(d->outbox, id);
        docker_task_drop(t);
    }
}

// --- the rest
// --------------------------------------------------------------------------------------------

static json_t *docker_usage(struct runtime *r)
{
    struct docker *d = self(r);
    struct docker_task *t, *next;
    json_t *all = json_object();
    docker_gc_look(d); // the disk is sampled now, too
    HASH_ITER (hh, d->tasks, t, next) {
        int64_t cpu_ms, memory;
        struct cgroup_leaf leaf;
        if (t->phase != DOCKER_RUNNING || !t->container[0])
            continue;
        cgroup_find_container(d->o.cgroup_parent ? d->o.cgroup_parent : "", t->container, &leaf);
        if (!cgroup_usage(&leaf, &cpu_ms, &memory))
            continue;
        json_t *one =
            json_pack("{s:I, s:I}", "cpu_ms", (json_int_t)cpu_ms, "memory", (json_int_t)memory);
        (void)json_object_set_new(all, t->id, one);
    }
    return all;
}

static void on_part_closed(void *userdata)
{
    struct docker *d = userdata;
    if (--d->waits > 0)
        return;
    strbuf_reset(&d->line);
    strbuf_reset(&d->image_line);
    image_table_free(&d->images);
    free(d->gc_name);
    if (d->closed)
        d->closed(d->closed_userdata);
    free(d);
}

static void on_timer_closed(uv_handle_t *h)
{
    on_part_closed(h->data);
}

static void docker_close(struct runtime *r, void (*closed)(void *userdata), void *userdata)
{
    struct docker *d = self(r);
    struct docker_task *t, *next;
    d->closing = true;
    d->closed = closed;
    d->closed_userdata = userdata;
    d->waits = 4;
    http_client_close(d->http, on_part_closed, d); // breaks all calls off first
    HASH_ITER (hh, d->tasks, t, next) {
        HASH_DEL(d->tasks, t);
        docker_task_free(t);
    }
    out_watch_close(d->out);
    outbox_close(d->outbox, on_part_closed, d);
    uv_close((uv_handle_t *)&d->retry, on_timer_closed);
    uv_close((uv_handle_t *)&d->doubt, on_timer_closed);
}

static const struct runtime_ops docker_ops = {
    .name = "docker",
    .start = docker_start,
    .adopt = docker_adopt,
    .stop = docker_stop,
    .remove = docker_remove,
    .usage = docker_usage,
    .close = docker_close,
};

static void connect_first(void *userdata)
{
    docker_engine_connect(userdata);
}

static int make_parts(struct docker *d, struct err *e)
{
    struct http_client_options http = {.loop = d->o.loop,
                                       .base_url = "http://engine",
                                       .unix_socket = d->o.docker_socket,
                                       .connect_timeout_ms = 5000};
    int r = outbox_new(&d->o, &d->outbox, e);
    if (r < 0)
        return r;
    r = out_watch_new(d->o.loop, &d->o.dirs, on_record, d, &d->out, e);
    if (r == 0)
        r = http_client_new(&http, &d->http, e);
    if (r == 0)
        return 0;
    if (d->out)
        out_watch_close(d->out);
    outbox_close(d->outbox, NULL, NULL);
    return r;
}

int runtime_docker_new(const struct runtime_options *o, struct runtime **ret, struct err *e)
{
    struct docker *d = calloc(1, sizeof(*d));
    if (!d)
        return err_set(e, -ENOMEM, "out of memory");
    d->base.ops = &docker_ops;
    d->o = *o;
    backoff_init(&d->backoff, RETRY_MIN_MS, RETRY_MAX_MS);
    int r = image_table_init(&d->images, o->dirs.state, e);
    if (r == 0)
        r = make_parts(d, e);
    if (r < 0) {
        image_table_free(&d->images);
        free(d);
        return r;
    }
    (void)uv_timer_init(o->loop, &d->retry);
    (void)uv_timer_init(o->loop, &d->doubt);
    d->retry.data = d->doubt.data = d;
    outbox_call(d->outbox, connect_first, d);
    *ret = &d->base;
    return 0;
}
