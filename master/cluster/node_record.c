// SPDX-License-Identifier: Apache-2.0
// A node as a record in the store, and as users see it.
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/renewal.h"
#include "master/cluster/cluster_internal.h"

#include <string.h>

char *node_to_record(const struct node *n)
{
    cleanup_json json_t *j = json_object();
    json_put_str(j, "id", n->id);
    json_put_str(j, "name", n->name);
    json_put_str(j, "key", n->key_fingerprint);
    json_put_bool(j, "approved", n->approved);
    json_put_bool(j, "draining", n->draining);
    if (n->draining)
        json_put(j, "drain", node_drain_to_record(n));
    if (n->aside.phase != ASIDE_NO)
        json_put(j, "aside", node_aside_to_record(n));
    if (n->orphans > 0 || n->orphan_times)
        json_put(j, "orphans", orphans_to_record(n));
    json_put_bool(j, "lost", n->state == NODE_LOST);
    json_put_time(j, "joined_at", n->joined_ms);
    json_put(j, "labels", json_incref(n->labels));
    if (n->info)
        json_put(j, "info", json_incref(n->info));
    node_identity_to_record(n, j);
    return json_text(j);
}

int node_from_record(struct cluster *c, const json_t *j, struct err *e)
{
    const char *id, *name, *key;
    int r = json_get_str(j, "id", &id, e);
    if (r == 0)
        r = json_get_str(j, "name", &name, e);
    if (r == 0)
        r = json_get_str(j, "key", &key, e);
    if (r < 0)
        return r;
    struct node *n = node_new(c, id, name);
    if (!n)
        return err_set(e, -ENOMEM, "out of memory");
    node_set_key(c, n, key);
    n->approved = json_opt_bool(j, "approved", false);
    n->draining = json_opt_bool(j, "draining", false);
    if (n->draining)
        node_drain_from_record(n, json_object_get(j, "drain"));
    n->joined_ms = json_opt_time(j, "joined_at");
    json_t *labels = json_object_get(j, "labels");
    if (json_is_object(labels)) {
        json_decref(n->labels);
        n->labels = json_incref(labels);
    }
    json_t *info = json_object_get(j, "info");
    if (json_is_object(info))
        r = node_take_info(c, n, info, e);
    n->orphan_times = json_incref(json_object_get(j, "orphans"));
    node_aside_from_record(c, n, json_object_get(j, "aside"));
    n->engine_ready = false; // until it says so itself
    n->info_told = false;
    n->echo_due = true;
    node_identity_from_record(n, j);
    node_count_move(c, n,
                    n->identity.removing              ? NODE_LEFT
                    : !n->approved                    ? NODE_PENDING
                    : json_opt_bool(j, "lost", false) ? NODE_LOST
                                                      : NODE_NOT_READY);
    (void)snprintf(n->reason, sizeof(n->reason), "not heard from since the master started");
    return r;
}

static void put_identity(json_t *j, const struct node *n)
{
    const struct node_identity *i = &n->identity;
    int64_t now = clock_real_ms();
    if (i->skew_known)
        json_put_i64(j, "clock_skew_ms", i->skew_ms);
    else
        json_put(j, "clock_skew_ms", json_null());
    json_put(j, "replaceable_until", json_null());
    if (i->replace_until_ms > now)
        json_put_time(j, "replaceable_until", i->replace_until_ms);
    if (!i->cert_until_ms) {
        json_put(j, "certificate", json_null());
        return;
    }
    json_t *cert = json_object();
    json_put_str(cert, "sha256", i->cert);
    json_put_time(cert, "not_after", i->cert_until_ms);
    json_put_i64(cert, "days_left", renewal_days_left(now, i->cert_until_ms));
    json_put_bool(cert, "renewal_pending", i->next[0] != '\0');
    json_put(j, "certificate", cert);
}

static json_t *resources_json(int64_t cpu, int64_t memory, int64_t gpu)
{
    json_t *j = json_object();
    json_put_i64(j, "cpu", cpu);
    json_put_i64(j, "memory", memory);
    json_put_i64(j, "gpu", gpu);
    return j;
}

// All but its images.
static json_t *view(const struct node *n)
{
    json_t *j = json_object();
    json_put_str(j, "name", n->name);
    json_put_str(j, "id", n->id);
    json_put_str(j, "state", node_state_to_string(n->state));
    json_put_str(j, "reason", n->reason[0] ? n->reason : NULL);
    json_put_bool(j, "draining", n->draining);
    json_put(j, "drain", node_drain_view(n));
    json_put_bool(j, "approved", n->approved);
    json_put(j, "labels", json_incref(n->labels));
    json_put_str(j, "address", json_opt_str(n->info, "address", NULL));
    json_put_str(j, "runtime", n->docker ? "docker" : "process");
    if (n->seen_boot_ms)
        json_put_i64(j, "report_age_ms", clock_boot_ms() - n->seen_boot_ms);
    else
        json_put(j, "report_age_ms", json_null());
    json_put_str(j, "agent_version", json_opt_str(n->info, "agent_version", NULL));
    json_put_time(j, "joined_at", n->joined_ms);
    json_put_i64(j, "tasks", n->tasks);
    json_put(j, "orphans", orphans_view(n));
    put_identity(j, n);
    json_t *r = json_object();
    json_put(r, "total", resources_json(n->total.cpu_milli, n->total.memory, n->total.gpu));
    json_put(r, "free",
             resources_json(n->total.cpu_milli - n->reserved.cpu_milli,
                            n->total.memory - n->reserved.memory, n->total.gpu - n->reserved.gpu));
    json_put(r, "used", resources_json(n->reserved.cpu_milli, n->reserved.memory, n->reserved.gpu));
    json_put(j, "resources", r);
    if (n->info)
        json_put(j, "hardware", json_incref(n->info));
    else
        json_put(j, "hardware", json_null());
    if (n->usage)
        json_put(j, "usage", json_incref(n->usage));
    return j;
}

json_t *node_view(const struct node *n)
{
    json_t *j = view(n);
    json_put(j, "images", node_images_view(n));
    return j;
}

json_t *node_summary(const struct node *n)
{
    json_t *j = view(n);
    json_t *usage = json_copy(n->usage);
    if (usage) {
        (void)json_object_del(usage, "tasks");
        json_put(j, "usage", usage);
    }
    return j;
}
