// SPDX-License-Identifier: Apache-2.0
// Syncs and reports. Every message carries all changes that are not acknowledged, so a lost message
// needs no repair of its own: the next one says the same. Reports are one at a time, which batches
// what happens meanwhile.
#include "node-agent/sync.h"
#include "node-agent/state_file.h"
#include "node-agent/post.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "proto/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_INTERVAL_MS 2000
#define ANSWER_SLACK_MS 10000
#define REPORT_TIMEOUT_MS 15000
#define USAGE_EVERY_MS 1000
#define SEEN_EVERY_MS 30000 // the file is a help after a restart, not a promise: seldom is enough

struct message {       // one under way
    struct sync *sync; // NULL once the owner is gone
    bool is_sync;
    bool with_inventory, with_node, with_images;
    int64_t sent_boot_ms;
};

struct sync {
    struct sync_options options;
    int64_t seq;
    int64_t seen_epoch, seen_commit;
    int64_t seen_written_ms;
    int64_t usage_ms; // when it was sampled last
    bool seen_dirty;
    struct sync_position applied;
    int64_t interval_ms;
    int64_t last_answer_ms;
    int64_t carried; // changes up to here have been in some message
    bool want_sync, want_inventory, want_node, want_images;
    bool tell_history; // until this instance was answered, and after each failure
    bool report_rests; // the last report failed: the next sync's answer comes first
    struct message *sync_call, *report_call;
};

// --- what was seen -------------------------------------------------------------------------------

static void seen_path(const struct sync *s, char out[160])
{
    (void)snprintf(out, 160, "%s/seen.json", s->options.state_dir);
}

static void seen_load(struct sync *s)
{
    char path[160];
    cleanup_json json_t *j = NULL;
    struct err e;

    seen_path(s, path);
    if (state_file_read(path, 4096, &j, &e) < 0)
        log_warn("sync", "%s", e.text);
    // What was seen of another cluster says nothing about this one.
    const char *cluster = s->options.cluster_id ? s->options.cluster_id : "";
    if (strcmp(json_opt_str(j, "cluster", cluster), cluster) != 0)
        return;
    s->seen_epoch = json_opt_i64(j, "epoch", 0);
    s->seen_commit = json_opt_i64(j, "commit", 0);
}

static void seen_store(struct sync *s)
{
    char path[160];
    struct err e;
    cleanup_json json_t *j = json_object();

    json_put_str(j, "cluster", s->options.cluster_id);
    json_put_i64(j, "epoch", s->seen_epoch);
    json_put_i64(j, "commit", s->seen_commit);
    cleanup_free char *text = json_text(j);
    seen_path(s, path);
    s->seen_dirty = false;
    s->seen_written_ms = clock_mono_ms();
    if (text && atomic_file_write(path, text, strlen(text), 0600, &e) < 0)
        log_warn("sync", "%s", e.text);
}

static void seen_update(struct sync *s, const struct sync_answer *a)
{
    bool new_epoch = a->epoch > s->seen_epoch;

    if (!new_epoch && (a->epoch < s->seen_epoch || a->commit <= s->seen_commit))
        return;
    s->seen_epoch = a->epoch;
    s->seen_commit = a->commit;
    s->seen_dirty = true;
    if (new_epoch || clock_mono_ms() - s->seen_written_ms > SEEN_EVERY_MS)
        seen_store(s);
}

// --- building ------------------------------------------------------------------------------------

// Sampling reads a dozen files: while changes make message follow message, once in a while is
// enough.
static json_t *usage_due(struct sync *s, bool is_sync)
{
    int64_t now = clock_mono_ms();

    if (!is_sync || (s->usage_ms && now - s->usage_ms < USAGE_EVERY_MS))
        return NULL;
    s->usage_ms = now;
    return s->options.usage(s->options.userdata);
}

static int put_history(const struct sync *s, struct sync_request *q)
{
    const struct instances *x = s->options.instances;
    if (!x || x->n == 0)
        return 0;
    q->history = malloc(x->n * sizeof(*q->history));
    if (!q->history)
        return -ENOMEM;
    memcpy(q->history, x->items, x->n * sizeof(*q->history));
    q->n_history = x->n;
    return 0;
}

static int put_holds(const struct sync *s, struct sync_request *q)
{
    q->holds = calloc(q->n_statuses + 1, sizeof(*q->holds));
    for (size_t i = 0; q->holds && i < q->n_statuses; i++)
        attempt_holds_of(tasks_find(s->options.tasks, q->statuses[i].id)->spec, &q->holds[i]);
    return q->holds ? 0 : -ENOMEM;
}

static int build(struct sync *s, bool is_sync, struct sync_request *q)
{
    bool complete = s->options.inventory_complete(s->options.userdata);

    memset(q, 0, sizeof(*q));
    q->protocol = MEADOW_PROTOCOL;
    (void)snprintf(q->agent_version, sizeof(q->agent_version), "%s", MEADOW_VERSION);
    (void)snprintf(q->instance, sizeof(q->instance), "%s", s->options.instance);
    (void)snprintf(q->boot_id, sizeof(q->boot_id), "%s", s->options.boot_id);
    q->seq = ++s->seq;
    q->seen_epoch = s->seen_epoch;
    q->seen_commit = s->seen_commit;
    q->applied = s->applied;
    inventory_digest(tasks_digest(s->options.tasks), q->digest);
    q->has_inventory = s->want_inventory;
    q->inventory_complete = complete;
    if (tasks_collect(s->options.tasks, s->want_inventory, &q->statuses, &q->n_statuses) < 0 ||
        (s->want_inventory && put_holds(s, q) < 0))
        return -ENOMEM;
    if (s->want_node)
        q->node = s->options.node(s->options.userdata);
    if (s->want_images)
        q->images = json_incref(s->options.images(s->options.userdata));
    q->usage = usage_due(s, is_sync);
    q->clock_ms = clock_real_ms() + clock_step_ms(); // the machine's
    return s->tell_history ? put_history(s, q) : 0;
}

// --- answers -------------------------------------------------------------------------------------

static int read_answer(int error, int status, const json_t *body, const struct err *http_err,
                       struct sync_answer *a, char *why, size_t size)
{
    struct err e;

    memset(a, 0, sizeof(*a));
    if (error < 0) {
        (void)snprintf(why, size, "%s", http_err->text);
        return error == -EACCES ? -EIO : error;
    }
    if (status != 200) {
        (void)post_problem(status, body, why, size);
        const char *code = json_opt_str(body, "code", "");
        if (status == 401 && strcmp(code, "node_removed") == 0)
            return -ESHUTDOWN;
        if (status == 401 && strcmp(code, "certificate_expired") == 0)
            return -EKEYEXPIRED;
        return status == 409 || status == 401 || status == 403 ? -EACCES : -EIO;
    }
    int r = body ? protocol_check(json_opt_i64(body, "protocol", 0), "master", &e)
                 : err_set(&e, -EPROTO, "the answer is no JSON");
    if (r == 0)
        r = sync_answer_from_json(body, a, &e);
    if (r < 0) {
        (void)snprintf(why, size, "%s", e.text);
        sync_answer_reset(a);
        return r;
    }
    if (!a->refused[0])
        return 0;
    (void)snprintf(why, size, "%s", a->refused);
    sync_answer_reset(a);
    return -EACCES;
}

static void take_common(struct sync *s, const struct sync_answer *a)
{
    seen_update(s, a);
    tasks_ack(s->options.tasks, a->acked);
    s->want_inventory |= a->want_inventory;
    s->want_node |= a->want_node;
    s->want_images |= a->want_node; // a master that knows nothing of us knows none of them either
}

static void sync_answered(struct sync *s, const struct message *m, struct sync_answer *a)
{
    s->last_answer_ms = clock_mono_ms();
    s->report_rests = false;
    s->tell_history = false;
    if (a->sync_interval_ms > 0)
        s->interval_ms = a->sync_interval_ms;
    s->options.answered(a, m->sent_boot_ms, s->options.userdata);
}

static void message_done(int error, int status, const json_t *body, const struct err *http_err,
                         void *userdata)
{
    struct message *m = userdata;
    struct sync *s = m->sync;
    struct sync_answer a;
    char why[sizeof(struct err)] = "";

    if (!s) {
        free(m);
        return;
    }
    if (m->is_sync)
        s->sync_call = NULL;
    else
        s->report_call = NULL;
    int r = read_answer(error, status, body, http_err, &a, why, sizeof(why));
    if (r == 0) {
        take_common(s, &a);
        if (m->is_sync)
            sync_answered(s, m, &a);
        sync_answer_reset(&a);
    } else {
        s->want_inventory |= m->with_inventory; // again with the next message
        s->want_node |= m->with_node;
        s->want_images |= m->with_images;
        s->report_rests |= !m->is_sync;
        s->tell_history = true;
        log_debug("sync", "%s: %s", m->is_sync ? "sync" : "report", why);
    }
    bool was_sync = m->is_sync;
    free(m);
    if (was_sync)
        s->options.ended(r, why, s->options.userdata);
    else
        sync_flush(s);
}

// --- sending -------------------------------------------------------------------------------------

static int send_message(struct sync *s, bool is_sync, struct err *e)
{
    struct sync_request q;
    cleanup_free struct message *m = calloc(1, sizeof(*m));
    int r = m ? build(s, is_sync, &q) : -ENOMEM;

    if (r < 0 && m)
        sync_request_reset(&q);
    if (r < 0)
        return err_set(e, r, "out of memory");
    m->sync = s;
    m->is_sync = is_sync;
    m->with_inventory = q.has_inventory;
    m->with_node = q.node != NULL;
    m->with_images = s->want_images;
    m->sent_boot_ms = clock_boot_ms();
    cleanup_json json_t *body = sync_request_to_json(&q);
    sync_request_reset(&q);
    unsigned slack = s->options.answer_slack_ms ? s->options.answer_slack_ms : ANSWER_SLACK_MS;
    unsigned timeout = is_sync ? (unsigned)s->interval_ms + slack : REPORT_TIMEOUT_MS;
    r = post_json(s->options.client, is_sync ? "/v1/agent/sync" : "/v1/agent/report", body, timeout,
                  message_done, m, e);
    if (r < 0)
        return r;
    s->carried = tasks_last_change(s->options.tasks);
    s->want_inventory &= !m->with_inventory;
    s->want_node &= !m->with_node;
    s->want_images &= !m->with_images;
    if (is_sync)
        s->sync_call = TAKE_PTR(m);
    else
        s->report_call = TAKE_PTR(m);
    return 0;
}

static bool news(const struct sync *s)
{
    return tasks_last_change(s->options.tasks) > s->carried || s->want_inventory || s->want_node ||
           s->want_images;
}

void sync_flush(struct sync *s)
{
    struct err e;

    if (s->want_sync && !s->sync_call) {
        s->want_sync = false;
        int r = send_message(s, true, &e);
        if (r < 0)
            s->options.ended(r, e.text, s->options.userdata);
        return;
    }
    // A report makes sense only while a sync is held: else the next sync carries it.
    if (!s->sync_call || s->report_call || s->report_rests || !news(s))
        return;
    if (send_message(s, false, &e) < 0) {
        log_warn("sync", "report: %s", e.text);
        s->report_rests = true;
    }
}

// --- the rest ------------------------------------------------------------------------------------

int sync_new(const struct sync_options *options, struct sync **ret)
{
    struct sync *s = calloc(1, sizeof(*s));

    if (!s)
        return -ENOMEM;
    s->options = *options;
    s->interval_ms = FIRST_INTERVAL_MS;
    s->want_inventory = true;
    s->want_node = true;
    s->tell_history = true;
    seen_load(s);
    *ret = s;
    return 0;
}

void sync_want(struct sync *s)
{
    s->want_sync = true;
}

void sync_want_inventory(struct sync *s)
{
    s->want_inventory = true;
}

void sync_want_node(struct sync *s)
{
    s->want_node = true;
}

void sync_want_images(struct sync *s)
{
    s->want_images = true;
}

struct sync_position *sync_applied_mut(struct sync *s)
{
    return &s->applied;
}

int64_t sync_interval_ms(const struct sync *s)
{
    return s->interval_ms;
}

int64_t sync_last_answer_ms(const struct sync *s)
{
    return s->last_answer_ms;
}

void sync_free(struct sync *s)
{
    if (!s)
        return;
    if (s->sync_call)
        s->sync_call->sync = NULL;
    if (s->report_call)
        s->report_call->sync = NULL;
    if (s->seen_dirty)
        seen_store(s);
    free(s);
}
