// SPDX-License-Identifier: Apache-2.0
// Which images the engine has: listed when it answers, and again after its image events (pulls,
// loads, builds, tags, removals, whoever does them). One listing is under way at a time, so that a
// burst of events is one more listing.
#include "node-agent/runtime/docker_internal.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "common/log.h"
#include "proto/image_name.h"

#include <string.h>

static void add_names(json_t *to, const json_t *names)
{
    char short_name[IMAGE_NAME_BYTES];
    size_t i;
    const json_t *item;
    json_array_foreach (names, i, item) {
        const char *name = json_string_value(item);
        if (!name || strstr(name, "<none>") || strlen(name) >= sizeof(short_name) ||
            json_array_size(to) == IMAGES_TOLD_MAX)
            continue;
        image_name(name, short_name, sizeof(short_name));
        (void)json_array_append_new(to, json_string(short_name));
    }
}

// The newest first, as the engine lists them. Those without a tag are known by their digests.
static json_t *names_of(const json_t *list)
{
    json_t *names = json_array();
    size_t i;
    const json_t *image;
    json_array_foreach (list, i, image) {
        const json_t *tags = json_object_get(image, "RepoTags");
        size_t before = json_array_size(names);
        add_names(names, tags);
        if (json_array_size(names) == before)
            add_names(names, json_object_get(image, "RepoDigests"));
    }
    return names;
}

static void on_list(const struct http_result *r, void *userdata)
{
    struct docker *d = userdata;
    char text[256];
    d->images_asked = false;
    if (d->closing)
        return;
    cleanup_json json_t *list =
        r->error == 0 && r->status == 200 ? json_loadb(r->body, r->len, 0, NULL) : NULL;
    if (json_is_array(list)) {
        outbox_images(d->outbox, names_of(list));
    } else { // the next event lists them
        docker_result_text(r, text, sizeof(text));
        log_warn("docker", "list of images: %s", text);
    }
    if (d->images_again)
        docker_images_ask(d);
}

void docker_images_ask(struct docker *d)
{
    d->images_again = d->images_asked;
    if (d->images_asked || !d->ok)
        return;
    cleanup_free char *path = docker_path("%s/images/json", d->prefix);
    d->images_asked = docker_get(d, path, DOCKER_TIMEOUT_MS, NULL, on_list, NULL) == 0;
}

static int on_chunk(const char *data, size_t len, void *userdata)
{
    struct docker *d = userdata;
    if (memchr(data, '\n', len)) // whatever it was, the listing shows what came of it
        docker_images_ask(d);
    return 0;
}

static void on_stream_end(const struct http_result *r, void *userdata)
{
    struct docker *d = userdata;
    char text[256] = "the engine closed its stream of image events";
    d->image_events = NULL;
    if (d->closing)
        return;
    if (r->error < 0 || r->status != 200)
        docker_result_text(r, text, sizeof(text));
    docker_engine_lost(d, text);
}

void docker_images_watch(struct docker *d)
{
    cleanup_free char *filters = docker_encode("{\"type\":[\"image\"]}");
    cleanup_free char *path =
        filters ? docker_path("%s/events?filters=%s", d->prefix, filters) : NULL;
    if (docker_get(d, path, 0, on_chunk, on_stream_end, &d->image_events) == 0)
        docker_images_ask(d);
}
