// SPDX-License-Identifier: Apache-2.0
// A queue with the nodes and jobs of one table row, and what a run of it tells (queue_world.h).
#pragma once

#include "master/scheduler/images.h"
#include "master/scheduler/queue.h"
#include "test/unit/scheduler/plan_world.h"

#define SCENE_JOBS 64
#define SCENE_TASKS 16

struct scene_job {
    char id[8], user[8];
    struct plan_demand demands[SCENE_TASKS];
    struct plan_shape shape;
    char where[128];
    struct plan_tie ties[8];
    const char *names[SCENE_TASKS]; // of the groups
    char rules_key[128];
    char image[8];
    struct plan_rules rules;
    bool alone;
    struct plan_entry entry;
    struct plan_task got[SCENE_TASKS];
    int64_t started_ms;
    bool runs, preemptible, stopping;
};

struct scene {
    struct world world;
    struct plan_index *index;
    struct plan_queue *queue;
    struct scene_job jobs[SCENE_JOBS];
    size_t n_jobs;
    struct plan_images images;
    struct plan_holder *holders[WORLD_MAX];
    struct plan_label labels[WORLD_MAX][4];
    struct plan_card cards[WORLD_MAX][8];
    char label_texts[32][32];
    size_t n_label_texts;
    struct {
        char user[8], team[8];
        struct plan_account account;
    } accounts[8];
    size_t n_accounts;
    int64_t now_ms;
    struct plan_policy policy;
    char log[1024];
    size_t len;
};

#define SCENE_HALF_LIFE INT64_C(3600000)
#define SCENE_HOLD_AFTER INT64_C(600000)
#define SCENE_GRACE INT64_C(10000)

static void scene_say(struct scene *s, const char *text)
{
    int n = snprintf(s->log + s->len, sizeof(s->log) - s->len, "%s%s", s->len ? " " : "", text);
    s->len += n > 0 ? (size_t)n : 0;
    ck_assert_uint_lt(s->len, sizeof(s->log));
}

static void scene_hold(struct scene *s, struct scene_job *j, int sign)
{
    for (size_t i = 0; i < j->shape.n_demands; i++)
        ck_assert_int_eq(
            plan_queue_hold(s->queue, j->user, &j->got[i].granted, sign, i ? 0 : sign, s->now_ms),
            0);
    j->runs = sign > 0;
}

static bool scene_more(void *userdata)
{
    (void)userdata;
    return true;
}

static void scene_images(const struct plan_entry *e, struct plan_task *tasks, size_t n,
                         void *userdata)
{
    const struct scene *s = userdata;
    const struct scene_job *j =
        (const struct scene_job *)((const char *)e - offsetof(struct scene_job, entry));
    for (size_t i = 0; i < n; i++)
        tasks[i].demand.image = plan_images_find(&s->images, j->image);
}

static void scene_placed(struct plan_entry *e, const struct plan_task *tasks, size_t n,
                         void *userdata)
{
    struct scene *s = userdata;
    struct scene_job *j = (struct scene_job *)((char *)e - offsetof(struct scene_job, entry));
    char text[256];
    int len = snprintf(text, sizeof(text), "%s>", j->id);
    ck_assert_uint_eq(n, j->shape.n_demands);
    memcpy(j->got, tasks, n * sizeof(*tasks));
    for (size_t i = 0; i < n; i++)
        len += snprintf(text + len, sizeof(text) - (size_t)len, "%s%s", i ? "," : "",
                        s->world.nodes[tasks[i].node].name);
    j->started_ms = s->now_ms;
    scene_hold(s, j, 1);
    scene_say(s, text);
}

static int scene_running(const struct plan_running **ret, size_t *ret_n, void *userdata)
{
    static struct plan_running list[SCENE_JOBS * SCENE_TASKS];
    const struct scene *s = userdata;
    size_t n = 0;
    for (size_t k = 0; k < s->n_jobs; k++) {
        const struct scene_job *j = &s->jobs[k];
        int64_t end = j->started_ms + j->shape.bound_ms;
        bool known = j->shape.bound_ms && end > s->now_ms;
        if (j->stopping) {
            end = s->now_ms + SCENE_GRACE;
            known = true;
        }
        for (size_t i = 0; j->runs && i < j->shape.n_demands; i++)
            list[n++] = (struct plan_running){
                (size_t)j->got[i].node, j->got[i].granted,        j->got[i].gpus, j->got[i].port,
                j->got[i].demand.ports, known ? end : PLAN_NEVER, j->alone};
    }
    *ret = list;
    *ret_n = n;
    return 0;
}

static int scene_peers(const struct plan_entry *e, const struct plan_peer **ret, size_t *ret_n,
                       void *userdata)
{
    static struct plan_peer list[SCENE_JOBS * SCENE_TASKS];
    const struct scene *s = userdata;
    size_t n = 0;
    for (size_t g = e->rules->n_own; g < e->rules->n_groups; g++)
        for (size_t k = 0; k < s->n_jobs; k++)
            for (size_t i = 0; s->jobs[k].runs && i < s->jobs[k].shape.n_demands &&
                               strcmp(s->jobs[k].id, e->rules->names[g]) == 0;
                 i++)
                list[n++] = (struct plan_peer){(uint32_t)s->jobs[k].got[i].node, (uint16_t)g};
    *ret = list;
    *ret_n = n;
    return 0;
}

static int scene_victims(int priority, struct plan_victim **ret, size_t *ret_n, void *userdata)
{
    static struct plan_victim list[SCENE_JOBS];
    static struct plan_running tasks[SCENE_JOBS * SCENE_TASKS];
    struct scene *s = userdata;
    size_t n = 0, at = 0;
    for (size_t k = 0; k < s->n_jobs; k++) {
        struct scene_job *j = &s->jobs[k];
        if (!j->runs || !j->preemptible || (j->shape.priority >= priority && !j->stopping))
            continue;
        list[n++] = (struct plan_victim){
            .id = j->id,
            .priority = j->shape.priority,
            .since_ms = j->started_ms,
            .grace_ms = SCENE_GRACE,
            .tasks = &tasks[at],
            .n_tasks = j->shape.n_demands,
            .stopping = j->stopping,
            .job = j,
        };
        for (size_t i = 0; i < j->shape.n_demands; i++)
            tasks[at++] = (struct plan_running){
                (size_t)j->got[i].node, j->got[i].granted, j->got[i].gpus, j->got[i].port,
                j->got[i].demand.ports, PLAN_NEVER,        j->alone};
    }
    *ret = list;
    *ret_n = n;
    return 0;
}

static void scene_preempt(const struct plan_entry *e, const struct plan_victim *v, void *userdata)
{
    char text[32];
    struct scene_job *j = v->job;
    (void)snprintf(text, sizeof(text), "%s^%s", j->id, e->id);
    j->stopping = true;
    scene_say(userdata, text);
}

static void scene_run(struct scene *s)
{
    size_t before = s->len;
    if (!plan_queue_due(s->queue)) { // as the scheduler does
        scene_say(s, "-");
        return;
    }
    ck_assert_int_eq(plan_queue_run(s->queue, s->index,
                                    &(struct plan_queue_run){.more = scene_more,
                                                             .running = scene_running,
                                                             .peers = scene_peers,
                                                             .images = scene_images,
                                                             .victims = scene_victims,
                                                             .preempt = scene_preempt,
                                                             .placed = scene_placed,
                                                             .userdata = s,
                                                             .now_ms = s->now_ms}),
                     0);
    if (s->len == before)
        scene_say(s, "-");
}

static struct scene_job *scene_job(struct scene *s, const char *id)
{
    for (size_t i = 0; i < s->n_jobs; i++)
        if (strcmp(s->jobs[i].id, id) == 0)
            return &s->jobs[i];
    ck_abort_msg("no job %s", id);
}

static void scene_end(struct scene *s, struct scene_job *j)
{
    ck_assert_msg(j->runs, "%s does not run", j->id);
    for (size_t i = 0; i < j->shape.n_demands; i++) {
        const struct plan_task *t = &j->got[i];
        struct plan_node *n = &s->world.nodes[t->node];
        n->free.cpu_milli += t->granted.cpu_milli;
        n->free.memory += t->granted.memory;
        n->free.gpu += t->granted.gpu;
        n->gpus_free |= t->gpus;
        n->tasks--;
        n->exclusive -= j->alone;
        (void)plan_index_touch(s->index, (size_t)t->node);
    }
    scene_hold(s, j, -1);
    plan_queue_grew(s->queue);
    if (j->stopping)
        ck_assert_int_eq(plan_queue_add(s->queue, &j->entry, &j->shape), 0);
    j->stopping = false;
}
