// SPDX-License-Identifier: Apache-2.0
// A small random cluster and its jobs for test_properties.c: what they are, what runs, and what is
// stopped for others.
#pragma once

#include "master/scheduler/queue.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NODES 3
#define JOBS 24
#define TASKS 3
#define USERS 3
#define STEPS 30
#define GIB (INT64_C(1) << 30)

static uint64_t state, seed_now;
static unsigned pick(unsigned n) // 0 .. n - 1
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)((state >> 33) % n);
}

struct want {
    char id[8];
    struct plan_demand demands[TASKS];
    struct plan_shape shape;
    struct plan_entry entry;
    struct plan_task got[TASKS];
    enum { ABSENT, WAITS, RUNS, OVER } is;
    unsigned started_in; // run
    bool preemptible, stopping, stuck;
    bool again; // it was stopped: a younger one may have become the head meanwhile, and stays it
    unsigned stopped_in;   // run
    const struct want *by; // for which it was stopped
};

static struct plan_node nodes[NODES];
static uint64_t ports[NODES];
static struct plan_index *index_of;
static struct plan_queue *queue;
static struct plan_policy policy;
static bool policy_preempts;
static struct want wants[JOBS];
static size_t n_wants;
static int64_t now;
static struct plan_account accounts[USERS];
static unsigned runs, in_run, most_in_run;
static uint64_t digest; // of all that was decided
static const char *const users[USERS] = {"ann", "bob", "cy"};
static const char *const node_names[NODES] = {"n0", "n1", "n2"};
static const struct want *watched; // the oldest job of the highest priority that waits
static unsigned overtaken;
static const struct want *stopped_for; // in this run, the last one
static unsigned long seen_overtakes, seen_explained, seen_gangs, seen_starts, seen_stops;

// As ck_assert_msg, which tells the test's parent each time that it was passed.
#define CHECK(what, ...)                                                                           \
    do {                                                                                           \
        if (!(what))                                                                               \
            ck_abort_msg("SEED=%lu run %u: " __VA_ARGS__);                                         \
    } while (0)
#define AT (unsigned long)seed_now, runs

static size_t user_at(const struct want *w)
{
    size_t u = 0;
    while (strcmp(users[u], w->shape.user) != 0)
        u++;
    return u;
}

// --- what runs ---

static int64_t end_of(const struct want *w)
{
    return w->stopping && !w->stuck ? now + 1000 : PLAN_NEVER;
}

static int running(const struct plan_running **ret, size_t *ret_n, void *userdata)
{
    static struct plan_running list[JOBS * TASKS];
    size_t n = 0;
    (void)userdata;
    for (size_t k = 0; k < n_wants; k++)
        for (size_t i = 0; wants[k].is == RUNS && i < wants[k].shape.n_demands; i++) {
            const struct plan_task *t = &wants[k].got[i];
            list[n++] = (struct plan_running){.node = (size_t)t->node,
                                              .granted = t->granted,
                                              .gpus = t->gpus,
                                              .ports = t->port,
                                              .n_ports = t->demand.ports,
                                              .end_ms = end_of(&wants[k])};
        }
    *ret = list;
    *ret_n = n;
    return 0;
}

// --- stopping for others ---

static int victims(int priority, struct plan_victim **ret, size_t *ret_n, void *userdata)
{
    static struct plan_victim list[JOBS];
    static struct plan_running tasks[JOBS * TASKS];
    const struct plan_running *all;
    size_t n = 0, at = 0, n_all;
    CHECK(running(&all, &n_all, userdata) == 0, "out of memory", AT);
    for (size_t k = 0; k < n_wants; k++) {
        struct want *w = &wants[k];
        if (w->is != RUNS)
            continue;
        if (w->stopping || (w->preemptible && w->shape.priority < priority))
            list[n++] = (struct plan_victim){.id = w->id,
                                             .priority = w->shape.priority,
                                             .tasks = &tasks[at],
                                             .n_tasks = w->stuck ? 0 : w->shape.n_demands,
                                             .stopping = w->stopping,
                                             .job = w};
        memcpy(&tasks[at], all, w->shape.n_demands * sizeof(*all));
        at += w->shape.n_demands;
        all += w->shape.n_demands;
    }
    *ret = list;
    *ret_n = n;
    return 0;
}

static void preempt(const struct plan_entry *e, const struct plan_victim *v, void *userdata)
{
    struct want *w = v->job;
    (void)userdata;
    stopped_for =
        (const struct want *)(const void *)((const char *)e - offsetof(struct want, entry));
    CHECK(w->is == RUNS && w->preemptible && !w->stopping, "%s is stopped", AT, w->id);
    CHECK(w->shape.priority < stopped_for->shape.priority, "%s is stopped for an equal", AT, w->id);
    w->stopping = true;
    w->stopped_in = runs;
    w->by = stopped_for;
    seen_stops++;
}

static void take_back(struct plan_node *n, const struct plan_task *t)
{
    n->free.cpu_milli += t->granted.cpu_milli;
    n->free.memory += t->granted.memory;
    n->free.gpu += t->granted.gpu;
    n->gpus_free |= t->gpus;
    for (int p = 0; p < t->demand.ports; p++)
        n->ports.taken[0] &= ~(UINT64_C(1) << (t->port[p] - 1000));
}

// Whether the job fits once all that are being stopped have ended, but for one.
static bool fits_without(const struct want *w, const struct want *but)
{
    struct plan_node copy[NODES];
    uint64_t copy_ports[NODES];
    struct plan_task tasks[TASKS];
    struct plan_job job = {.id = w->id,
                           .alloc = w->shape.alloc,
                           .tasks = tasks,
                           .n_tasks = w->shape.n_demands},
                    *list = &job;
    memcpy(copy, nodes, sizeof(copy));
    memcpy(copy_ports, ports, sizeof(copy_ports));
    for (size_t i = 0; i < NODES; i++)
        copy[i].ports.taken = &copy_ports[i];
    for (size_t k = 0; k < n_wants; k++)
        for (size_t t = 0; wants[k].stopping && &wants[k] != but && t < wants[k].shape.n_demands;
             t++)
            take_back(&copy[wants[k].got[t].node], &wants[k].got[t]);
    for (size_t i = 0; i < job.n_tasks; i++)
        tasks[i] = (struct plan_task){.demand = w->demands[i]};
    CHECK(plan_run(copy, NODES, &list, 1) == 0, "out of memory", AT);
    return job.placed;
}

// What was stopped in this run makes room for the head, and no part of it would.
static void check_stopped(void)
{
    const struct want *w = stopped_for;
    const char *head = plan_queue_head(queue).id;
    stopped_for = NULL;
    if (!w || w->is != WAITS || head != w->id)
        return;
    for (size_t k = 0; k < n_wants;
         k++) // not counted on; and who comes before the head takes its room
        if (wants[k].stuck || (wants[k].is == RUNS && wants[k].started_in == runs &&
                               wants[k].shape.priority > w->shape.priority))
            return;
    CHECK(fits_without(w, NULL), "%s does not fit in what is stopped for it", AT, w->id);
    for (size_t k = 0; k < n_wants; k++)
        CHECK(!wants[k].stopping || wants[k].stopped_in != runs || wants[k].by != w ||
                  !fits_without(w, &wants[k]),
              "%s is stopped for nothing", AT, wants[k].id);
}
