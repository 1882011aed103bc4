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
    bool of_batch;
};

struct stream_read;
struct rivals;
struct loader;

struct store {
    struct store_options options; // strings are not kept
    char *prefix;                 // "meadow:<cluster id>:"
    char *meta_key;
    struct redis_server *server;
    struct redis_conn *conn;
    enum store_phase phase;
    bool external;
    bool usable;  // this connection is verified: batches and reads may be sent
    bool ok;      // it takes changes: since it was verified, or since what was pending is durable
    bool trouble; // the server ended, and nothing was made durable since: its next end isn't news
    char reason[300];

    char name[128]; // for people: where Redis is
    struct rivals *rivals;
    bool rivals_told; // others were there, and have had the time to show that they live

    int64_t epoch;        // 0 = not taken yet
    int64_t epoch_wanted; // to be raised to; 0 = no
    int64_t commit;
    int64_t first_commit;
    int mark;                            // descriptor; -1 = none
    int64_t marked_epoch, marked_commit; // by the owner before us; 0 = not known
    char script_sha[64];
    struct setup_check checks[2][CHECKS_MAX]; // at connect; of a batch
    struct loader *loader;                    // while loading

    struct store_batch batch; // in flight
    size_t piece_start, piece_end;
    bool piece_applied; // durable as soon as the settings behind it are confirmed
    struct batch_args args;
    void (*batch_done)(int result, void *userdata); // NULL = no batch
    void *batch_userdata;
    struct stream_read *reads;

    void (*closed)(void *userdata);
    void *closed_userdata;
};

// The end of everything but store_close(): ready(error) while starting, lost() afterwards.
void store_fail(struct store *s, int error, const char *reason);
// The server doesn't serve us now; it may later. `reply` is the refusal.
bool store_is_busy(const struct redisReply *reply);
// It takes changes (again).
void store_healthy(struct store *s);
// The server may not be written to as it is: ready(error) while starting; later this connection is
// dropped and what is pending waits until it is right again.
void store_unsafe(struct store *s, int error, const char *reason);

// A step of the setup was refused (`what`): by a busy server, which is asked again on another
// connection, for want of a right, or for good.
void store_refused(struct store *s, const struct redisReply *reply, const char *what);

// setup: asks a fresh connection about the server's settings, then takes the epoch or checks that
// it is still ours, and calls store_set_up().
void store_setup(struct store *s);
void store_set_up(struct store *s);
// Loads the script again, then calls `fn` (with a reply that isn't an error, or not at all: the
// connection was dropped).
int store_load_script(struct store *s, redis_reply_fn *fn) WARN_UNUSED;
// Asks for the settings on which durability rests; when all are right and it is for a batch,
// store_confirmed() follows, else nothing or store_unsafe().
int store_ask_settings(struct store *s, bool of_batch) WARN_UNUSED;
// Takes the answer of the script's load; false = it is no name of a script.
bool store_keep_script(struct store *s, const struct redisReply *reply);

// mark
void store_mark_open(struct store *s, const char *folder); // what can't be read is not known
void store_mark_put(struct store *s);
void store_mark_close(struct store *s);

// load: calls options.record for every record, then store_loaded(). Goes on where it was after a
// reconnect.
int store_load(struct store *s) WARN_UNUSED;
void store_loaded(struct store *s);
void loader_free(struct loader *l); // NULL allowed

// rivals: looks for another master that is connected to the same external server; goes on with
// store_alone(), or refuses to start.
void store_find_rivals(struct store *s);
void store_alone(struct store *s);
void rivals_close(struct rivals *r, void (*closed)(void *userdata), void *userdata);

// apply: sends the piece of the batch that is not durable yet.
void store_send_batch(struct store *s);
void store_confirmed(struct store *s);
void store_cancel_batch(struct store *s);

// read: sends the reads that have no answer yet.
void store_send_reads(struct store *s);
void store_cancel_reads(struct store *s);
