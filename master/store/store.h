// SPDX-License-Identifier: Apache-2.0
// Durable state in Redis: one JSON text per key, batches applied by one script, exactly once. Keys
// here are relative
// ("job:j..."); the store prefixes "meadow:<cluster id>:" (proto/REDIS.md lists them all).
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

struct store;

struct store_options {
    uv_loop_t *loop;
    const char *redis_url;   // an external Redis (redis_address.h); NULL = a child of our own, for
                             // which the next five are
    const char *data_dir;    // DIR/commit.mark remembers the last commit; DIR/redis/ holds the AOF;
                             // locked against a second master
    const char *run_dir;     // the child's unix socket: RUN/redis.sock
    const char *log_path;    // the child's log file, NULL = inherit stderr
    const char *pid_path;    // written with the child's pid, NULL = none
    const char *server_path; // "redis-server" binary, NULL = search PATH
    const char *cluster_id;
    uint64_t
        command_timeout_ms; // an answer of Redis that takes longer means "not available"; 0 = 5000
    // Called once, when state is loaded and this process owns the store (a new epoch is durable);
    // or with an error that no retry will mend (another owner, wrong schema, damaged AOF).
    void (*ready)(int error, const struct err *e, void *userdata);
    // Each loaded record, before ready. json is borrowed. Streams are not loaded.
    void (*record)(const char *key, const char *json, size_t len, void *userdata);
    // Reachability changes after ready. While down, a batch in flight is kept and retried with the
    // same number.
    void (*health)(bool ok, const char *reason, void *userdata);
    // Another owner took the epoch: the process must exit now.
    void (*lost)(const char *reason, void *userdata);
    void *userdata;
};

// Starts Redis (or waits for an old one on the socket to go), connects, verifies
// appendonly/fsync/noeviction, takes the epoch, loads. -EINVAL: a URL that is none.
int store_open(const struct store_options *o, struct store **ret, struct err *e) WARN_UNUSED;
bool store_ok(const struct store *s, const char **ret_reason);
int64_t store_epoch(const struct store *s);
int64_t store_commit_number(const struct store *s); // last durable batch
int64_t store_first_commit(const struct store *s);  // the last durable batch of earlier owners
// So many commits less than were acknowledged the store had at our start: it went back.
int64_t store_lost_commits(const struct store *s);
// Somebody has seen epochs of this store that it doesn't know: `epoch` (above ours) becomes ours,
// durably, after a short interruption; then store_epoch() says so.
void store_raise_epoch(struct store *s, int64_t epoch);
bool store_is_raising(const struct store *s);
pid_t store_server_pid(const struct store *s); // 0 = not running
// Ends the connection and the child (SIGTERM, waits for it); `closed` comes from the loop.
void store_close(struct store *s, void (*closed)(void *userdata), void *userdata);

enum store_op_kind { STORE_SET, STORE_DEL, STORE_APPEND };
struct store_op {
    enum store_op_kind kind;
    char *key;
    char *json;      // SET, APPEND
    int64_t ttl_ms;  // SET: 0 = for ever
    int64_t id;      // APPEND: stream id "<id>-0"; only grows
    int64_t max_len; // APPEND: approximate cap of the stream
};
struct store_batch {
    struct store_op *ops;
    size_t count;
};

// One batch at a time (assert). Takes the ops' texts and the array. `done` is called exactly once
// with 0 when durable and the server's settings were right after it, -ECANCELED on close. A refusal
// by Redis that may pass (proto/REDIS.md) is tried again, any other is fatal: lost().
void store_apply(struct store *s, struct store_batch *batch,
                 void (*done)(int result, void *userdata), void *userdata);

// Reads a stream: entries with id > after, oldest first, at most `limit`. `entry` per entry, then
// `done`: 0, -EPROTO (no stream), -ECANCELED at close. While Redis is down it waits. -ENOTCONN when
// the store isn't ready (any more), -ENOMEM.
int store_read(struct store *s, const char *key, int64_t after, size_t limit,
               void (*entry)(int64_t id, const char *json, size_t len, void *userdata),
               void (*done)(int result, void *userdata), void *userdata) WARN_UNUSED;
