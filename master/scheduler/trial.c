// SPDX-License-Identifier: Apache-2.0
// A copy of the nodes and of one job, to try things on.
#include "master/scheduler/trial.h"

#include <stdlib.h>
#include <string.h>

void trial_free(struct trial *t)
{
    plan_index_free(t->index);
    free(t->nodes);
    free(t->port_words);
    free(t->job.tasks);
    free(t->order);
}

static size_t port_words(const struct plan_node *n)
{
    return n->ports.taken ? (n->ports.count + 63u) / 64 : 0;
}

int trial_copy(struct trial *t, const struct plan_node *nodes, size_t n, const struct plan_job *job)
{
    size_t words = 0;
    for (size_t i = 0; i < n; i++)
        words += port_words(&nodes[i]);
    t->nodes = calloc(n + 1, sizeof(*t->nodes));
    t->port_words = calloc(words + 1, sizeof(*t->port_words));
    t->job = *job;
    t->job.tasks = calloc(job->n_tasks + 1, sizeof(*t->job.tasks));
    t->order = calloc(job->n_tasks + 1, sizeof(*t->order));
    if (!t->nodes || !t->port_words || !t->job.tasks || !t->order)
        return -ENOMEM;
    uint64_t *to = t->port_words;
    for (size_t i = 0; i < n; i++) {
        t->nodes[i] = nodes[i];
        if (!nodes[i].ports.taken)
            continue;
        memcpy(to, nodes[i].ports.taken, port_words(&nodes[i]) * sizeof(*to));
        t->nodes[i].ports.taken = to;
        to += port_words(&nodes[i]);
    }
    if (job->n_tasks)
        memcpy(t->job.tasks, job->tasks, job->n_tasks * sizeof(*job->tasks));
    struct plan_index *index = NULL;
    int r = plan_index_new(t->nodes, n, &index);
    t->index = index;
    return r;
}

void trial_give(struct trial *t, const struct plan_running *r)
{
    struct plan_node *n = &t->nodes[r->node];
    n->free.cpu_milli += r->granted.cpu_milli;
    n->free.memory += r->granted.memory;
    n->free.gpu += r->granted.gpu;
    n->gpus_free |= r->gpus;
    n->tasks--;
    n->exclusive -= r->exclusive;
    for (int i = 0; i < r->n_ports && n->ports.taken; i++) {
        unsigned at = (unsigned)r->ports[i] - n->ports.first;
        if (r->ports[i] >= n->ports.first && at < n->ports.count)
            n->ports.taken[at / 64] &= ~(UINT64_C(1) << (at % 64));
    }
    (void)plan_index_touch(t->index, r->node);
}

void trial_take(struct trial *t, const struct plan_running *r)
{
    struct plan_node *n = &t->nodes[r->node];
    n->free.cpu_milli -= r->granted.cpu_milli;
    n->free.memory -= r->granted.memory;
    n->free.gpu -= r->granted.gpu;
    n->gpus_free &= ~r->gpus;
    n->tasks++;
    n->exclusive += r->exclusive;
    for (int i = 0; i < r->n_ports && n->ports.taken; i++) {
        unsigned at = (unsigned)r->ports[i] - n->ports.first;
        if (r->ports[i] >= n->ports.first && at < n->ports.count)
            n->ports.taken[at / 64] |= UINT64_C(1) << (at % 64);
    }
    (void)plan_index_touch(t->index, r->node);
}
