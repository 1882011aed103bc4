// SPDX-License-Identifier: Apache-2.0
// What the files of the store share: its state, and the steps of a connection's setup.
#pragma once

#include "master/store/batch.h"
#include "master/store/redis_conn.h"
#include "master/store/redis_server.h"
#include "master/store/store.h"

#define STORE_SCHEMA 1

enum store_phase {
    STORE_STARTING, // ready() not called yet
    STORE_RUNNING,  // ready(0) was called
    STORE_FAILED,   // ready(error) or lost() was called
    STORE_CLOSING,
};

#define CHECKS_MAX 8
struct setup_check { // one question about the server's settings, in flight
    struct store *store;
    int what;
};

struct stream_read;
struct loader;

struct store {
    struct store_options options; // strings are not kept
    char *prefix;                 // "meadow:<cluster id>:"
    char *meta_key;
    struct redis_server *server;
    struct redis_conn *conn;
    enum store_phase phase;
    bool usable;  // this connection is verified: batches and reads may be sent
    bool trouble; // the server ended, and nothing was made durable since: its next end isn't news
    char reason[300];

    int64_t epoch; // 0 = not taken yet
    int64_t commit;
    char script_sha[64];
    struct setup_check checks[CHECKS_MAX];
    struct loader *loader; // while loading

    struct store_batch batch; // in flight
    size_t piece_start, piece_end;
    struct batch_args args;
    void (*batch_done)(int result, void *userdata); // NULL = no batch
    void *batch_userdata;
    struct stream_read *reads;

    void (*closed)(void *userdata);
    void *closed_userdata;
};

// The end of everything but store_close(): ready(error) while starting, lost() afterwards.
void store_fail(struct store *s, int error, const char *reason);
// The connection doesn't serve us now; another one may. `reply` is the refusal.
bool store_is_busy(const struct redisReply *reply);

// setup: asks a fresh connection about the server's settings, then takes the epoch or checks that
// it is still ours, and calls store_set_up().
void store_setup(struct store *s);
void store_set_up(struct store *s);
// Loads the script again, then calls `fn` (with a reply that isn't an error, or not at all: the
// connection was dropped).
int store_load_script(struct store *s, redis_reply_fn *fn) WARN_UNUSED;
// Takes the answer of the script's load; false = it is no name of a script.
bool store_keep_script(struct store *s, const struct redisReply *reply);

// load: calls options.record for every record, then store_loaded(). Goes on where it was after a
// reconnect.
int store_load(struct store *s) WARN_UNUSED;
void store_loaded(struct store *s);
void loader_free(struct loader *l); // NULL allowed

// apply: sends the piece of the batch that is not durable yet.
void store_send_batch(struct store *s);
void store_cancel_batch(struct store *s);

// read: sends the reads that have no answer yet.
void store_send_reads(struct store *s);
void store_cancel_reads(struct store *s);
