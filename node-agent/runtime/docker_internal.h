// SPDX-License-Identifier: Apache-2.0
// What the files of the docker driver share: the driver, its connection to the engine, and one
// object per attempt.
#pragma once

#include "common/backoff.h"
#include "common/http_client.h"
#include "common/strbuf.h"
#include "node-agent/runtime/docker_api.h"
#include "node-agent/runtime/image_table.h"
#include "node-agent/runtime/out_watch.h"
#include "node-agent/runtime/outbox.h"
#include "node-agent/runtime/outcome.h"
#include "node-agent/runtime/sweep.h"

#include <uthash.h>

#define DOCKER_TIMEOUT_MS 120000

struct docker_pull;

enum docker_phase {
    DOCKER_NEW,      // nothing of it exists
    DOCKER_IMAGE,    // looking at or pulling the image
    DOCKER_CREATING, // the request is under way: it must not be broken off, or a container may be
                     // left
    DOCKER_CREATED,  // a container that was never started
    DOCKER_STARTING,
    DOCKER_RUNNING,
    DOCKER_EXITED, // the engine said so; how is being found out
    DOCKER_ENDED,  // told
    DOCKER_GONE,   // removed; waits for its calls
};

struct docker_task {
    char id[ATTEMPT_ID_BYTES];
    struct docker *d; // weak
    enum docker_phase phase;
    char container[72]; // id, "" = none known
    char *name;         // of the container; NULL when adopted
    char *image;
    json_t *body; // of the create request, until the container exists
    bool has_command;
    struct docker_pull *pull;
    struct sweep *sweep; // NULL = none
    unsigned calls;      // under way; the task lives at least as long
    bool started_told, oom;
    enum health_word health; // told
    bool stopping, removing, deleting, pulled, recorded, inspecting;
    bool left;                   // by its engine, which went away while this ran
    bool vanished;               // its container is not there any more
    bool doubted;                // it was waited for the engine's end
    struct attempt_status doubt; // how it ended, unless the engine ends too
    int64_t doubt_until_ms;      // CLOCK_MONOTONIC; 0 = no doubt
    bool seen;                   // in the listing that is being read
    bool orphan;                 // runs, and the engine does not know
    UT_hash_handle hh;
};

struct docker {
    struct runtime base;
    struct runtime_options o;
    struct outbox *outbox;
    struct out_watch *out;
    struct http_client *http;
    struct docker_task *tasks;
    struct http_call *events;       // the stream; weak, NULL = not open
    struct strbuf line;             // of the stream, unfinished
    struct http_call *image_events; // likewise
    struct strbuf image_line;
    bool images_asked, images_again; // a listing of them is under way; and another is due
    struct image_table images;
    char root[256]; // folder of the engine; "" = not known
    bool gc_running;
    int64_t gc_left; // bytes that are still to be freed
    char *gc_name;   // being removed
    uv_timer_t retry;
    uv_timer_t doubt; // the earliest of the tasks'
    struct backoff backoff;
    char prefix[16]; // "/v1.44"
    bool ok, told_down, podman, listed, closing;
    unsigned settling; // inspections that the next listing waits for
    bool settled;      // the next listing comes after them
    int waits;         // closings that are to come
    void (*closed)(void *userdata);
    void *closed_userdata;
};

typedef void (*docker_then)(struct docker_task *t, const struct http_result *r);

// docker_call.c. Text of a failed call, from libcurl's or the engine's words.
void docker_result_text(const struct http_result *r, char *out, size_t size);
// One request about a task; `then` comes once from the loop, or at once when it can't be made. Not
// after closing. `path` follows the version and is taken over (malloc'd; NULL = out of memory).
void docker_request(struct docker_task *t, const char *method, char *path_taken, const json_t *body,
                    docker_then then);
// A GET likewise, over a new connection: whether the engine still takes any.
void docker_ask_anew(struct docker_task *t, char *path_taken, docker_then then);
PRINTF_LIKE(1, 2) char *docker_path(const char *fmt, ...);

// docker_engine.c: connection, events, listing.
void docker_engine_connect(struct docker *d);
// The engine does not answer any more.
void docker_engine_lost(struct docker *d, const char *reason);

// A request to the engine as a whole; `path` NULL = out of memory; `done` gets the driver. One that
// can't be made is the engine's loss.
int docker_ask(struct docker *d, const char *method, const char *path, unsigned timeout_ms,
               void (*done)(const struct http_result *, void *));
// An answer without an end; *ret is its call.
int docker_stream(struct docker *d, const char *path, int (*chunk)(const char *, size_t, void *),
                  void (*done)(const struct http_result *, void *), struct http_call **ret);
// More bytes of a stream of JSON lines: each whole one is handed on, with the driver. As `chunk`.
int docker_stream_lines(struct docker *d, struct strbuf *line, const char *data, size_t len,
                        void (*event)(const json_t *event, void *userdata));

// docker_images.c: what images it has, told from now on until the engine is lost.
void docker_images_watch(struct docker *d);
void docker_images_ask(struct docker *d); // they changed

// docker_gc.c: removes images of ours when there is need.
void docker_gc_look(struct docker *d);

// docker_doubt.c. Whether this end must wait for a while to be told.
bool docker_doubt(struct docker_task *t, const struct attempt_status *status);
// The engine is gone: what was in doubt is told.
void docker_doubt_engine_left(struct docker *d);

// docker_task.c: the life of an attempt.
struct docker_task *docker_task_find(struct docker *d, const char *id);
struct docker_task *docker_task_new(struct docker *d, const char *id);
// Frees it unless calls are under way (then after the last one).
void docker_task_drop(struct docker_task *t);
void docker_task_free(struct docker_task *t); // at closing
void docker_task_phase(struct docker_task *t, const char *text);
void docker_task_fail(struct docker_task *t, enum attempt_cause cause, const char *text);
// An end that nobody explains, of a task that its engine left, is the engine's.
void docker_task_explain(const struct docker_task *t, struct attempt_status *status);
void docker_task_end(struct docker_task *t, struct attempt_status *status);
// Killed and nobody here did it: only the engine knows whether it was for memory.
bool docker_may_be_oom(const struct attempt_status *s);
void docker_task_signal(struct docker_task *t);
void docker_task_delete(struct docker_task *t);
// Looks at the records in the out folder: told as started, or ended.
void docker_task_records(struct docker_task *t);
// The engine says that its container does not run.
void docker_task_exited(struct docker_task *t);

// docker_start.c: from spec to running container.
void docker_start_begin(struct docker_task *t);
void docker_start_create(struct docker_task *t);

// docker_pull.c
void docker_pull_start(struct docker_task *t);
void docker_pull_cancel(struct docker_task *t);
