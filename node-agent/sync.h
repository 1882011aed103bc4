// SPDX-License-Identifier: Apache-2.0
// The talk with the master: one sync always outstanding, changes meanwhile as reports on a second
// connection. Once per loop turn sync_flush sends what is due, so that all changes of a turn share
// one message.
#pragma once

#include "common/http_client.h"
#include "node-agent/instances.h"
#include "node-agent/task.h"

struct sync;

struct sync_options {
    struct tasks *tasks;        // weak
    struct http_client *client; // weak
    const char *instance;       // borrowed, as are the other texts
    const char *boot_id;
    const char *state_dir;           // where the highest (epoch, commit) is remembered
    const char *cluster_id;          // whose they are; NULL = not known
    json_t *(*node)(void *userdata); // the node's report; owned by the caller of it; NULL = not now
    json_t *(*usage)(void *userdata);
    json_t *(*images)(void *userdata); // borrowed; NULL = not known
    bool (*inventory_complete)(void *userdata);
    // An answered sync: take in the assignment (specs may be moved out of the answer) and renew
    // leases from the time it was sent.
    void (*answered)(struct sync_answer *a, int64_t sent_boot_ms, void *userdata);
    const struct instances *instances; // borrowed; NULL = not told
    // The sync under way ended: 0, or negative with why; -EACCES = refused, -ESHUTDOWN = the node
    // was removed, -EKEYEXPIRED = its certificate is over.
    void (*ended)(int result, const char *why, void *userdata);
    void *userdata;
    unsigned answer_slack_ms; // beyond the sync interval, until an answer counts as lost; 0 = 10 s
};

// Owned by the caller: sync_close. -ENOMEM or a negative errno of libuv.
int sync_new(const struct sync_options *options, struct sync **ret) WARN_UNUSED;
// A sync is due: sent by the next flush.
void sync_want(struct sync *s);
// The whole inventory goes with the next message; the node's report.
void sync_want_inventory(struct sync *s);
void sync_want_node(struct sync *s);
void sync_want_images(struct sync *s); // they changed
void sync_flush(struct sync *s);
struct sync_position *sync_applied_mut(struct sync *s);
int64_t sync_interval_ms(const struct sync *s);
int64_t sync_last_answer_ms(const struct sync *s); // CLOCK_MONOTONIC; 0 = none yet
// Remembers the highest commit on disk. The client must be closed before (its calls came back).
// Frees.
void sync_free(struct sync *s);
