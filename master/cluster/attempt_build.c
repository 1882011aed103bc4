// SPDX-License-Identifier: Apache-2.0
// What an agent gets to run an attempt, made from the job and the task's placement whenever it is
// needed.
#include "master/cluster/cluster_internal.h"
#include "master/cluster/user.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct resources component_resources(const struct cluster *c, const struct job_component *k)
{
    return k->has_resources ? k->resources : c->options.default_resources;
}

static int copy_command(struct attempt_spec *s, char *const *command)
{
    size_t n = 0;
    while (command && command[n])
        n++;
    if (!command)
        return 0;
    s->command = calloc(n + 1, sizeof(*s->command));
    if (!s->command)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        if (!(s->command[i] = strdup(command[i])))
            return -ENOMEM;
    return 0;
}

static int copy_mounts(struct attempt_spec *s, const struct job_component *k)
{
    s->mounts = calloc(k->n_mounts + 1, sizeof(*s->mounts));
    if (!s->mounts)
        return -ENOMEM;
    for (; s->n_mounts < k->n_mounts; s->n_mounts++) {
        const struct job_mount *from = &k->mounts[s->n_mounts];
        struct job_mount *to = &s->mounts[s->n_mounts];
        to->read_only = from->read_only;
        to->target = strdup(from->target);
        to->source = from->source ? strdup(from->source) : NULL;
        if (!to->target || (from->source && !to->source))
            return -ENOMEM;
    }
    return 0;
}

static int copy_grants(struct attempt_spec *s, const struct task *t)
{
    s->gpus = calloc(NODE_MAX_GPUS, sizeof(*s->gpus));
    s->ports = calloc(TASK_MAX_PORTS, sizeof(*s->ports));
    if (!s->gpus || !s->ports)
        return -ENOMEM;
    for (int i = 0; i < NODE_MAX_GPUS; i++)
        if (t->gpus & (UINT64_C(1) << i))
            s->gpus[s->n_gpus++] = i;
    for (int i = 0; i < t->n_ports; i++)
        s->ports[s->n_ports++] = t->ports[i];
    return 0;
}

struct attempt_spec *attempt_build_bare(const char *id)
{
    struct attempt_spec *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    (void)snprintf(s->id, sizeof(s->id), "%s", id);
    (void)snprintf(s->issued_to, sizeof(s->issued_to), "-"); // nobody may start it
    s->attempt = 1;
    s->uid = s->gid = -1;
    s->stop_signal = SIGTERM;
    s->job = strdup("-");
    s->job_name = strdup("-");
    s->user = strdup("-");
    s->component = strdup("-");
    if (!s->job || !s->job_name || !s->user || !s->component) {
        attempt_spec_free(s);
        return NULL;
    }
    return s;
}

// A port below the bound is an index into the ports that the task was given.
static int copy_health(struct attempt_spec *s, const struct job_health *h)
{
    if (!h)
        return 0;
    bool index = h->port < HEALTH_INDEX_BOUND;
    if (!h->command && index && (size_t)h->port >= s->n_ports)
        return 0; // it got none: nothing to ask
    s->health = job_health_copy(h, !h->command && index ? s->ports[h->port] : h->port);
    return s->health ? 0 : -ENOMEM;
}

struct attempt_spec *attempt_build(struct cluster *c, const struct task *t)
{
    const struct job_component *k = task_component(t);
    struct attempt_spec *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    memcpy(s->id, t->attempt_id, sizeof(s->id));
    memcpy(s->issued_to, t->issued_to, sizeof(s->issued_to));
    s->job = strdup(t->job->id);
    s->job_name = strdup(t->job->name);
    s->user = strdup(t->job->user);
    const struct user *user = cluster_user_find(c, t->job->user);
    s->uid = user ? user->uid : -1;
    s->gid = user ? user->gid : -1;
    s->component = strdup(k->name);
    s->image = k->image ? strdup(k->image) : NULL;
    s->index = t->index;
    s->attempt = t->attempt;
    s->resources = t->granted;
    s->network = k->network;
    s->stop_signal = k->stop_signal;
    s->grace_ms = k->grace_ms;
    s->timeout_ms = k->timeout_ms;
    s->lease_ms = t->lease_ms;
    s->log_limit = c->options.log_limit;
    if (!s->job || !s->job_name || !s->user || !s->component || (k->image && !s->image) ||
        copy_command(s, k->command) < 0 || copy_mounts(s, k) < 0 || copy_grants(s, t) < 0 ||
        copy_health(s, k->health) < 0 || attempt_env(c, t, &s->env, &s->n_env) < 0 ||
        secret_for_attempt(c, t, s) < 0) {
        attempt_spec_free(s);
        return NULL;
    }
    return s;
}
