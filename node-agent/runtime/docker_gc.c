// SPDX-License-Identifier: Apache-2.0
// Removes images that meadow pulled and no task has used for a while, the least recently used
// first, when the engine's disk or they themselves reach their bound (as kubelet's image garbage
// collection: a high threshold to begin, a low one to reach). Looked at when images change and
// when the disk is sampled for the report. Never forced: the engine refuses to
// remove what a container uses, and what a person tagged, or built upon it, stays.
#include "node-agent/runtime/docker_internal.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/units.h"
#include "node-agent/hardware/hardware.h"

#include <string.h>

static void collect(struct docker *d);

// How many bytes are to be freed; 0 = nothing has reached its bound.
static int64_t excess(const struct docker *d)
{
    const struct image_gc *gc = &d->o.image_gc;
    struct hardware_disk disk = {0};
    int64_t by_disk = 0, total = image_table_total(&d->images);
    if (total == 0)
        return 0;
    if (d->root[0] && gc->high_percent > 0 && gc->high_percent < 100)
        hardware_disk(d->root, &disk);
    int64_t used = disk.total - disk.free;
    if (disk.total > 0 && used > disk.total / 100 * gc->high_percent)
        by_disk = used - disk.total / 100 * gc->low_percent;
    int64_t by_total = gc->max_bytes > 0 ? total - gc->max_bytes : 0;
    return by_disk > by_total ? by_disk : by_total > 0 ? by_total : 0;
}

// Attempts that this agent knows use their images, whether they have a container yet or not.
static void mark_tasks(struct docker *d)
{
    for (const struct docker_task *t = d->tasks; t; t = t->hh.next) {
        struct image *i = t->image ? image_table_find(&d->images, t->image) : NULL;
        if (i)
            i->busy = true;
    }
}

static void mark_none(struct docker *d)
{
    for (struct image *i = d->images.images; i; i = i->hh.next)
        i->busy = false;
}

static void finish(struct docker *d)
{
    mark_none(d);
    d->gc_running = false;
}

static void removed(struct docker *d, struct image *i)
{
    char size[UNITS_TEXT_BYTES], age[UNITS_TEXT_BYTES];
    units_human_memory(i->size, size);
    units_human_duration(clock_boot_ms() - i->idle_since_ms, age);
    log_info("images", "removed %s (%s), which was pulled for a task and not used for %s", i->name,
             size, age);
    if (!image_table_shared(&d->images, i))
        d->gc_left -= i->size;
    image_table_forget(&d->images, i);
}

static void on_removed(const struct http_result *r, void *userdata)
{
    struct docker *d = userdata;
    char text[256];
    cleanup_free char *name = d->gc_name;
    d->gc_name = NULL;
    if (d->closing)
        return;
    struct image *i = image_table_find(&d->images, name);
    if (i)
        i->removing = false;
    if (r->error < 0 || (r->status >= 300 && r->status != 404 && r->status != 409)) {
        docker_result_text(r, text, sizeof(text));
        log_warn("images", "%s cannot be removed now: %s", name, text);
        finish(d);
        return;
    }
    if (i && r->status == 409) { // somebody began to use it
        i->busy = true;
        i->idle_since_ms = clock_boot_ms();
    } else if (i && r->status == 404) {
        image_table_forget(&d->images, i);
    } else if (i) {
        removed(d, i);
    }
    collect(d);
}

// Removes one; its answer removes the next.
static void collect(struct docker *d)
{
    struct image *i;
    mark_tasks(d);
    i = d->ok && d->gc_left > 0 ? image_table_oldest(&d->images, d->o.image_gc.min_age_ms) : NULL;
    // The reference stands in the path as it is: engines take its slashes there.
    cleanup_free char *path = i ? docker_path("%s/images/%s", d->prefix, i->name) : NULL;
    d->gc_name = path ? strdup(i->name) : NULL;
    if (d->gc_name && docker_ask(d, "DELETE", path, DOCKER_TIMEOUT_MS, on_removed) == 0) {
        i->removing = true;
        return;
    }
    free(d->gc_name);
    d->gc_name = NULL;
    finish(d);
}

// All containers, whoever's they are and whether they run or not.
static void on_containers(const struct http_result *r, void *userdata)
{
    struct docker *d = userdata;
    size_t k;
    const json_t *c;
    if (d->closing)
        return;
    cleanup_json json_t *list =
        r->error == 0 && r->status == 200 ? json_loadb(r->body, r->len, 0, NULL) : NULL;
    if (!json_is_array(list)) {
        finish(d);
        return;
    }
    json_array_foreach (list, k, c)
        for (struct image *i = d->images.images; i; i = i->hh.next)
            if (i->ours && strcmp(i->id, json_opt_str(c, "ImageID", "")) == 0) {
                i->busy = true;
                i->idle_since_ms = clock_boot_ms();
            }
    collect(d);
}

void docker_gc_look(struct docker *d)
{
    if (d->gc_running || !d->ok || !d->listed)
        return;
    d->gc_left = excess(d);
    if (d->gc_left == 0)
        return;
    mark_tasks(d);
    bool some = image_table_oldest(&d->images, d->o.image_gc.min_age_ms);
    mark_none(d);
    cleanup_free char *path = docker_path("%s/containers/json?all=1", d->prefix);
    d->gc_running = some && docker_ask(d, "GET", path, DOCKER_TIMEOUT_MS, on_containers) == 0;
}
