// SPDX-License-Identifier: Apache-2.0
// Ships the attempts' logs to the master as they appear: one inotify descriptor watches all out
// folders, each stream has at most one post under way, and few are under way at once. The master
// says from which offset it wants more.
#pragma once

#include "node-agent/attempt_dir.h"
#include "node-agent/log_source.h"
#include <uv.h>

#define LOG_POST_BYTES (256u * 1024) // log bytes of one post
#define LOG_POSTS_MAX 4
#define LOG_BOUND_MS 10000 // after the end, until the logs are called incomplete

struct log_ship;
struct log_stream_ship; // one stream of one attempt

struct log_post { // borrowed for the call of `send`
    const char *attempt_id;
    enum log_stream stream;
    uint64_t offset;
    const void *body;
    size_t len;
};

struct log_ship_options {
    uv_loop_t *loop;
    struct attempt_dirs dirs;
    // Starts a post; its outcome is due through log_ship_sent(call, ...) exactly once, later.
    // Negative: not started.
    int (*send)(const struct log_post *post, struct log_stream_ship *call, void *userdata);
    // COMPLETE once everything of an ended attempt arrived; INCOMPLETE when that takes over
    // bound_ms (COMPLETE may follow).
    void (*settled)(const char *attempt_id, enum logs_state state, void *userdata);
    void *userdata;
    unsigned bound_ms; // 0 = LOG_BOUND_MS
};

// Owned by the caller: log_ship_close. -ENOMEM or a negative errno with text.
int log_ship_new(const struct log_ship_options *options, struct log_ship **ret,
                 struct err *e) WARN_UNUSED;
// Begins with an attempt whose out folder is there. `resume`: it may have been shipped before, so
// the master is asked first.
void log_ship_open(struct log_ship *ship, const char *attempt_id, bool resume);
// No process of it writes any more.
void log_ship_end(struct log_ship *ship, const char *attempt_id);
// Forgets the attempt; a post under way may still finish.
void log_ship_forget(struct log_ship *ship, const char *attempt_id);
// Whether the master answers: posts wait meanwhile.
void log_ship_online(struct log_ship *ship, bool online);
// `error` 0 and the HTTP status, with the answer's `next` on 200; or a negative errno.
void log_ship_sent(struct log_stream_ship *call, int error, int status, uint64_t next);
// Stops; calls under way must have been completed. Frees from the loop.
void log_ship_close(struct log_ship *ship, void (*closed)(void *userdata), void *userdata);
