// SPDX-License-Identifier: Apache-2.0
// Whose an image is follows from events: see image_table.h. Where in doubt it is a person's.
#include "node-agent/runtime/image_table.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "node-agent/state_file.h"
#include "proto/image_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_MAX_BYTES (1u << 20)

struct image *image_table_find(const struct image_table *t, const char *reference)
{
    char name[IMAGE_NAME_BYTES];
    struct image *i = NULL;
    image_name(reference, name, sizeof(name));
    HASH_FIND_STR(t->images, name, i);
    return i;
}

static struct image *find_or_add(struct image_table *t, const char *reference)
{
    char name[IMAGE_NAME_BYTES];
    struct image *i = image_table_find(t, reference);
    if (i)
        return i;
    image_name(reference, name, sizeof(name));
    i = calloc(1, sizeof(*i));
    if (i)
        i->name = strdup(name);
    if (!i || !i->name) {
        log_error("images", "out of memory: %s counts as a person's", name);
        free(i);
        return NULL;
    }
    i->idle_since_ms = clock_boot_ms();
    HASH_ADD_KEYPTR(hh, t->images, i->name, strlen(i->name), i);
    return i;
}

static void drop(struct image_table *t, struct image *i)
{
    HASH_DEL(t->images, i);
    free(i->name);
    free(i);
}

void image_table_free(struct image_table *t)
{
    struct image *i, *next;
    HASH_ITER (hh, t->images, i, next)
        drop(t, i);
}

// --- the file ---

static void store(const struct image_table *t)
{
    struct err e;
    cleanup_json json_t *j = json_object();
    json_t *list = json_array();
    for (const struct image *i = t->images; i; i = i->hh.next) {
        json_t *one = i->ours ? json_object() : NULL;
        if (!one)
            continue;
        json_put_str(one, "name", i->name);
        json_put_str(one, "id", i->id);
        json_put_i64(one, "size", i->size);
        json_put_time(one, "used_at", i->used_ms);
        (void)json_array_append_new(list, one);
    }
    json_put(j, "pulled", list);
    cleanup_free char *text = json_text(j);
    if (text && atomic_file_write(t->path, text, strlen(text), 0600, &e) < 0)
        log_warn("images", "%s", e.text);
}

int image_table_init(struct image_table *t, const char *state_dir, struct err *e)
{
    cleanup_json json_t *j = NULL;
    size_t k;
    const json_t *one;
    *t = (struct image_table){0};
    (void)snprintf(t->path, sizeof(t->path), "%s/images.json", state_dir);
    int r = state_file_read(t->path, FILE_MAX_BYTES, &j, e);
    if (r < 0)
        return r;
    json_array_foreach (json_object_get(j, "pulled"), k, one) {
        const char *name = json_opt_str(one, "name", ""), *id = json_opt_str(one, "id", "");
        struct image *i =
            *name && strlen(name) < IMAGE_NAME_BYTES && *id ? find_or_add(t, name) : NULL;
        if (!i)
            continue;
        (void)snprintf(i->id, sizeof(i->id), "%s", id);
        i->size = json_opt_i64(one, "size", 0);
        i->used_ms = json_opt_time(one, "used_at");
        i->ours = true;
    }
    return 0;
}

// --- what happens ---

static void disown(struct image_table *t, struct image *i)
{
    bool was = i->ours;
    i->ours = i->claimed = false;
    if (was)
        store(t);
}

void image_table_used(struct image_table *t, const char *reference)
{
    struct image *i = reference ? image_table_find(t, reference) : NULL;
    if (!i)
        return;
    i->used_ms = clock_real_ms();
    i->idle_since_ms = clock_boot_ms();
}

void image_table_pull_begun(struct image_table *t, const char *reference)
{
    struct image *i = find_or_add(t, reference);
    if (i)
        i->pulling++;
}

void image_table_pull_ended(struct image_table *t, const char *reference, bool ok)
{
    struct image *i = image_table_find(t, reference);
    if (!i || i->pulling == 0)
        return;
    i->pulling--;
    i->pulled += ok;
    i->claimed = ok && i->seen <= i->pulling + i->pulled;
    image_table_used(t, reference);
}

void image_table_pull_seen(struct image_table *t, const char *reference)
{
    struct image *i = find_or_add(t, reference);
    if (!i || ++i->seen <= i->pulling + i->pulled)
        return;
    if (i->ours)
        log_info("images", "%s was pulled by a person: it is not removed from now on", i->name);
    disown(t, i);
}

void image_table_loaded(struct image_table *t, const char *id)
{
    for (struct image *i = t->images; i; i = i->hh.next)
        if (strcmp(i->id, id) == 0)
            disown(t, i);
}

void image_table_watched_anew(struct image_table *t)
{
    for (struct image *i = t->images; i; i = i->hh.next)
        i->pulled = i->seen = 0;
}

void image_table_forget(struct image_table *t, struct image *image)
{
    image->listed = image->removing = false;
    disown(t, image);
}

// --- the listing ---

// Whether ours are others now.
static bool note(struct image_table *t, const char *name, size_t at, const char *id, int64_t size)
{
    struct image *i = find_or_add(t, name);
    if (!i)
        return false;
    bool was = i->ours;
    i->ours = i->claimed || (i->ours && strcmp(i->id, id) == 0); // another: somebody's own
    bool changed = i->ours != was || (i->ours && strcmp(i->id, id) != 0);
    i->claimed = false;
    i->listed = true;
    i->at = at;
    (void)snprintf(i->id, sizeof(i->id), "%s", id);
    i->size = size;
    return changed;
}

static bool note_all(struct image_table *t, const json_t *names, const json_t *image, size_t *at)
{
    size_t k;
    const json_t *item;
    bool changed = false;
    json_array_foreach (names, k, item) {
        const char *name = json_string_value(item);
        if (name && !strstr(name, "<none>") && strlen(name) < IMAGE_NAME_BYTES)
            changed |= note(t, name, (*at)++, json_opt_str(image, "Id", ""),
                            json_opt_i64(image, "Size", 0));
    }
    return changed;
}

void image_table_listed(struct image_table *t, const json_t *list)
{
    struct image *i, *next;
    size_t k, at = 0;
    const json_t *image;
    bool changed = false;
    for (i = t->images; i; i = i->hh.next)
        i->listed = false;
    json_array_foreach (list, k, image) {
        size_t before = at;
        changed |= note_all(t, json_object_get(image, "RepoTags"), image, &at);
        if (at == before) // without a tag it is known by its digests
            changed |= note_all(t, json_object_get(image, "RepoDigests"), image, &at);
    }
    HASH_ITER (hh, t->images, i, next) {
        if (i->listed || i->claimed || i->removing || i->pulling > 0)
            continue;
        changed |= i->ours; // somebody removed it
        drop(t, i);
    }
    if (changed)
        store(t);
}

static int by_use(const void *a, const void *b)
{
    const struct image *x = *(const struct image *const *)a;
    const struct image *y = *(const struct image *const *)b;
    if (x->used_ms != y->used_ms)
        return x->used_ms > y->used_ms ? -1 : 1;
    return x->at < y->at ? -1 : x->at > y->at;
}

json_t *image_table_names(const struct image_table *t)
{
    size_t n = 0;
    json_t *names = json_array();
    cleanup_free const struct image **list =
        calloc(HASH_COUNT(t->images) + 1, sizeof(const struct image *));
    for (const struct image *i = list ? t->images : NULL; i; i = i->hh.next)
        if (i->listed)
            list[n++] = i;
    if (n > 1)
        qsort(list, n, sizeof(const struct image *), by_use);
    for (size_t k = 0; k < n && k < IMAGES_TOLD_MAX; k++)
        (void)json_array_append_new(names, json_string(list[k]->name));
    return names;
}

// --- what may go ---

static bool counted_before(const struct image_table *t, const struct image *image)
{
    for (const struct image *i = t->images; i != image; i = i->hh.next)
        if (i->ours && strcmp(i->id, image->id) == 0)
            return true;
    return false;
}

int64_t image_table_total(const struct image_table *t)
{
    int64_t total = 0;
    for (const struct image *i = t->images; i; i = i->hh.next)
        total += i->ours && !counted_before(t, i) ? i->size : 0;
    return total;
}

bool image_table_shared(const struct image_table *t, const struct image *image)
{
    for (const struct image *i = t->images; i; i = i->hh.next)
        if (i != image && i->listed && strcmp(i->id, image->id) == 0)
            return true;
    return false;
}

struct image *image_table_oldest(const struct image_table *t, int64_t min_age_ms)
{
    struct image *oldest = NULL;
    int64_t now = clock_boot_ms();
    for (struct image *i = t->images; i; i = i->hh.next) {
        if (!i->ours || !i->listed || i->busy || i->pulling > 0 ||
            now - i->idle_since_ms < min_age_ms)
            continue;
        if (!oldest || i->used_ms < oldest->used_ms ||
            (i->used_ms == oldest->used_ms && strcmp(i->name, oldest->name) < 0))
            oldest = i;
    }
    return oldest;
}
