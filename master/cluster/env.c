// SPDX-License-Identifier: Apache-2.0
// The environment of an attempt: MARO's names, the convention of distributed frameworks, and
// meadow's own, as far as they are the same on every machine (docs/job-file.md lists them). The
// agent adds what only the node knows.
#include "common/cleanup.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "master/cluster/cluster_internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct env {
    struct job_env *items;
    size_t n, capacity;
    bool failed;
};

static void put(struct env *v, const char *key, const char *value)
{
    if (v->n == v->capacity) {
        size_t capacity = v->capacity ? v->capacity * 2 : 32;
        struct job_env *items = realloc(v->items, capacity * sizeof(*items));
        if (!items) {
            v->failed = true;
            return;
        }
        v->items = items;
        v->capacity = capacity;
    }
    struct job_env *x = &v->items[v->n];
    x->key = strdup(key);
    x->value = strdup(value);
    v->n++;
    if (!x->key || !x->value)
        v->failed = true;
}

static void put_int(struct env *v, const char *key, int64_t value)
{
    char text[24];
    (void)snprintf(text, sizeof(text), "%lld", (long long)value);
    put(v, key, text);
}

static const char *address(const struct task *t)
{
    return t->node ? json_opt_str(t->node->info, "address", "127.0.0.1") : "127.0.0.1";
}

// "host:port" of every task of the component by index; bare host without ports; empty between
// commas while one is not placed.
static void put_addrs(struct env *v, const struct job *j, size_t k)
{
    char key[NAME_BYTES + 32];
    cleanup_strbuf struct strbuf list = {0};
    const struct job_component *x = &j->spec->components[k];

    int n = snprintf(key, sizeof(key), "MEADOW_%.63s_ADDRS", x->name);
    for (int i = 0; i < n; i++)
        key[i] = isalnum((unsigned char)key[i]) ? (char)toupper((unsigned char)key[i]) : '_';
    for (int i = 0; i < x->num; i++) {
        const struct task *t = &j->tasks[j->first[k] + i];
        if (i)
            strbuf_append(&list, ",", 1);
        if (!t->node)
            continue;
        strbuf_puts(&list, address(t));
        if (x->ports > 0)
            strbuf_printf(&list, ":%u", t->ports[0]);
    }
    if (list.failed)
        v->failed = true;
    put(v, key, list.data ? list.data : "");
}

static void put_maro(struct env *v, const struct cluster *c, const struct task *t)
{
    char id[192];
    const struct job_component *k = task_component(t);
    put(v, "CLUSTER_ID", c->id);
    put(v, "CLUSTER_NAME", c->name);
    put(v, "NODE_ID", t->node ? t->node->id : "");
    put(v, "NODE_NAME", t->node_name);
    put(v, "JOB_ID", t->job->id);
    put(v, "JOB_NAME", t->job->name);
    (void)snprintf(id, sizeof(id), "%s-%s", t->job->id, k->name);
    put(v, "COMPONENT_ID", id);
    put(v, "COMPONENT_TYPE", k->name);
    put_int(v, "COMPONENT_INDEX", t->index);
    put(v, "PYTHONUNBUFFERED", "1");
}

static void put_framework(struct env *v, const struct task *t)
{
    const struct job *j = t->job;
    const struct task *zero = &j->tasks[j->first[t->component]];
    int local = 0;
    for (const struct task *x = zero; x < t; x++)
        if (x->node == t->node)
            local++;
    put_int(v, "RANK", t->index);
    put_int(v, "WORLD_SIZE", task_component(t)->num);
    put_int(v, "LOCAL_RANK", local);
    put(v, "MASTER_ADDR", address(zero));
    // Index 0 has one port more than its component asks for: the last.
    if (zero->n_ports > 0)
        put_int(v, "MASTER_PORT", zero->ports[zero->n_ports - 1]);
}

// Of an array's element; Slurm's names too, for scripts that know them.
static void put_array(struct env *v, const struct job *j)
{
    const struct job_array *a = &j->spec->array;
    if (!j->array)
        return;
    int index = job_array_index(a, j->number);
    put_int(v, "MEADOW_ARRAY_INDEX", index);
    put(v, "MEADOW_ARRAY_JOB", j->array->id);
    put_int(v, "MEADOW_ARRAY_COUNT", a->count);
    put_int(v, "SLURM_ARRAY_TASK_ID", index);
    put(v, "SLURM_ARRAY_JOB_ID", j->array->id);
    put_int(v, "SLURM_ARRAY_TASK_COUNT", a->count);
    put_int(v, "SLURM_ARRAY_TASK_MIN", job_array_index(a, 0));
    put_int(v, "SLURM_ARRAY_TASK_MAX", job_array_index(a, a->count - 1));
}

static void put_meadow(struct env *v, const struct task *t)
{
    char text[160];
    int asked = task_component(t)->ports;
    for (int i = 0; i < asked && i < t->n_ports; i++) {
        if (i == 0)
            (void)snprintf(text, sizeof(text), "PORT");
        else
            (void)snprintf(text, sizeof(text), "PORT%d", i);
        put_int(v, text, t->ports[i]);
    }
    put_int(v, "MEADOW_ATTEMPT", t->attempt);
    (void)snprintf(text, sizeof(text), "cpu=%lldm,memory=%lld,gpu=%lld",
                   (long long)t->granted.cpu_milli, (long long)t->granted.memory,
                   (long long)t->granted.gpu);
    put(v, "MEADOW_RESOURCES", text);
    put_array(v, t->job);
    for (size_t k = 0; k < t->job->spec->n_components; k++)
        put_addrs(v, t->job, k);
}

static bool has(const struct env *v, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(v->items[i].key, key) == 0)
            return true;
    return false;
}

int attempt_env(struct cluster *c, const struct task *t, struct job_env **ret, size_t *ret_n)
{
    struct env v = {0};
    const struct job_component *k = task_component(t);
    put_maro(&v, c, t);
    put_framework(&v, t);
    put_meadow(&v, t);
    size_t own = v.n;
    for (size_t i = 0; i < k->n_env; i++)
        if (!has(&v, own, k->env[i].key))
            put(&v, k->env[i].key, k->env[i].value);
    *ret = v.items;
    *ret_n = v.n;
    return v.failed ? -ENOMEM : 0;
}
