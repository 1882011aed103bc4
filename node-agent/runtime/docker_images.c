// SPDX-License-Identifier: Apache-2.0
// Which images the engine has: listed when it answers, and again after its image events (pulls,
// loads, builds, tags, removals, whoever does them). One listing is under way at a time, so that a
// burst of events is one more listing.
#include "node-agent/runtime/docker_internal.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "common/log.h"

#include <string.h>

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
        image_table_listed(&d->images, list);
        outbox_images(d->outbox, image_table_names(&d->images));
        docker_gc_look(d);
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
    d->images_asked = docker_ask(d, "GET", path, DOCKER_TIMEOUT_MS, on_list) == 0;
}

// --- events ---

static void on_event(const json_t *event, void *userdata)
{
    struct docker *d = userdata;
    const json_t *actor = json_object_get(event, "Actor");
    const char *action = json_opt_str(event, "Action", json_opt_str(event, "status", ""));
    const char *id = json_opt_str(actor, "ID", "");
    const char *name = json_opt_str(json_object_get(actor, "Attributes"), "name", id);
    bool loaded = strcmp(action, "load") == 0 || strcmp(action, "import") == 0;
    if (strcmp(action, "pull") ==
        0) // docker: the ID is the whole reference, the name lacks its tag
        image_table_pull_seen(&d->images, d->podman ? name : id);
    else if (loaded)
        image_table_pull_seen(&d->images, name);
    if (loaded)
        image_table_loaded(&d->images, id);
    docker_images_ask(d);
}

static int on_chunk(const char *data, size_t len, void *userdata)
{
    struct docker *d = userdata;
    return docker_stream_lines(d, &d->image_line, data, len, on_event);
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

// Where the engine keeps what it has: the disk that images fill.
static void on_info(const struct http_result *r, void *userdata)
{
    struct docker *d = userdata;
    if (d->closing || r->error < 0 || r->status != 200)
        return; // then images are bounded by their total alone
    cleanup_json json_t *info = json_loadb(r->body, r->len, 0, NULL);
    (void)snprintf(d->root, sizeof(d->root), "%s", json_opt_str(info, "DockerRootDir", ""));
    docker_images_ask(d);
}

void docker_images_watch(struct docker *d)
{
    cleanup_free char *filters = docker_encode("{\"type\":[\"image\"]}");
    cleanup_free char *path =
        filters ? docker_path("%s/events?filters=%s", d->prefix, filters) : NULL;
    cleanup_free char *info = docker_path("%s/info", d->prefix);
    strbuf_reset(&d->image_line);
    image_table_watched_anew(&d->images);
    if (docker_stream(d, path, on_chunk, on_stream_end, &d->image_events) == 0 &&
        docker_ask(d, "GET", info, DOCKER_TIMEOUT_MS, on_info) == 0)
        docker_images_ask(d);
}
