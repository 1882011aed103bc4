// SPDX-License-Identifier: Apache-2.0
// Who a node is: its key, the certificates made for it, and the agent instance that has the
// identity now. A key or a state that turns up twice is told apart from a restart: each instance
// names those before it, and the one that had the identity last must be among them.
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "master/cluster/cluster_internal.h"

#include <string.h>

#define COPY(to, from) (void)snprintf(to, sizeof(to), "%s", from)

// --- the record ---

void node_identity_to_record(const struct node *n, json_t *j)
{
    const struct node_identity *i = &n->identity;
    json_t *r = json_object();
    json_put_str(r, "machine_id", i->machine_id);
    json_put_str(r, "certificate", i->cert);
    json_put_i64(r, "certificate_until", i->cert_until_ms);
    json_put_i64(r, "certificate_since", i->cert_since_ms);
    json_put_str(r, "next_certificate", i->next);
    json_put_i64(r, "next_certificate_until", i->next_until_ms);
    json_put_str(r, "instance", i->last_instance);
    json_put_i64(r, "instance_since", i->instance_since_ms);
    json_put_i64(r, "replace_until", i->replace_until_ms);
    json_put_str(r, "replace_by", i->replace_by);
    json_put_bool(r, "removing", i->removing);
    json_put_i64(r, "removed_at", i->removed_ms);
    json_put_str(r, "removed_by", i->removed_by);
    json_put(j, "identity", r);
}

void node_identity_from_record(struct node *n, const json_t *j)
{
    const json_t *r = json_object_get(j, "identity");
    struct node_identity *i = &n->identity;
    COPY(i->machine_id, json_opt_str(r, "machine_id", ""));
    COPY(i->cert, json_opt_str(r, "certificate", ""));
    i->cert_until_ms = json_opt_i64(r, "certificate_until", 0);
    i->cert_since_ms = json_opt_i64(r, "certificate_since", 0);
    COPY(i->next, json_opt_str(r, "next_certificate", ""));
    i->next_until_ms = json_opt_i64(r, "next_certificate_until", 0);
    COPY(i->last_instance, json_opt_str(r, "instance", ""));
    i->instance_since_ms = json_opt_i64(r, "instance_since", 0);
    i->replace_until_ms = json_opt_i64(r, "replace_until", 0);
    COPY(i->replace_by, json_opt_str(r, "replace_by", ""));
    i->removing = json_opt_bool(r, "removing", false);
    i->removed_ms = json_opt_i64(r, "removed_at", 0);
    COPY(i->removed_by, json_opt_str(r, "removed_by", ""));
}

// --- joining ---

static bool replaceable(const struct node *n)
{
    return n->identity.replace_until_ms > clock_real_ms();
}

// The key's certificates and instance go with it.
static void take_key(struct cluster *c, struct node *n, const struct node_claim *claim)
{
    struct node_identity *i = &n->identity;
    if (n->key_fingerprint[0])
        former_begin(c, n);
    node_set_key(c, n, claim->key_fingerprint);
    COPY(i->machine_id, claim->machine_id);
    i->cert[0] = i->next[0] = '\0';
    i->cert_until_ms = i->next_until_ms = 0;
    i->last_instance[0] = '\0';
    i->replace_until_ms = 0;
    n->joined_ms = clock_real_ms();
}

static int name_taken(const struct node *n, const struct node_claim *claim, struct err *e)
{
    char since[CLOCK_TEXT_BYTES], heard[48] = "not heard from since the master started";
    const struct node_identity *i = &n->identity;
    bool same = claim->machine_id[0] && strcmp(claim->machine_id, i->machine_id) == 0;
    clock_format_ms(n->joined_ms, since);
    if (n->seen_boot_ms)
        (void)snprintf(heard, sizeof(heard), "last heard from %lld s ago",
                       (long long)((clock_boot_ms() - n->seen_boot_ms) / 1000));
    return err_set(
        e, -EEXIST,
        "the name %s belongs to another node: %s, at %s, joined %s, %s. %s: run `meadow "
        "node replace %s`, and this agent gets the name with its next try%s",
        n->name, n->id, json_opt_str(n->info, "address", "an unknown address"), since, heard,
        same ? "It was this machine: its agent's state is gone"
             : "If this machine takes that one's place",
        n->name, same ? "" : "; else give this one a name of its own (`name:` in its agent.yml)");
}

static int join_new(struct cluster *c, const struct node_claim *claim, struct node **ret,
                    struct err *e)
{
    char id[ID_BYTES];
    if (id_new('n', id) < 0)
        return err_set(e, -EIO, "no random numbers");
    struct node *n = node_new(c, id, claim->name);
    if (!n)
        return err_set(e, -ENOMEM, "out of memory");
    take_key(c, n, claim);
    n->approved = claim->approved;
    COPY(n->reason, claim->approved ? "joined, not heard from yet" : "waits for approval");
    node_dirty(c, n);
    node_emit(c, n, "node.joined", NULL, NULL);
    *ret = n;
    return 0;
}

int cluster_node_join(struct cluster *c, const struct node_claim *claim, struct node **ret,
                      struct err *e)
{
    struct node *n = cluster_node_by_key(c, claim->key_fingerprint);
    if (!n)
        n = cluster_node_by_name(c, claim->name);
    if (!n)
        return join_new(c, claim, ret, e);
    if (n->identity.removing)
        return err_set(e, -EBUSY,
                       "node %s is being removed: this agent can join when that is over (see "
                       "`meadow node show %s`)",
                       n->name, n->name);
    if (strcmp(n->key_fingerprint, claim->key_fingerprint) != 0) {
        if (!replaceable(n))
            return name_taken(n, claim, e);
        log_info("nodes", "node %s: another machine takes its place, as %s said", n->name,
                 n->identity.replace_by);
        node_emit(c, n, "node.replaced", n->identity.replace_by, NULL);
        take_key(c, n, claim);
        node_dirty(c, n);
    }
    *ret = n;
    return 0;
}

// --- certificates ---

void cluster_node_issued(struct cluster *c, struct node *n, const char *cert_fingerprint,
                         int64_t not_after_ms)
{
    struct node_identity *i = &n->identity;
    COPY(i->next, cert_fingerprint);
    i->next_until_ms = not_after_ms;
    if (!i->cert_until_ms)
        i->cert_until_ms = not_after_ms; // shown until one is used
    node_dirty(c, n);
}

static void use(struct cluster *c, struct node *n, const char *cert_fingerprint,
                int64_t not_after_ms)
{
    struct node_identity *i = &n->identity;
    bool renewed = i->cert[0] != '\0';
    COPY(i->cert, cert_fingerprint);
    i->cert_until_ms = not_after_ms;
    i->cert_since_ms = clock_real_ms();
    i->next[0] = '\0';
    i->next_until_ms = 0;
    node_dirty(c, n);
    if (renewed)
        node_emit(c, n, "node.certificate_renewed", NULL, NULL);
}

bool cluster_node_uses(struct cluster *c, struct node *n, const char *cert_fingerprint,
                       int64_t not_after_ms)
{
    const struct node_identity *i = &n->identity;
    if (i->cert[0] && strcmp(i->cert, cert_fingerprint) == 0)
        return true;
    // A record from before certificates were remembered has neither: the key's own is taken.
    if (strcmp(i->next, cert_fingerprint) != 0 && (i->cert[0] || i->next[0]))
        return false;
    use(c, n, cert_fingerprint, not_after_ms);
    return true;
}

// --- instances ---

static bool comes_after(const struct sync_request *msg, const char *instance)
{
    for (size_t k = 0; k < msg->n_history; k++)
        if (strcmp(msg->history[k], instance) == 0)
            return true;
    return false;
}

int node_identity_instance(struct cluster *c, struct node *n, const struct sync_request *msg,
                           struct err *e)
{
    char since[CLOCK_TEXT_BYTES];
    struct node_identity *i = &n->identity;
    bool told = msg->n_history > 0 && i->last_instance[0];
    if (strcmp(i->last_instance, msg->instance) == 0)
        return 0;
    if (told && !comes_after(msg, i->last_instance) && !replaceable(n)) {
        clock_format_ms(i->instance_since_ms, since);
        return err_set(
            e, -ESTALE,
            "this agent's state is a copy, or was restored from an old one: since %s the identity "
            "of "
            "node %s (%s) is with instance %s, which it doesn't know. No work for it. If this "
            "machine "
            "is to be that node: `meadow node replace %s`; else remove the folder identity in its "
            "state_dir and join it with a name of its own",
            since, n->name, n->id, i->last_instance, n->name);
    }
    if (told && !comes_after(msg, i->last_instance)) {
        former_begin(c, n);
        node_emit(c, n, "node.replaced", i->replace_by, "a copy of its state goes on");
        i->replace_until_ms = 0;
    }
    COPY(i->last_instance, msg->instance);
    i->instance_since_ms = clock_real_ms();
    node_dirty(c, n);
    return 0;
}

// --- what operators say ---

int node_refuse_leaving(const struct node *n, struct err *e)
{
    if (!n->identity.removing)
        return 0;
    return err_set(e, -EBUSY,
                   "node %s is being removed by %s: nothing else can be done with it; join it "
                   "again afterwards",
                   n->name, n->identity.removed_by);
}

int cluster_node_approve(struct cluster *c, struct node *n, const char *user, struct err *e)
{
    int r = node_refuse_leaving(n, e);
    if (r < 0 || n->approved)
        return r;
    n->approved = true;
    node_dirty(c, n);
    node_emit(c, n, "node.approved", user, NULL);
    if (n->connected)
        node_refresh_state(c, n);
    else if (n->state == NODE_PENDING)
        node_set_state(c, n, NODE_NOT_READY, "approved, not heard from yet");
    return 0;
}

int cluster_node_replace(struct cluster *c, struct node *n, const char *user, struct err *e)
{
    int r = node_refuse_leaving(n, e);
    if (r < 0)
        return r;
    if (!replaceable(n))
        node_emit(c, n, "node.replaceable", user, NULL);
    n->identity.replace_until_ms = clock_real_ms() + NODE_REPLACE_MS;
    COPY(n->identity.replace_by, user);
    node_dirty(c, n);
    return 0;
}

void cluster_node_set_labels(struct cluster *c, struct node *n, json_t *labels, const char *user)
{
    if (json_equal(n->labels, labels)) {
        json_decref(labels);
        return;
    }
    json_decref(n->labels);
    n->labels = labels;
    node_dirty(c, n);
    node_emit(c, n, "node.labelled", user, NULL);
    want_schedule(c);
}
