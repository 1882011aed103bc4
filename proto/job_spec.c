// SPDX-License-Identifier: Apache-2.0
// The job file as plain data: names of the enums, freeing, and small questions about a spec.
#include "proto/job_spec.h"

#include "common/cleanup.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *const job_modes[JOB_MODE_MAX] = {
    [JOB_MODE_DEFAULT] = "",
    [JOB_MODE_PROCESS] = "process",
    [JOB_MODE_GRASS] = "grass",
    [JOB_MODE_GRASS_LOCAL] = "grass/local",
    [JOB_MODE_GRASS_ON_PREMISES] = "grass/on-premises",
    [JOB_MODE_GRASS_AZURE] = "grass/azure",
    [JOB_MODE_K8S_AKS] = "k8s/aks",
};
static const char *const alloc_modes[ALLOC_MAX] = {
    [ALLOC_BEST_FIT] = "best-fit",
    [ALLOC_SPREAD] = "spread",
    [ALLOC_BALANCED] = "single-metric-balanced",
    [ALLOC_COMPACTED] = "single-metric-compacted",
};
static const char *const alloc_metrics[METRIC_MAX] = {
    [METRIC_CPU] = "cpu",
    [METRIC_MEMORY] = "memory",
    [METRIC_GPU] = "gpu",
};
static const char *const gang_modes[] = {"any", "few-nodes", "same-node"};
static const char *const restart_policies[RESTART_MAX] = {
    [RESTART_NEVER] = "never",
    [RESTART_ON_FAILURE] = "on-failure",
    [RESTART_ALWAYS] = "always",
};
static const char *const node_lost_actions[NODE_LOST_MAX] = {"restart", "fail", "wait"};
static const char *const after_whens[AFTER_MAX] = {"ok", "any", "failed"};
static const char *const network_modes[NETWORK_MAX] = {
    [NETWORK_HOST] = "host",
    [NETWORK_BRIDGE] = "bridge",
    [NETWORK_NONE] = "none",
};

static const char *to_string(const char *const *names, int n, int value)
{
    return value >= 0 && value < n ? names[value] : "invalid";
}

static int from_string(const char *const *names, int n, const char *text,
                       int (*compare)(const char *, const char *))
{
    for (int i = 0; i < n; i++)
        if (names[i][0] && compare(names[i], text) == 0)
            return i;
    return -EINVAL;
}

const char *job_mode_to_string(enum job_mode m)
{
    return to_string(job_modes, JOB_MODE_MAX, (int)m);
}

int job_mode_from_string(const char *text, enum job_mode *ret)
{
    int i = from_string(job_modes, JOB_MODE_MAX, text, strcmp);
    if (i < 0)
        return i;
    *ret = (enum job_mode)i;
    return 0;
}

const char *alloc_mode_to_string(enum alloc_mode m)
{
    return to_string(alloc_modes, ALLOC_MAX, (int)m);
}

int alloc_mode_from_string(const char *text, enum alloc_mode *ret)
{
    int i = from_string(alloc_modes, ALLOC_MAX, text, strcmp);
    if (i < 0)
        return i;
    *ret = (enum alloc_mode)i;
    return 0;
}

const char *alloc_metric_to_string(enum alloc_metric m)
{
    return to_string(alloc_metrics, METRIC_MAX, (int)m);
}

int alloc_metric_from_string(const char *text, enum alloc_metric *ret)
{
    int i = from_string(alloc_metrics, METRIC_MAX, text, strcasecmp);
    if (i < 0)
        return i;
    *ret = (enum alloc_metric)i;
    return 0;
}

const char *gang_mode_to_string(enum gang_mode m)
{
    return to_string(gang_modes, GANG_MAX, (int)m);
}

int gang_mode_from_string(const char *text, enum gang_mode *ret)
{
    int i = from_string(gang_modes, GANG_MAX, text, strcmp);
    if (i < 0)
        return i;
    *ret = (enum gang_mode)i;
    return 0;
}

const char *restart_policy_to_string(enum restart_policy p)
{
    return to_string(restart_policies, RESTART_MAX, (int)p);
}

int restart_policy_from_string(const char *text, enum restart_policy *ret)
{
    int i = from_string(restart_policies, RESTART_MAX, text, strcmp);
    if (i < 0)
        return i;
    *ret = (enum restart_policy)i;
    return 0;
}

const char *node_lost_action_to_string(enum node_lost_action a)
{
    return to_string(node_lost_actions, NODE_LOST_MAX, (int)a);
}

int node_lost_action_from_string(const char *text, enum node_lost_action *ret)
{
    int i = from_string(node_lost_actions, NODE_LOST_MAX, text, strcmp);
    if (i < 0)
        return i;
    *ret = (enum node_lost_action)i;
    return 0;
}

const char *network_mode_to_string(enum network_mode m)
{
    return to_string(network_modes, NETWORK_MAX, (int)m);
}

int network_mode_from_string(const char *text, enum network_mode *ret)
{
    int i = from_string(network_modes, NETWORK_MAX, text, strcmp);
    if (i < 0)
        return i;
    *ret = (enum network_mode)i;
    return 0;
}

const char *after_when_to_string(enum after_when w)
{
    return to_string(after_whens, AFTER_MAX, (int)w);
}

int after_when_from_string(const char *text, enum after_when *ret)
{
    int i = from_string(after_whens, AFTER_MAX, text, strcmp);
    if (i < 0)
        return i;
    *ret = (enum after_when)i;
    return 0;
}

static void list_free(char **list)
{
    for (char **p = list; p && *p; p++)
        free(*p);
    free(list);
}

static void component_reset(struct job_component *c)
{
    free(c->name);
    free(c->image);
    list_free(c->command);
    list_free(c->near);
    list_free(c->apart);
    for (size_t i = 0; i < c->n_mounts; i++) {
        free(c->mounts[i].source);
        free(c->mounts[i].target);
    }
    free(c->mounts);
    for (size_t i = 0; i < c->n_secrets; i++) {
        free(c->secrets[i].name);
        free(c->secrets[i].path);
    }
    free(c->secrets);
    for (size_t i = 0; i < c->n_env; i++) {
        free(c->env[i].key);
        free(c->env[i].value);
    }
    free(c->env);
    free(c->where);
    free(c->gpu_model);
    job_health_free(c->health);
}

struct job_spec *job_spec_ref(struct job_spec *spec)
{
    spec->refs++;
    return spec;
}

void job_spec_free(struct job_spec *spec)
{
    if (!spec || spec->refs-- > 0)
        return;
    for (size_t i = 0; i < spec->n_components; i++)
        component_reset(&spec->components[i]);
    free(spec->components);
    for (size_t i = 0; i < spec->n_after; i++)
        free(spec->after[i].job);
    free(spec->after);
    job_array_reset(&spec->array);
    free(spec->name);
    json_decref(spec->tags);
    free(spec);
}

void job_problems_free(struct job_problems *p)
{
    free(p->items);
    *p = (struct job_problems){0};
}

void job_warnings_free(struct job_warnings *w)
{
    for (size_t i = 0; i < w->count; i++)
        free(w->items[i]);
    free(w->items);
    *w = (struct job_warnings){0};
}

int job_spec_total_tasks(const struct job_spec *spec)
{
    int total = 0;
    for (size_t i = 0; i < spec->n_components; i++)
        total += spec->components[i].num;
    return total;
}
