// SPDX-License-Identifier: Apache-2.0
// One agent: a sync always outstanding, changes meanwhile as reports on a second connection, which
// is given back when it is not needed: all agents share a number of them.
#include "test/sim/swarm/swarm.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/id.h"
#include "common/json.h"
#include "proto/version.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define FIRST_INTERVAL_MS 2000
#define ANSWER_SLACK_MS 10000
#define REPORT_TIMEOUT_MS 15000
#define CONNECT_TIMEOUT_MS 5000
#define RETRY_LEAST_MS 250 // as node-agent/link.c
#define RETRY_MOST_MS 5000
#define REPORT_IDLE_MS 1000 // then its connection is closed
#define SHAKING_MAX 64
#define PORTS_FIRST 20000
#define PORTS_COUNT 1000

// --- what it says ---

static json_t *node_json(const struct agent *a)
{
    const struct swarm_options *o = &a->swarm->o;
    return json_pack(
        "{s:s,s:s,s:s,s:s,s:s,s:s,s:s,s:I,s:s,s:I,s:{s:I,s:I},s:[],s:s,s:{s:I,s:I,s:I},"
        "s:{s:b,s:s},s:{s:i,s:i},s:{},s:b,s:s}",
        "hostname", a->name, "kernel", "simulated", "os", "simulated", "machine_id", "", "address",
        "127.0.0.1", "agent_version", MEADOW_VERSION, "runtime", "process", "cpus",
        (json_int_t)(o->cpu_milli / 1000), "cpu_model", "simulated", "memory",
        (json_int_t)o->memory, "disk", "total", (json_int_t)1 << 40, "free", (json_int_t)1 << 39,
        "gpus", "gpu_reason", "", "resources", "cpu", (json_int_t)o->cpu_milli, "memory",
        (json_int_t)o->memory, "gpu", (json_int_t)o->gpu, "engine", "ok", 1, "reason", "", "ports",
        "first", PORTS_FIRST, "count", PORTS_COUNT, "labels", "ready", 1, "reason", "");
}

// As node-agent's runtimes report it: every running task.
static json_t *usage_json(const struct agent *a)
{
    json_t *tasks = json_object();
    for (const struct attempt *x = a->attempts; x; x = x->hh.next)
        if (x->status.state == ATTEMPT_RUNNING)
            json_object_set_new(
                tasks, x->id,
                json_pack("{s:f,s:I}", "cpu_percent", 93.5, "memory", (json_int_t)(512 << 20)));
    return json_pack("{s:f,s:I,s:f,s:I,s:I,s:I,s:[],s:o}", "cpu_percent", 61.25, "memory_used",
                     (json_int_t)(8LL << 30), "load1", 12.5, "disk_free", (json_int_t)1 << 39,
                     "net_rx", (json_int_t)123456789, "net_tx", (json_int_t)987654321, "gpus",
                     "tasks", tasks);
}

static int build(struct agent *a, bool sync, struct sync_request *q)
{
    memset(q, 0, sizeof(*q));
    q->protocol = MEADOW_PROTOCOL;
    (void)snprintf(q->agent_version, sizeof(q->agent_version), "%s", MEADOW_VERSION);
    memcpy(q->instance, a->instance, sizeof(q->instance));
    memcpy(q->boot_id, a->swarm->boot_id, sizeof(q->boot_id));
    q->seq = ++a->seq;
    q->seen_epoch = a->seen_epoch;
    q->seen_commit = a->seen_commit;
    q->applied = a->applied;
    inventory_digest(a->sum, q->digest);
    q->has_inventory = a->want_inventory;
    q->inventory_complete = true;
    q->clock_ms = clock_real_ms();
    if (attempts_collect(a, a->want_inventory, &q->statuses, &q->n_statuses) < 0)
        return -ENOMEM;
    if (a->want_node)
        q->node = node_json(a);
    if (sync)
        q->usage = usage_json(a);
    q->history = a->answered ? NULL : calloc(1, sizeof(*q->history));
    if (q->history) {
        memcpy(q->history[0], a->instance, sizeof(a->instance));
        q->n_history = 1;
    }
    return 0;
}

// --- connections ---

static struct message *message_of(struct agent *a, const struct conn *c)
{
    return a->sync.conn == c ? &a->sync : &a->report;
}

// A real agent answers each step of a handshake at once. This process can't do so for thousands at
// once: it begins a few, and the next ones when these are done.
static bool may_shake(struct agent *a)
{
    struct swarm *s = a->swarm;
    if (s->shaking < SHAKING_MAX)
        return true;
    if (!a->waits_shake)
        DL_APPEND2(s->shake_wait, a, shake_prev, shake_next);
    a->waits_shake = true;
    return false;
}

static void shake_over(struct swarm *s)
{
    struct agent *next = s->shake_wait;
    s->shaking--;
    if (!next)
        return;
    DL_DELETE2(s->shake_wait, next, shake_prev, shake_next);
    next->waits_shake = false;
    agent_arm(next);
}

static void on_shaken(struct conn *c)
{
    shake_over(((struct agent *)conn_userdata(c))->swarm);
}

static void lose(struct agent *a, struct message *m)
{
    bool report = m == &a->report;
    if (!m->conn)
        return;
    bool shaken = conn_is_shaken(m->conn);
    conn_close(TAKE_PTR(m->conn));
    if (!shaken)
        shake_over(a->swarm);
    if (m->outstanding) { // said again with the next message
        a->want_inventory |= m->inventory;
        a->want_node |= m->node;
        a->carried = a->acked;
    }
    m->outstanding = false;
    if (!report)
        return;
    struct agent *next = a->swarm->report_wait;
    a->swarm->n_reports--;
    if (next) {
        DL_DELETE2(a->swarm->report_wait, next, wait_prev, wait_next);
        next->waits_report = false;
        agent_flush(next);
    }
}

void agent_retry(struct agent *a)
{
    struct swarm *s = a->swarm;
    s->stats.failures++;
    if (a->online)
        s->stats.online--;
    a->online = false;
    lose(a, &a->sync);
    lose(a, &a->report);
    a->retry_ms = clock_boot_ms() + (int64_t)backoff_fail(&a->backoff);
    agent_arm(a);
}

static void on_failed(struct conn *c, const char *why)
{
    struct agent *a = conn_userdata(c);
    (void)why;
    if (message_of(a, c) == &a->sync)
        agent_retry(a);
    else
        lose(a, &a->report); // what it said goes with the next message
}

static void on_answered(struct conn *c, int status, const char *body, size_t len);

static int open_conn(struct agent *a, struct message *m)
{
    struct swarm *s = a->swarm;
    struct err e;
    struct conn_options o = {.loop = s->loop,
                             .tls = s->tls,
                             .master = &s->master,
                             .host = s->o.host,
                             .cert = a->cert,
                             .key = a->key,
                             .shaken = on_shaken,
                             .answered = on_answered,
                             .failed = on_failed,
                             .userdata = a};
    if (m->conn)
        return 0;
    int r = conn_open(&o, &m->conn, &e);
    s->stats.connects += r == 0;
    s->shaking += r == 0;
    s->n_reports += r == 0 && m == &a->report;
    return r;
}

// A report may open a connection, or has to wait for another's.
static bool may_report(struct agent *a)
{
    struct swarm *s = a->swarm;
    if (a->report.conn)
        return true;
    if (s->n_reports < s->o.reports)
        return may_shake(a);
    if (!a->waits_report)
        DL_APPEND2(s->report_wait, a, wait_prev, wait_next);
    a->waits_report = true;
    return false;
}

// --- sending ---

static int send_message(struct agent *a, struct message *m)
{
    struct sync_request q;
    bool sync = m == &a->sync;
    int r = open_conn(a, m);
    if (r == 0)
        r = build(a, sync, &q);
    if (r < 0)
        return r;
    *m = (struct message){m->conn, true, q.has_inventory, q.node != NULL, clock_boot_ms()};
    cleanup_json json_t *j = sync_request_to_json(&q);
    cleanup_free char *text = json_text(j);
    sync_request_reset(&q);
    a->want_inventory &= !m->inventory;
    a->want_node &= !m->node;
    a->carried = a->change;
    *(sync ? &a->swarm->stats.syncs : &a->swarm->stats.reports) += 1;
    return text ? conn_request(m->conn, "POST", sync ? "/v1/agent/sync" : "/v1/agent/report", text,
                               strlen(text))
                : -ENOMEM;
}

void agent_flush(struct agent *a)
{
    if (a->retry_ms)
        return;
    if (!a->sync.conn && !may_shake(a))
        return;
    if (!a->sync.outstanding) {
        if (send_message(a, &a->sync) < 0)
            agent_retry(a);
        return;
    }
    bool news = a->change > a->carried || a->want_inventory || a->want_node;
    if (news && a->online && !a->report.outstanding && may_report(a) &&
        send_message(a, &a->report) < 0)
        lose(a, &a->report);
}

// --- answers ---

static void take(struct agent *a, struct message *m, struct sync_answer *answer)
{
    if (answer->epoch > a->seen_epoch ||
        (answer->epoch == a->seen_epoch && answer->commit > a->seen_commit)) {
        a->seen_epoch = answer->epoch;
        a->seen_commit = answer->commit;
    }
    if (answer->acked > a->acked && answer->acked <= a->change) // of this instance
        a->acked = answer->acked;
    a->want_inventory |= answer->want_inventory;
    a->want_node |= answer->want_node;
    if (m != &a->sync)
        return;
    a->answered = true;
    a->interval_ms = answer->sync_interval_ms > 0 ? answer->sync_interval_ms : a->interval_ms;
    if (m->sent_boot_ms > a->lease_zero_ms)
        a->lease_zero_ms = m->sent_boot_ms;
    if (answer->has_assignment && attempts_apply(a, answer) < 0)
        (void)fprintf(stderr, "swarm: out of memory\n");
    attempts_lease(a, answer, m->sent_boot_ms);
    a->swarm->stats.online += !a->online;
    a->online = true;
    (void)backoff_reset(&a->backoff);
}

static void on_answered(struct conn *c, int status, const char *body, size_t len)
{
    struct agent *a = conn_userdata(c);
    struct message *m = message_of(a, c);
    struct sync_answer answer = {0};
    struct err e;
    cleanup_json json_t *j = NULL;
    m->outstanding = false;
    if (status != 200 || json_parse(body, len, &j, &e) < 0 ||
        sync_answer_from_json(j, &answer, &e) < 0 || answer.refused[0]) {
        if (a->swarm->stats.refused++ < 10)
            (void)fprintf(stderr, "swarm: %s: HTTP %d: %.300s\n", a->name, status, body);
        m->outstanding = true; // nothing of it was taken in
        if (m == &a->sync)
            agent_retry(a);
        else
            lose(a, m);
        return;
    }
    a->swarm->stats.answers++;
    take(a, m, &answer);
    sync_answer_reset(&answer);
    agent_arm(a);
}

// --- time ---

static void on_timer(uv_timer_t *timer)
{
    struct agent *a = container_of(timer, struct agent, timer);
    int64_t now = clock_boot_ms();
    a->due_ms = 0;
    if (a->retry_ms && now >= a->retry_ms)
        a->retry_ms = 0;
    if (a->sync.outstanding && now >= a->sync.sent_boot_ms + a->interval_ms + ANSWER_SLACK_MS)
        agent_retry(a);
    if (a->report.conn && now >= a->report.sent_boot_ms +
                                     (a->report.outstanding ? REPORT_TIMEOUT_MS : REPORT_IDLE_MS))
        lose(a, &a->report);
    agent_arm(a);
}

static void sooner(int64_t *at, int64_t other)
{
    if (other && (!*at || other < *at))
        *at = other;
}

void agent_arm(struct agent *a)
{
    int64_t now = clock_boot_ms();
    int64_t at = attempts_step(a, now);
    agent_flush(a);
    sooner(&at, a->retry_ms);
    if (a->sync.outstanding)
        sooner(&at, a->sync.sent_boot_ms + a->interval_ms + ANSWER_SLACK_MS);
    if (a->report.conn)
        sooner(&at, a->report.sent_boot_ms +
                        (a->report.outstanding ? REPORT_TIMEOUT_MS : REPORT_IDLE_MS));
    if (at == a->due_ms)
        return;
    a->due_ms = at;
    (void)uv_timer_start(&a->timer, on_timer, at > now ? (uint64_t)(at - now) : 0, 0);
}

int agent_begin(struct agent *a, struct err *e)
{
    a->instance[0] = 'i';
    if (id_random(a->instance + 1, 16) < 0)
        return err_set(e, -EIO, "no random numbers");
    a->want_inventory = a->want_node = true;
    a->interval_ms = FIRST_INTERVAL_MS;
    backoff_init(&a->backoff, RETRY_LEAST_MS, RETRY_MOST_MS);
    (void)uv_timer_init(a->swarm->loop, &a->timer);
    agent_arm(a);
    return 0;
}
