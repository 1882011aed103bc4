// SPDX-License-Identifier: Apache-2.0
// A job's groups: its components; then each job that they name; then the components of other jobs
// that name this one to keep off it.
#include "master/scheduler/scheduler_rules.h"

#include "common/strbuf.h"
#include "master/cluster/array.h"
#include "master/cluster/cluster_internal.h"
#include "master/scheduler/scheduler.h"
#include "master/scheduler/scheduler_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct other {  // behind a group that is not the job's own
    char *name; // all jobs of this name; NULL = a component of this one:
    char id[JOB_ID_BYTES];
    int component;
};

struct job_rules {
    struct plan_rules plan;
    struct strbuf key;
    struct plan_tie *ties;
    size_t ties_capacity;
    const char *names[PLAN_GROUPS_MAX]; // owned beyond n_own
    struct other others[PLAN_GROUPS_MAX];
    bool failed;
};

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
    for (size_t g = r->plan.n_own; g < r->plan.n_groups; g++) {
        free((char *)(uintptr_t)r->names[g]);
        free(r->others[g].name);
    }
    free(r->ties);
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

// The group of another job; names and ids are in the key, where they stand for their numbers.
static size_t other_group(struct job_rules *r, const struct other *o, const char *shown)
{
    for (size_t g = r->plan.n_own; g < r->plan.n_groups; g++) {
        const struct other *x = &r->others[g];
        if (o->name ? x->name && strcmp(x->name, o->name) == 0
                    : !x->name && strcmp(x->id, o->id) == 0 && x->component == o->component)
            return g;
    }
    if (r->plan.n_groups == PLAN_GROUPS_MAX)
        return SIZE_MAX; // as many as there is room for; its own were checked to be fewer
    size_t g = r->plan.n_groups++;
    r->others[g] = *o;
    r->others[g].name = o->name ? strdup(o->name) : NULL;
    r->names[g] = strdup(shown);
    r->failed |= !r->names[g] || (o->name && !r->others[g].name);
    strbuf_printf(&r->key, "%zu=%s/%s/%d ", g, o->name ? o->name : "", o->id, o->component);
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
            with = other_group(r, &(struct other){.name = (char *)(uintptr_t)job}, *p);
        if (with != SIZE_MAX)
            add_tie(r, k, with, apart);
    }
}

// --- others that keep off this job ---

static bool keeps_off(const struct job_component *k, const char *job)
{
    for (char *const *p = k->apart; p && *p; p++)
        if (job_named(*p) && strcmp(job_named(*p), job) == 0)
            return true;
    return false;
}

// What others call it: an element goes by its array's name.
static const char *called(const struct job *j)
{
    return j->array ? j->array->name : j->name;
}

static void add_announced(struct cluster *c, struct job_rules *r, const struct job *j)
{
    struct job *a, *next;
    DL_FOREACH_SAFE2(c->scheduler->announced, a, next, announced_next)
    {
        if (a->state >= JOB_SUCCEEDED) {
            rules_withdraw(c, a);
            continue;
        }
        for (size_t k = 0; k < a->spec->n_components && strcmp(a->user, j->user) == 0; k++) {
            struct other o = {.component = (int)k};
            char shown[NAME_BYTES + 8];
            if (a == j || a == j->array || !keeps_off(&a->spec->components[k], called(j)))
                continue;
            memcpy(o.id, a->id, sizeof(o.id));
            (void)snprintf(shown, sizeof(shown), "job:%.63s", a->name);
            size_t with = other_group(r, &o, shown);
            for (size_t i = 0; i < j->spec->n_components && with != SIZE_MAX; i++)
                add_tie(r, i, with, true);
        }
    }
}

static void queue_anew(struct cluster *c, const char *name, const char *user)
{
    for (struct job *j = live_jobs_of_name(c, name); j; j = j->live_next)
        if (j->elements && strcmp(j->user, user) == 0)
            array_stale(c, j);
        else if (j->queued && strcmp(j->user, user) == 0)
            scheduler_job_stale(c, j);
}

void rules_announce(struct cluster *c, struct job *j)
{
    j = j->array ? j->array : j; // which speaks for all its elements
    if (j->announced || j->state >= JOB_SUCCEEDED)
        return;
    for (size_t k = 0; k < j->spec->n_components; k++)
        for (char *const *p = j->spec->components[k].apart; p && *p; p++) {
            if (!job_named(*p))
                continue;
            if (!j->announced)
                DL_APPEND2(c->scheduler->announced, j, announced_prev, announced_next);
            j->announced = true;
            queue_anew(c, job_named(*p), j->user);
        }
}

void rules_withdraw(struct cluster *c, struct job *j)
{
    if (j->announced)
        DL_DELETE2(c->scheduler->announced, j, announced_prev, announced_next);
    j->announced = false;
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

int rules_make(struct cluster *c, struct job *j)
{
    const struct job_spec *spec = j->spec;
    rules_free(j);
    if (!has_rules(spec) && !c->scheduler->announced)
        return 0;
    struct job_rules *r = calloc(1, sizeof(*r));
    if (!r)
        return -ENOMEM;
    j->rules = r;
    r->plan.n_own = r->plan.n_groups = spec->n_components;
    r->plan.names = r->names;
    r->plan.gang = spec->gang;
    strbuf_printf(&r->key, "%s ", gang_mode_to_string(spec->gang));
    for (size_t k = 0; k < spec->n_components; k++) {
        r->names[k] = spec->components[k].name;
        add_own(r, spec, k, false);
        add_own(r, spec, k, true);
    }
    add_announced(c, r, j);
    r->plan.key = r->key.data;
    if (r->failed || r->key.failed)
        return -ENOMEM;
    if (!has_rules(spec) && r->plan.n_ties == 0)
        rules_free(j);
    return 0;
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

int rules_peers(struct cluster *c, const struct job *j, const struct plan_peer **ret, size_t *ret_n)
{
    const struct job_rules *rules = j->rules;
    size_t n = 0;
    int r = 0;
    for (size_t g = 0; rules && g < rules->plan.n_groups && r == 0; g++) {
        const struct other *o = &rules->others[g];
        const struct job *named = o->id[0] ? cluster_job_by_id(c, o->id) : NULL;
        if (g < rules->plan.n_own)
            r = add_peers(c->scheduler, &n, j, (int)g, g);
        else if (o->name)
            r = add_named(c, &n, j, o->name, g);
        else if (named && named->elements)
            r = add_elements(c->scheduler, &n, named, o->component, g);
        else if (named)
            r = add_peers(c->scheduler, &n, named, o->component, g);
    }
    *ret = c->scheduler->peers;
    *ret_n = n;
    return r;
}
