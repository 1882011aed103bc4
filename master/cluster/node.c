// SPDX-License-Identifier: Apache-2.0
// Nodes: joining, states, and what is reserved on them. A node is its key; its name is what people
// see.
#include "master/cluster/cluster_internal.h"
#include "master/scheduler/scheduler.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"

#include <stdlib.h>
#include <string.h>

struct node *node_new(struct cluster *c, const char *id, const char *name)
{
    struct node *n = calloc(1, sizeof(*n));
    if (!n)
        return NULL;
    (void)snprintf(n->id, sizeof(n->id), "%s", id);
    (void)snprintf(n->name, sizeof(n->name), "%s", name);
    n->labels = json_object();
    n->state = NODE_PENDING;
    c->node_counts[n->state]++;
    n->wants_inventory = true;
    scheduler_nodes_moved(c);
    HASH_ADD_STR(c->nodes, id, n);
    HASH_ADD(hh_name, c->nodes_by_name, name, strlen(n->name), n);
    return n;
}

void node_count_move(struct cluster *c, struct node *n, enum node_state s)
{
    c->node_counts[n->state]--;
    n->state = s;
    c->node_counts[s]++;
}

unsigned cluster_node_count_in(const struct cluster *c, enum node_state state)
{
    return c->node_counts[state];
}

void node_destroy(struct node *n)
{
    assignment_free_all(n);
    json_decref(n->labels);
    json_decref(n->info);
    json_decref(n->usage);
    json_decref(n->orphan_times);
    plan_images_drop(&n->holder);
    free(n->ports_taken);
    free(n);
}

struct node *cluster_node_by_id(struct cluster *c, const char *id)
{
    struct node *n = NULL;
    HASH_FIND_STR(c->nodes, id, n);
    return n;
}

struct node *cluster_node_by_name(struct cluster *c, const char *name)
{
    struct node *n = NULL;
    HASH_FIND(hh_name, c->nodes_by_name, name, strlen(name), n);
    return n;
}

struct node *cluster_nodes(struct cluster *c)
{
    return c->nodes;
}

unsigned cluster_node_count(const struct cluster *c)
{
    return HASH_CNT(hh, c->nodes);
}

struct node *cluster_node_by_key(struct cluster *c, const char *fingerprint)
{
    struct node *n = NULL;
    HASH_FIND(hh_key, c->nodes_by_key, fingerprint, strlen(fingerprint), n);
    return n;
}

void node_set_key(struct cluster *c, struct node *n, const char *fingerprint)
{
    if (n->key_fingerprint[0])
        HASH_DELETE(hh_key, c->nodes_by_key, n);
    (void)snprintf(n->key_fingerprint, sizeof(n->key_fingerprint), "%s", fingerprint);
    if (n->key_fingerprint[0])
        HASH_ADD(hh_key, c->nodes_by_key, key_fingerprint, strlen(n->key_fingerprint), n);
}

void node_emit(struct cluster *c, const struct node *n, const char *type, const char *user,
               const char *reason)
{
    event_emit(c, &(struct event_fields){
                      .type = type, .object = "node", .node = n, .user = user, .reason = reason});
}

void node_set_state(struct cluster *c, struct node *n, enum node_state s, const char *reason)
{
    bool same = n->state == s;
    if (same && strcmp(n->reason, reason) == 0)
        return;
    node_count_move(c, n, s);
    (void)snprintf(n->reason, sizeof(n->reason), "%s", reason);
    node_dirty(c, n);
    char type[32];
    (void)snprintf(type, sizeof(type), "node.%s", node_state_to_string(s));
    node_emit(c, n, type, NULL, reason);
    want_schedule(c);
}

static const char *orphans_text(const struct node *n, char *out, size_t size)
{
    (void)snprintf(out, size,
                   "runs %d task%s of jobs that this master does not know, and does not say what "
                   "they take: `meadow node show %s`",
                   n->orphans_unknown, n->orphans_unknown == 1 ? "" : "s", n->name);
    return out;
}

void node_refresh_state(struct cluster *c, struct node *n)
{
    char text[REASON_BYTES];
    if (n->identity.removing)
        return; // "left" until the record goes
    if (!n->approved)
        node_set_state(c, n, NODE_PENDING, "waits for approval");
    else if (!n->engine_ready)
        node_set_state(c, n, NODE_NOT_READY, n->engine_reason);
    else if (n->disk_full)
        node_set_state(c, n, NODE_NOT_READY, n->disk_reason);
    else if (!n->inventory_seen)
        node_set_state(c, n, NODE_NOT_READY, "waiting for its inventory");
    else if (n->orphans_unknown > 0)
        node_set_state(c, n, NODE_NOT_READY, orphans_text(n, text, sizeof(text)));
    else if (n->given_away > 0 || n->strangers > 0) // the latter: given away by a master before us
        node_set_state(c, n, NODE_NOT_READY, "stops what was given to others while it was silent");
    else if (n->aside.phase != ASIDE_NO)
        node_set_state(c, n, NODE_NOT_READY, n->aside.reason);
    else
        node_set_state(c, n, NODE_READY, "");
}

// --- what is reserved ---

bool task_exclusive(const struct task *t)
{
    return t->job->spec->exclusive || task_component(t)->exclusive;
}

static void ports_mark(struct node *n, const uint16_t *ports, size_t n_ports, bool taken)
{
    for (size_t i = 0; i < n_ports; i++) {
        unsigned at = (unsigned)ports[i] - n->port_first;
        if (!n->ports_taken || ports[i] < n->port_first || at >= n->port_count)
            continue;
        if (taken)
            n->ports_taken[at / 64] |= UINT64_C(1) << (at % 64);
        else
            n->ports_taken[at / 64] &= ~(UINT64_C(1) << (at % 64));
    }
}

// Ports and cards of all that is there, anew.
static void mark_taken(struct node *n)
{
    n->gpus_taken = 0;
    if (n->ports_taken)
        memset(n->ports_taken, 0, (n->port_count + 63u) / 64u * sizeof(*n->ports_taken));
    for (const struct assignment *a = n->assignments; a; a = a->hh.next) {
        const struct task *t = a->task;
        if (a->holds) {
            n->gpus_taken |= a->holds->gpus;
            ports_mark(n, a->holds->ports, a->holds->n_ports, true);
        }
        if (!t || !t->holds_node || t->node != n)
            continue;
        n->gpus_taken |= t->gpus;
        ports_mark(n, t->ports, (size_t)t->n_ports, true);
    }
}

void node_orphan_holds(struct cluster *c, struct node *n, const struct attempt_holds *h, int sign)
{
    n->reserved.cpu_milli += sign * h->resources.cpu_milli;
    n->reserved.memory += sign * h->resources.memory;
    n->reserved.gpu += sign * h->resources.gpu;
    mark_taken(n);
    scheduler_node_stale(c, n);
    want_schedule(c);
}

void node_reserve(struct cluster *c, struct node *n, struct task *t)
{
    n->reserved.cpu_milli += t->granted.cpu_milli;
    n->reserved.memory += t->granted.memory;
    n->reserved.gpu += t->granted.gpu;
    n->gpus_taken |= t->gpus;
    n->tasks++;
    n->exclusive += task_exclusive(t);
    ports_mark(n, t->ports, (size_t)t->n_ports, true);
    t->holds_node = true;
    scheduler_node_stale(c, n);
    scheduler_task_held(c, t, 1);
}

void node_release(struct cluster *c, struct task *t)
{
    struct node *n = t->node;
    if (!t->holds_node)
        return;
    t->holds_node = false;
    n->reserved.cpu_milli -= t->granted.cpu_milli;
    n->reserved.memory -= t->granted.memory;
    n->reserved.gpu -= t->granted.gpu;
    n->gpus_taken &= ~t->gpus;
    n->tasks--;
    n->exclusive -= task_exclusive(t);
    ports_mark(n, t->ports, (size_t)t->n_ports, false);
    if (n->orphans > 0) // one may have what a forgotten job was given after this one
        mark_taken(n);
    scheduler_node_stale(c, n);
    scheduler_task_held(c, t, -1);
    node_drain_emptied(c, n);
    want_schedule(c);
}

// The port range may change with the agent's configuration: the bitmap is made anew.
static int take_ports(struct node *n, uint16_t first, uint16_t count)
{
    if (first == n->port_first && count == n->port_count)
        return 0;
    uint64_t *taken = calloc((count + 63u) / 64u + 1u, sizeof(*taken));
    if (!taken)
        return -ENOMEM;
    free(n->ports_taken);
    n->ports_taken = taken;
    n->port_first = first;
    n->port_count = count;
    n->port_cursor = 0;
    mark_taken(n);
    return 0;
}

int node_take_info(struct cluster *c, struct node *n, json_t *info, struct err *e)
{
    const json_t *resources = json_object_get(info, "resources");
    const json_t *ports = json_object_get(info, "ports");
    int64_t first = json_opt_i64(ports, "first", 0);
    int64_t count = json_opt_i64(ports, "count", 0);
    struct resources total = {json_opt_i64(resources, "cpu", 0),
                              json_opt_i64(resources, "memory", 0),
                              json_opt_i64(resources, "gpu", 0)};

    if (total.cpu_milli < 0 || total.cpu_milli > RESOURCES_MAX_CPU_MILLI || total.memory < 0 ||
        total.memory > RESOURCES_MAX_MEMORY || total.gpu < 0 || total.gpu > NODE_MAX_GPUS)
        return err_set(e, -EPROTO,
                       "node: resources out of range (a node has at most 100000 cores, 64t of "
                       "memory, %d cards)",
                       NODE_MAX_GPUS);
    // Each alone first: the sum of two hostile numbers overflows.
    if (first < 0 || count < 0 || first > UINT16_MAX || count > UINT16_MAX || first + count > 65536)
        return err_set(e, -EPROTO, "node: ports out of range");
    if (take_ports(n, (uint16_t)first, (uint16_t)count) < 0)
        return err_set(e, -ENOMEM, "out of memory");
    bool same = n->info && json_equal(n->info, info);
    n->total = total;
    n->n_gpus = (int)total.gpu;
    n->docker = strcmp(json_opt_str(info, "runtime", "process"), "docker") == 0;
    bool was_ready = n->engine_ready;
    n->engine_ready = json_opt_bool(info, "ready", true);
    if (n->engine_ready && !was_ready && n->info_told) // else a new master hears of it at last
        node_aside_mended(c, n);
    (void)snprintf(n->engine_reason, sizeof(n->engine_reason), "%s",
                   json_opt_str(info, "reason", "not ready"));
    json_decref(n->info);
    n->info = json_incref(info);
    n->info_told = true;
    scheduler_node_stale(c, n);
    if (!same)
        node_dirty(c, n);
    return 0;
}
