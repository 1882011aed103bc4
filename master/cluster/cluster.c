// SPDX-License-Identifier: Apache-2.0
// The cluster context: marks, the turn's collect, and publishing when the batch is durable. Verbs
// on nodes, jobs and tasks are in their own files; they change memory and call a mark from here.
// One batch at a time is under way (store/commit.c), so what a collect captured is published before
// the next collect runs.
#include "master/cluster/cluster_internal.h"

#include "common/clock.h"
#include "common/json.h"
#include "common/limits.h"
#include "common/log.h"
#include "master/cluster/array.h"
#include "master/cluster/dependency.h"
#include "master/cluster/job_limits.h"
#include "master/scheduler/scheduler.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

static void publish(int result, void *userdata);

void mark(struct cluster *c)
{
    if (c->marked || !c->commit)
        return;
    c->marked = true;
    commit_mark(c->commit);
    if (commit_then(c->commit, 0, publish, c) < 0)
        log_error("cluster", "out of memory: events and assignments of this turn are late");
}

void node_dirty(struct cluster *c, struct node *n)
{
    if (!n->dirty) {
        n->dirty = true;
        n->dirty_next = c->dirty_nodes;
        c->dirty_nodes = n;
    }
    scheduler_node_stale(c, n);
    mark(c);
}

void job_dirty(struct cluster *c, struct job *j)
{
    if (!j->dirty) {
        j->dirty = true;
        j->dirty_next = c->dirty_jobs;
        c->dirty_jobs = j;
    }
    mark(c);
}

void task_dirty(struct cluster *c, struct task *t)
{
    if (!t->dirty) {
        t->dirty = true;
        t->dirty_next = c->dirty_tasks;
        c->dirty_tasks = t;
    }
    mark(c);
}

void node_changed(struct cluster *c, struct node *n)
{
    if (!n->changed) {
        n->changed = true;
        n->changed_next = c->changed_nodes;
        c->changed_nodes = n;
    }
    mark(c);
}

void want_schedule(struct cluster *c)
{
    mark(c);
}

#define TRIM_AFTER_EVENTS 1000

// JSON of large answers and batches comes and goes in bursts and leaves the heap large.
void give_back_memory(struct cluster *c)
{
    bool quiet = c->last_event == c->seen_event;
    c->seen_event = c->last_event;
    if (!quiet || c->last_event - c->trimmed_event < TRIM_AFTER_EVENTS)
        return;
    c->trimmed_event = c->last_event;
    (void)malloc_trim(0);
}

// --- the batch ---

static void collect_extras(struct cluster *c)
{
    for (size_t i = 0; i < c->n_extras; i++) {
        struct extra_record *x = &c->extras[i];
        if (x->json)
            commit_put(c->commit, x->key, x->json, x->ttl_ms);
        else
            commit_del(c->commit, x->key);
        free(x->key);
    }
    c->n_extras = 0;
}

static void collect_nodes(struct cluster *c)
{
    char key[8 + ID_BYTES];
    for (struct node *n = c->dirty_nodes; n; n = n->dirty_next) {
        (void)snprintf(key, sizeof(key), "node:%s", n->id);
        if (n->gone)
            commit_del(c->commit, key);
        else
            commit_put(c->commit, key, node_to_record(n), 0);
        n->dirty = false;
    }
    c->dirty_nodes = NULL;
}

static void task_key(const struct task *t, char *out, size_t size)
{
    (void)snprintf(out, size, "task:");
    task_name(t, out + 5, size - 5);
}

// A deleted job's task records that exist go with it.
static void collect_deleted(struct cluster *c, struct job *j)
{
    char key[320];
    (void)snprintf(key, sizeof(key), "job:%s", j->id);
    commit_del(c->commit, key);
    for (int i = 0; i < j->n_tasks; i++)
        if (j->tasks[i].attempt > 0 || j->tasks[i].state != TASK_PENDING) {
            task_key(&j->tasks[i], key, sizeof(key));
            commit_del(c->commit, key);
        }
}

static void collect_jobs(struct cluster *c)
{
    char key[320];
    for (struct task *t = c->dirty_tasks; t; t = t->dirty_next) {
        t->dirty = false;
        if (t->job->deleted)
            continue;
        task_key(t, key, sizeof(key));
        commit_put(c->commit, key, task_to_record(t), 0);
    }
    c->dirty_tasks = NULL;
    struct job *next;
    for (struct job *j = c->dirty_jobs; j; j = next) {
        next = j->dirty_next;
        j->dirty = false;
        if (j->deleted) {
            collect_deleted(c, j);
            job_free(j);
            continue;
        }
        (void)snprintf(key, sizeof(key), "job:%s", j->id);
        commit_put(c->commit, key, job_to_record(j), 0);
    }
    c->dirty_jobs = NULL;
}

// Remembers which nodes to wake, and how far, when this batch is durable.
static void capture_publication(struct cluster *c)
{
    size_t n = 0;
    for (struct node *x = c->changed_nodes; x; x = x->changed_next)
        n++;
    if (c->n_publishing)
        publish(0, c); // its callback could not be registered; that batch is durable by now
    struct node **nodes = realloc(c->publishing, (n + 1) * sizeof(*nodes));
    if (nodes)
        c->publishing = nodes;
    int64_t *generations = realloc(c->publishing_generation, (n + 1) * sizeof(*generations));
    if (generations)
        c->publishing_generation = generations;
    if (!nodes || !generations)
        return; // they stay in the list of changed nodes and are published with the next batch
    for (struct node *x = c->changed_nodes; x; x = x->changed_next) {
        c->publishing[c->n_publishing] = x;
        c->publishing_generation[c->n_publishing++] = x->generation;
        x->changed = false;
    }
    c->changed_nodes = NULL;
    c->publishing_event = c->collected_event;
}

void cluster_collect(void *userdata)
{
    struct cluster *c = userdata;
    dependency_collect(c);
    bool more = !c->options.restored && scheduler_run(c);
    scheduler_collect(c);
    // The store may cut a large batch: answers kept for repeats come after what they tell of, so
    // that none can survive a crash without it.
    collect_nodes(c);
    collect_jobs(c);
    collect_extras(c);
    event_collect(c);
    capture_publication(c);
    c->marked = false;
    if (more)
        want_schedule(c);
}

static void publish(int result, void *userdata)
{
    struct cluster *c = userdata;
    if (result < 0)
        return; // closing
    size_t n = c->n_publishing;
    c->n_publishing = 0;
    for (size_t i = 0; i < n; i++)
        c->publishing[i]->published_generation = c->publishing_generation[i];
    event_publish(c, c->publishing_event);
    for (size_t i = 0; i < n; i++)
        c->options.assignment_moved(c->publishing[i], c->options.userdata);
}

static struct extra_record *extra_new(struct cluster *c, const char *key)
{
    if (c->n_extras == c->extras_capacity) {
        size_t capacity = c->extras_capacity ? c->extras_capacity * 2 : 16;
        struct extra_record *x = realloc(c->extras, capacity * sizeof(*x));
        if (!x)
            return NULL;
        c->extras = x;
        c->extras_capacity = capacity;
    }
    struct extra_record *x = &c->extras[c->n_extras];
    *x = (struct extra_record){.key = strdup(key)};
    if (x->key)
        c->n_extras++;
    return x->key ? x : NULL;
}

void cluster_put(struct cluster *c, const char *key, char *json, int64_t ttl_ms)
{
    struct extra_record *x = json ? extra_new(c, key) : NULL;
    if (!x) {
        log_error("cluster", "out of memory: record %s is not written", key);
        free(json);
        return;
    }
    x->json = json;
    x->ttl_ms = ttl_ms;
    mark(c);
}

void cluster_del(struct cluster *c, const char *key)
{
    if (!extra_new(c, key))
        log_error("cluster", "out of memory: record %s is not deleted", key);
    mark(c);
}

// --- life ---

struct cluster *cluster_new(const struct cluster_options *o)
{
    struct cluster *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->options = *o;
    c->id = strdup(o->id);
    c->name = strdup(o->name);
    c->events = calloc(CLUSTER_EVENTS_KEPT, sizeof(*c->events));
    c->event_limit = event_limit_new(LIMIT_NODE_EVENTS_PER_S, LIMIT_NODE_EVENTS_BURST);
    c->first_event = 1;
    job_limits_init(c);
    task_waits_init(c);
    c->scheduler = scheduler_new(o);
    if (!c->scheduler || !c->id || !c->name || !c->events || !c->event_limit) {
        cluster_free(c);
        return NULL;
    }
    return c;
}

int cluster_put_aside(struct loaded_record **list, const json_t *r, struct err *e)
{
    struct loaded_record *l = malloc(sizeof(*l));
    if (!l)
        return err_set(e, -ENOMEM, "out of memory");
    *l = (struct loaded_record){json_incref((json_t *)(uintptr_t)r), *list};
    *list = l;
    return 0;
}

int cluster_load(struct cluster *c, const char *key, const char *json, size_t len, struct err *e)
{
    static const struct {
        const char *prefix;
        int (*load)(struct cluster *c, const json_t *j, struct err *e);
    } kinds[] = {{"node:", node_from_record},
                 {"job:", job_from_record},
                 {"gone:", gone_from_record},
                 {"user:", user_from_record},
                 {"team:", team_from_record},
                 {"queue_head", scheduler_head_from_record},
                 {"task:", task_load},
                 {"lease_grant", grant_from_record},
                 {"secret:", secret_from_record},
                 {"usage:", scheduler_usage_from_record}};

    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        if (strncmp(key, kinds[i].prefix, strlen(kinds[i].prefix)) != 0)
            continue;
        json_t *j = NULL;
        int r = json_parse(json, len, &j, e);
        if (r < 0)
            return err_wrap(e, r, "record %s", key);
        r = kinds[i].load(c, j, e);
        json_decref(j);
        return r < 0 ? err_wrap(e, r, "record %s", key) : 0;
    }
    return -ENOENT;
}

static int link_list(struct cluster *c, struct loaded_record **list,
                     int (*from_record)(struct cluster *c, const json_t *r, struct err *e),
                     struct err *e)
{
    int r = 0;
    while (*list) {
        struct loaded_record *l = *list;
        *list = l->next;
        if (r == 0)
            r = from_record(c, l->json, e);
        json_decref(l->json);
        free(l);
    }
    return r;
}

static int link_loaded(struct cluster *c, struct err *e)
{
    int r = link_list(c, &c->loaded_elements, array_element_from_record, e);
    return r < 0 ? r : link_list(c, &c->loaded, task_from_record, e);
}

// A large batch reaches the store in pieces: what an end has not reached yet, it reaches now.
static void resume(struct cluster *c, struct job *j)
{
    for (int i = 0; j->elements && i < j->spec->array.count; i++)
        if (j->elements->made[i])
            resume(c, j->elements->made[i]);
    j->preempting &= j->n_held > 0; // its node may be gone
    job_queue_update(c, j);
    job_limits_update(c, j);
    if (!j->array)
        dependency_relink(c, j);
    if (j->elements && j->state == JOB_STOPPING)
        array_end(c, j, NULL, j->reason);
    job_refresh(c, j);
    if (j->elements)
        array_next(c, j);
}

int cluster_start(struct cluster *c, struct commit *commit, int64_t epoch, int64_t last_event,
                  struct err *e)
{
    int r = link_loaded(c, e);
    if (r < 0)
        return r;
    if (job_lists_start(c) < 0 || history_start(c) < 0)
        return err_set(e, -ENOMEM, "out of memory");
    c->commit = commit;
    c->epoch = epoch;
    if (!c->events_loaded)
        c->first_event = last_event + 1;
    c->last_event = c->collected_event = c->published_event = last_event;
    r = liveness_start(c);
    if (r < 0)
        return err_errno(e, r, "timers");
    r = job_limits_start(c, e);
    if (r < 0)
        return r;
    job_drop_start(c);
    for (struct job *j = c->oldest; j; j = j->next)
        resume(c, j);
    settle_start(c);
    task_timers(c);
    node_timer_arm(c);
    secret_reseal_all(c);
    want_schedule(c);
    (void)malloc_trim(0); // what reading the records took
    return 0;
}

void cluster_close(struct cluster *c, void (*closed)(void *userdata), void *userdata)
{
    c->closed = closed;
    c->closed_userdata = userdata;
    job_limits_stop(c);
    liveness_stop(c);
}

static void forget_loaded(struct cluster *c)
{
    struct loaded_record **lists[2] = {&c->loaded, &c->loaded_elements};
    for (int i = 0; i < 2; i++)
        while (*lists[i]) { // a start that failed before they were linked
            struct loaded_record *l = *lists[i];
            *lists[i] = l->next;
            json_decref(l->json);
            free(l);
        }
}

void cluster_free(struct cluster *c)
{
    if (!c)
        return;
    struct job *j, *j_next;
    forget_loaded(c);
    scheduler_free(c->scheduler);            // it points into jobs
    for (j = c->dirty_jobs; j; j = j_next) { // deleted ones are in no other list
        j_next = j->dirty_next;
        if (j->deleted)
            job_free(j);
    }
    HASH_ITER (hh, c->jobs, j, j_next) {
        HASH_DEL(c->jobs, j);
        job_free(j);
    }
    job_drop_free(c);
    if (c->preview)
        job_free(c->preview);
    HASH_CLEAR(hh_name, c->nodes_by_name);
    HASH_CLEAR(hh_key, c->nodes_by_key);
    struct node *n, *n_next;
    HASH_ITER (hh, c->nodes, n, n_next) {
        HASH_DEL(c->nodes, n);
        node_destroy(n);
    }
    gone_free_all(c);
    job_lists_free(c);
    for (size_t i = 0; i < c->n_extras; i++) {
        free(c->extras[i].key);
        free(c->extras[i].json);
    }
    event_free_all(c);
    user_free_all(c);
    team_free_all(c);
    job_limits_free(c);
    heap_reset(&c->waits);
    free(c->lost.logs);
    secret_free_all(c);
    free(c->extras);
    free(c->publishing);
    free(c->publishing_generation);
    free(c->id);
    free(c->name);
    free(c);
}

struct commit *cluster_commit(struct cluster *c)
{
    return c->commit;
}

const char *cluster_id(const struct cluster *c)
{
    return c->id;
}

const char *cluster_name(const struct cluster *c)
{
    return c->name;
}

int64_t cluster_epoch(const struct cluster *c)
{
    return c->epoch;
}

const struct cluster_options *cluster_settings(const struct cluster *c)
{
    return &c->options;
}
