// SPDX-License-Identifier: Apache-2.0
// The store's life: server (redis_server) -> connection (redis_conn) -> setup (store_setup) -> load
// (store_load) -> ready, then batches (store_apply) and reads (store_read). When server or
// connection is lost, the same way is gone again without taking the epoch and without loading; what
// had no answer is sent again at its end.
#include "master/store/store_internal.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/log.h"

#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void set_reason(struct store *s, const char *text)
{
    (void)snprintf(s->reason, sizeof(s->reason), "%s", text);
}

bool store_is_busy(const struct redisReply *reply)
{
    static const char *const codes[] = {"LOADING",  "BUSY",       "MISCONF",     "OOM",
                                        "READONLY", "MASTERDOWN", "CLUSTERDOWN", "NOAUTH",
                                        "NOPERM",   "NOREPLICAS"};
    for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
        if (reply_is_error(reply, codes[i]))
            return true;
    return false;
}

void store_fail(struct store *s, int error, const char *reason)
{
    struct err e;
    enum store_phase before = s->phase;
    if (before != STORE_STARTING && before != STORE_RUNNING)
        return;
    s->phase = STORE_FAILED;
    s->usable = s->ok = false;
    set_reason(s, reason);
    (void)err_set(&e, error, "%s", reason);
    redis_conn_stop(s->conn);
    if (before == STORE_STARTING)
        s->options.ready(error, &e, s->options.userdata);
    else
        s->options.lost(s->reason, s->options.userdata);
}

void store_unsafe(struct store *s, int error, const char *reason)
{
    if (s->phase == STORE_STARTING)
        store_fail(s, error, reason);
    else
        redis_conn_drop(s->conn, reason);
}

// --- up ---

void store_healthy(struct store *s)
{
    if (s->ok)
        return;
    s->ok = true;
    set_reason(s, "");
    s->options.health(true, NULL, s->options.userdata);
}

// The phase is looked at after each step: any callback may have closed the store. A batch that
// waits is the proof that changes are taken; without one nothing speaks against it.
static void become_usable(struct store *s)
{
    s->usable = true;
    store_send_batch(s);
    if (s->phase == STORE_RUNNING)
        store_send_reads(s);
    if (s->phase == STORE_RUNNING && s->usable && !s->batch_done)
        store_healthy(s);
}

void store_loaded(struct store *s)
{
    if (s->phase != STORE_STARTING)
        return;
    loader_free(TAKE_PTR(s->loader));
    s->phase = STORE_RUNNING;
    s->ok = true;
    set_reason(s, "");
    become_usable(s);
    s->options.ready(0, NULL, s->options.userdata);
}

void store_set_up(struct store *s)
{
    if (s->phase == STORE_STARTING) {
        if (store_load(s) < 0)
            redis_conn_drop(s->conn, "loading: out of memory");
        return;
    }
    if (s->phase == STORE_RUNNING)
        become_usable(s);
}

static void on_up(void *userdata)
{
    struct store *s = userdata;
    if (s->phase == STORE_FAILED || s->phase == STORE_CLOSING)
        return;
    redis_server_loaded(s->server);
    store_setup(s);
}

// --- down ---

static void on_down(const char *reason, void *userdata)
{
    struct store *s = userdata;
    bool was = s->ok;
    s->usable = s->ok = false;
    if (s->phase != STORE_STARTING && s->phase != STORE_RUNNING)
        return;
    set_reason(s, reason);
    if (s->phase == STORE_RUNNING && was)
        s->options.health(false, s->reason, s->options.userdata);
}

// A child that is not there yet is no news: its supervisor tells why.
static void on_failed(const char *reason, bool refused, void *userdata)
{
    struct store *s = userdata;
    char text[300];
    if (!s->external || (s->phase != STORE_STARTING && s->phase != STORE_RUNNING))
        return;
    (void)snprintf(text, sizeof(text), "%s%s: %s", s->name, refused ? " refuses us" : "", reason);
    if (strcmp(text, s->reason) != 0)
        log_warn("store", "%s; tried again", text);
    set_reason(s, text);
    if (refused && s->phase == STORE_STARTING)
        store_fail(s, -EACCES, text);
}

static void on_server_started(void *userdata)
{
    struct store *s = userdata;
    if (s->phase == STORE_STARTING || s->phase == STORE_RUNNING)
        redis_conn_start(s->conn);
}

static void on_server_ended(const char *reason, void *userdata)
{
    struct store *s = userdata;
    log_at(s->trouble ? LOG_LEVEL_DEBUG : LOG_LEVEL_WARN, "store", "%s; it is started again",
           reason);
    s->trouble = true;
    redis_conn_stop(s->conn);
    if (s->phase == STORE_STARTING || s->phase == STORE_RUNNING)
        set_reason(s, reason);
}

static void on_server_failed(int error, const struct err *e, void *userdata)
{
    struct store *s = userdata;
    if (s->phase == STORE_STARTING)
        store_fail(s, error, e->text);
    else if (s->phase == STORE_RUNNING)
        log_error("store", "%s", e->text); // a person may mend it meanwhile: restarts go on
}

// --- what others ask ---

bool store_ok(const struct store *s, const char **ret_reason)
{
    bool ok = s->phase == STORE_RUNNING && s->ok;
    *ret_reason = ok ? "" : s->reason[0] ? s->reason : redis_conn_reason(s->conn);
    return ok;
}

int64_t store_epoch(const struct store *s)
{
    return s->epoch;
}

int64_t store_commit_number(const struct store *s)
{
    return s->commit;
}

int64_t store_first_commit(const struct store *s)
{
    return s->first_commit;
}

void store_raise_epoch(struct store *s, int64_t epoch)
{
    if (s->phase != STORE_RUNNING || epoch <= s->epoch || epoch <= s->epoch_wanted)
        return;
    s->epoch_wanted = epoch;
    redis_conn_drop(s->conn, "a new epoch is taken"); // the setup of the next connection takes it
}

bool store_is_raising(const struct store *s)
{
    return s->epoch_wanted != 0;
}

pid_t store_server_pid(const struct store *s)
{
    return s->phase == STORE_CLOSING ? 0 : redis_server_pid(s->server);
}

// --- open ---

static void store_free(struct store *s)
{
    loader_free(s->loader);
    batch_args_free(&s->args);
    store_batch_free(&s->batch);
    store_mark_close(s);
    free(s->prefix);
    free(s->meta_key);
    free(s);
}

static int make_names(struct store *s, const char *cluster_id, struct err *e)
{
    if (!cluster_id[0] || strpbrk(cluster_id, "*?[]\\ "))
        return err_set(e, -EINVAL, "\"%s\" can't be a cluster's id", cluster_id);
    if (asprintf(&s->prefix, "meadow:%s:", cluster_id) < 0)
        s->prefix = NULL;
    if (s->prefix && asprintf(&s->meta_key, "%smeta", s->prefix) < 0)
        s->meta_key = NULL;
    return s->meta_key ? 0 : err_set(e, -ENOMEM, "out of memory");
}

static int open_conn(struct store *s, const struct redis_address *address, struct err *e)
{
    const struct redis_conn_options o = {.loop = s->options.loop,
                                         .address = *address,
                                         .timeout_ms = s->options.command_timeout_ms,
                                         .up = on_up,
                                         .down = on_down,
                                         .failed = on_failed,
                                         .userdata = s};
    (void)redis_address_show(address, s->name, sizeof(s->name));
    return redis_conn_new(&o, &s->conn, e);
}

static int open_server(struct store *s, const char *dir, const char *socket, struct err *e)
{
    const struct redis_server_options o = {.loop = s->options.loop,
                                           .dir = dir,
                                           .socket = socket,
                                           .log_path = s->options.log_path,
                                           .pid_path = s->options.pid_path,
                                           .program = s->options.server_path,
                                           .started = on_server_started,
                                           .ended = on_server_ended,
                                           .failed = on_server_failed,
                                           .userdata = s};
    return redis_server_new(&o, &s->server, e);
}

static int open_external(struct store *s, struct err *e)
{
    struct redis_address address;
    int r = redis_address_parse(s->options.redis_url, &address, e);
    if (r < 0)
        return err_wrap(e, r, "redis_url");
    r = open_conn(s, &address, e);
    redis_address_free(&address);
    if (r == 0)
        redis_conn_start(s->conn);
    return r;
}

static int open_own(struct store *s, struct err *e)
{
    cleanup_free char *run = NULL, *socket = NULL, *dir = NULL;
    int r = make_dirs(s->options.run_dir, 0755, e);
    if (r < 0)
        return r;
    run = realpath(s->options.run_dir, NULL);
    if (!run)
        return err_errno(e, -errno, "%s", s->options.run_dir);
    if (asprintf(&socket, "%s/redis.sock", run) < 0)
        socket = NULL;
    if (asprintf(&dir, "%s/redis", s->options.data_dir) < 0)
        dir = NULL;
    if (!socket || !dir)
        return err_set(e, -ENOMEM, "out of memory");
    r = open_conn(s, &(const struct redis_address){.path = socket}, e);
    if (r < 0)
        return r;
    r = open_server(s, dir, socket, e);
    if (r < 0)
        redis_conn_close(s->conn, NULL, NULL);
    return r;
}

int store_open(const struct store_options *o, struct store **ret, struct err *e)
{
    struct store *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(e, -ENOMEM, "out of memory");
    s->options = *o;
    s->phase = STORE_STARTING;
    s->external = o->redis_url != NULL;
    set_reason(s, "starting");
    s->mark = -1;
    int r = make_names(s, o->cluster_id, e);
    if (r == 0)
        r = s->external ? open_external(s, e) : open_own(s, e);
    if (r == 0) // the folder's lock is ours
        store_mark_open(s, o->data_dir);
    if (r < 0) {
        store_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

// --- close ---

static void on_conn_closed(void *userdata)
{
    struct store *s = userdata;
    store_cancel_batch(s);
    store_cancel_reads(s);
    s->closed(s->closed_userdata);
    store_free(s);
}

static void on_rivals_closed(void *userdata)
{
    struct store *s = userdata;
    redis_conn_close(s->conn, on_conn_closed, s);
}

static void on_server_closed(void *userdata)
{
    struct store *s = userdata;
    rivals_close(TAKE_PTR(s->rivals), on_rivals_closed, s);
}

static void on_shutdown(const struct redisReply *reply, void *userdata)
{
    (void)userdata;
    if (reply)
        log_debug("store", "SHUTDOWN: %s", reply_text(reply, NULL));
}

void store_close(struct store *s, void (*closed)(void *userdata), void *userdata)
{
    assert(s->phase != STORE_CLOSING);
    s->phase = STORE_CLOSING;
    s->usable = s->ok = false;
    set_reason(s, "closing");
    s->closed = closed;
    s->closed_userdata = userdata;
    if (s->external) {
        on_server_closed(s);
        return;
    }
    // Redis looks at signals hz times a second: the command makes it end at once, the signal makes
    // sure.
    (void)!redis_conn_call(s->conn, on_shutdown, s, "SHUTDOWN", "NOSAVE", (const char *)NULL);
    redis_server_close(s->server, on_server_closed, s);
}
