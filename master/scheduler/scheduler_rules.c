// SPDX-License-Identifier: Apache-2.0
// A job's groups: its components; then each job that they name; then, as one, the components of
// other jobs that name this one to keep off it.
#include "master/scheduler/scheduler_rules.h"

#include "common/strbuf.h"
#include "master/cluster/array.h"
#include "master/cluster/cluster_internal.h"
#include "master/scheduler/scheduler.h"
#include "master/scheduler/scheduler_internal.h"
#include "master/scheduler/scheduler_keepers.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct job_rules {
    struct plan_rules plan;
    struct strbuf key;
    struct plan_tie *ties;
    size_t ties_capacity;
    const char **names; // of the groups: of components, then "job:NAME"; all borrowed from the spec
    size_t keepers;     // the group of those that keep off it; SIZE_MAX = there are none
    bool failed;
};

#define KEEPERS_SHOWN "a job that keeps off it"

const struct plan_rules *rules_of(const struct job *j)
{
    return j->rules ? &j->rules->plan : NULL;
}

void rules_free(struct job *j)
{
    struct job_rules *r = j->rules;
    j->rules = NULL;
    if (!r)
        return;
    free(r->ties);
    free(r->names);
    strbuf_reset(&r->key);
    free(r);
}

static void add_tie(struct job_rules *r, size_t group, size_t with, bool apart)
{
    if (r->plan.n_ties == r->ties_capacity) {
        size_t capacity = r->ties_capacity ? 2 * r->ties_capacity : 8;
        struct plan_tie *ties = realloc(r->ties, capacity * sizeof(*ties));
        if (!ties) {
            r->failed = true;
            return;
        }
        r->ties = ties;
        r->ties_capacity = capacity;
    }
    r->ties[r->plan.n_ties++] = (struct plan_tie){(uint16_t)group, (uint16_t)with, apart};
    r->plan.ties = r->ties;
    strbuf_printf(&r->key, "%zu%c%zu ", group, apart ? '-' : '+', with);
}

// The group of another job, "job:NAME", or of the keepers; in the key names stand for their
// numbers.
static size_t other_group(struct job_rules *r, const char *shown)
{
    for (size_t g = r->plan.n_own; g < r->plan.n_groups; g++)
        if (strcmp(r->names[g], shown) == 0)
            return g;
    size_t g = r->plan.n_groups++;
    r->names[g] = shown;
    strbuf_printf(&r->key, "%zu=%s ", g, shown);
    return g;
}

static void add_own(struct job_rules *r, const struct job_spec *spec, size_t k, bool apart)
{
    const struct job_component *c = &spec->components[k];
    for (char *const *p = apart ? c->apart : c->near; p && *p; p++) {
        const char *job = job_named(*p);
        size_t with = SIZE_MAX;
        for (size_t i = 0; !job && i < spec->n_components; i++)
            with = strcmp(spec->components[i].name, *p) == 0 ? i : with;
        if (job)
            with = other_group(r, *p);
        if (with != SIZE_MAX)
            add_tie(r, k, with, apart);
    }
}

static void add_keepers(struct cluster *c, struct job_rules *r, const struct job *j)
{
    if (!keepers_of(c, j))
        return;
    r->keepers = other_group(r, KEEPERS_SHOWN);
    strbuf_printf(&r->key, "/%s ", j->array ? j->array->name : j->name);
    for (size_t i = 0; i < r->plan.n_own; i++)
        add_tie(r, i, r->keepers, true);
}

// --- all of it ---

static bool has_rules(const struct job_spec *s)
{
    bool some = s->exclusive || s->gang;
    for (size_t k = 0; k < s->n_components && !some; k++) {
        const struct job_component *c = &s->components[k];
        some = c->exclusive || c->gang || c->near || c->apart;
    }
    return some;
}

// Its own components, each job that they name, and the keepers.
static size_t most_groups(const struct job_spec *spec)
{
    size_t n = spec->n_components + 1;
    for (size_t k = 0; k < spec->n_components; k++)
        for (int apart = 0; apart < 2; apart++) {
            char *const *p = apart ? spec->components[k].apart : spec->components[k].near;
            for (; p && *p; p++)
                n += job_named(*p) != NULL;
        }
    assert(n <= PLAN_GROUPS_MAX); // job files that name more are refused
    return n;
}

int rules_make(struct cluster *c, struct job *j)
{
    const struct job_spec *spec = j->spec;
    rules_free(j);
    if (!has_rules(spec) && !keepers_of(c, j))
        return 0;
    struct job_rules *r = calloc(1, sizeof(*r));
    if (!r)
        return -ENOMEM;
    j->rules = r;
    r->names = calloc(most_groups(spec), sizeof(*r->names));
    if (!r->names)
        return -ENOMEM;
    r->keepers = SIZE_MAX;
    r->plan.n_own = r->plan.n_groups = spec->n_components;
    r->plan.names = r->names;
    r->plan.gang = spec->gang;
    strbuf_printf(&r->key, "%s ", gang_mode_to_string(spec->gang));
    for (size_t k = 0; k < spec->n_components; k++)
        r->names[k] = spec->components[k].name;
    for (size_t k = 0; k < spec->n_components; k++) {
        add_own(r, spec, k, false);
        add_own(r, spec, k, true);
    }
    add_keepers(c, r, j);
    r->plan.key = r->key.data;
    return r->failed || r->key.failed ? -ENOMEM : 0;
}

// --- where they are ---

static int add_peer(struct scheduler *s, size_t *n, const struct task *t, size_t group)
{
    if (!t->holds_node || !t->node)
        return 0;
    if (*n == s->peers_capacity) {
        size_t capacity = *n ? 2 * *n : 64;
        struct plan_peer *peers = realloc(s->peers, capacity * sizeof(*peers));
        if (!peers)
            return -ENOMEM;
        s->peers = peers;
        s->peers_capacity = capacity;
    }
    s->peers[(*n)++] = (struct plan_peer){t->node->plan_slot, (uint16_t)group};
    return 0;
}

// component -1 = all, each in the group of its number.
static int add_peers(struct scheduler *s, size_t *n, const struct job *j, int component,
                     size_t group)
{
    int r = 0;
    for (int i = 0; j->n_held > 0 && i < j->n_tasks && r == 0; i++)
        if (component < 0 || j->tasks[i].component == component)
            r = add_peer(s, n, &j->tasks[i], group);
    return r;
}

static int add_elements(struct scheduler *s, size_t *n, const struct job *array, int component,
                        size_t group)
{
    int r = 0;
    for (int i = 0; i < array->spec->array.count && r == 0; i++)
        if (array->elements->made[i])
            r = add_peers(s, n, array->elements->made[i], component, group);
    return r;
}

static int add_named(struct cluster *c, size_t *n, const struct job *j, const char *name,
                     size_t group)
{
    int r = 0;
    for (const struct job *o = live_jobs_of_name(c, name); o && r == 0; o = o->live_next)
        if (o != j && strcmp(o->user, j->user) == 0)
            r = o->elements ? add_elements(c->scheduler, n, o, -1, group)
                            : add_peers(c->scheduler, n, o, -1, group);
    return r;
}

static int add_keeping(struct cluster *c, size_t *n, const struct job *j, size_t group)
{
    int r = 0;
    for (const struct keeper *k = keepers_of(c, j); k && r == 0; k = k->next)
        r = k->job->elements ? add_elements(c->scheduler, n, k->job, k->component, group)
                             : add_peers(c->scheduler, n, k->job, k->component, group);
    return r;
}

int rules_peers(struct cluster *c, const struct job *j, const struct plan_peer **ret, size_t *ret_n)
{
    const struct job_rules *rules = j->rules;
    size_t n = 0;
    int r = 0;
    for (size_t g = 0; rules && g < rules->plan.n_groups && r == 0; g++)
        if (g < rules->plan.n_own)
            r = add_peers(c->scheduler, &n, j, (int)g, g);
        else if (g == rules->keepers)
            r = add_keeping(c, &n, j, g);
        else
            r = add_named(c, &n, j, job_named(rules->names[g]), g);
    *ret = c->scheduler->peers;
    *ret_n = n;
    return r;
}
