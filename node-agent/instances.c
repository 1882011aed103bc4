// SPDX-License-Identifier: Apache-2.0
// A short list in a file.
#include "node-agent/instances.h"
#include "node-agent/state_file.h"
#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <stdio.h>
#include <string.h>

#define FILE_LIMIT 65536

static void path_of(const char *state_dir, char out[160])
{
    (void)snprintf(out, 160, "%s/identity/instances.json", state_dir);
}

static void drop_at(struct instances *x, size_t i)
{
    memmove(x->items[i], x->items[i + 1], (x->n - i - 1) * sizeof(*x->items));
    x->n--;
}

static void add(struct instances *x, const char *instance)
{
    if (x->n - x->n_answered == INSTANCES_TRIED_MAX)
        drop_at(x, x->n_answered);
    (void)snprintf(x->items[x->n++], INSTANCE_BYTES, "%s", instance);
}

static void take_list(struct instances *x, const json_t *list, size_t limit)
{
    size_t n = json_array_size(list);
    for (size_t i = n > limit ? n - limit : 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (text)
            add(x, text);
    }
}

static int load(const char *path, struct instances *x, struct err *e)
{
    cleanup_json json_t *j = NULL;
    int r = state_file_read(path, FILE_LIMIT, &j, e);
    if (r < 0)
        return r;
    take_list(x, json_object_get(j, "answered"), INSTANCES_ANSWERED_MAX);
    x->n_answered = x->n;
    take_list(x, json_object_get(j, "tried"), INSTANCES_TRIED_MAX);
    return 0;
}

static int store(const char *path, const struct instances *x, struct err *e)
{
    cleanup_json json_t *j = json_object();
    json_t *answered = json_array();
    json_t *tried = json_array();
    for (size_t i = 0; i < x->n; i++)
        (void)json_array_append_new(i < x->n_answered ? answered : tried, json_string(x->items[i]));
    json_put(j, "answered", answered);
    json_put(j, "tried", tried);
    cleanup_free char *text = json_text(j);
    return text ? atomic_file_write(path, text, strlen(text), 0600, e)
                : err_set(e, -ENOMEM, "out of memory");
}

int instances_begin(const char *state_dir, const char *instance, struct instances *ret,
                    struct err *e)
{
    char path[160];
    memset(ret, 0, sizeof(*ret));
    path_of(state_dir, path);
    int r = load(path, ret, e);
    if (r < 0)
        return r;
    add(ret, instance);
    return store(path, ret, e);
}

int instances_answered(const char *state_dir, struct instances *x, struct err *e)
{
    char path[160];
    if (x->answered)
        return 0;
    x->answered = true;
    while (x->n - x->n_answered > 1) // tried and never answered
        drop_at(x, x->n_answered);
    if (x->n_answered == INSTANCES_ANSWERED_MAX)
        drop_at(x, 0);
    else
        x->n_answered++;
    path_of(state_dir, path);
    return store(path, x, e);
}
