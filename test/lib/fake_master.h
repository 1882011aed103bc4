// SPDX-License-Identifier: Apache-2.0
// A master for the agent's tests, on the test's own loop: real TLS, real certificates, the whole
// agent protocol, and a memory of everything it was told. It decides nothing: the test says what is
// assigned.
#pragma once

#include "common/http_server.h"
#include "common/strbuf.h"
#include "proto/sync.h"

#define FAKE_ATTEMPTS 32

struct fake_attempt {
    struct attempt_spec *spec;
    enum desired_state desired;
    bool removed;
    bool reported;
    struct attempt_status status; // last one told
    unsigned running_reports;     // how often it was told to be running, by change number
    struct strbuf logs[2];        // stdout, stderr
    uint64_t next[2];
};

struct fake_master {
    uv_loop_t *loop;
    struct http_server *server;
    uint16_t port;
    char url[64];
    char *ca_key, *ca_cert, *key, *cert;
    char token[160];
    const char *refuse_join; // not NULL: answer 409 with this
    bool silent;             // syncs get 503
    bool refuse_sync;        // syncs get 409
    struct fake_attempt attempts[FAKE_ATTEMPTS];
    size_t n_attempts;
    int64_t generation;
    int64_t acked;
    char instance[INSTANCE_BYTES];
    unsigned renewals, refuse_renewals; // asked for; so many get 503
    unsigned joins, syncs, reports, inventories;
    bool complete;      // the last inventory was
    size_t inventory_n; // attempts in it
    json_t *node;       // last one told
    json_t *usage;
    struct http_request *held;
    int64_t held_acked; // acknowledged by the answer due
    uv_timer_t hold;
    unsigned hold_ms;
    void (*changed)(struct fake_master *m, void *userdata); // after each message
    void *userdata;
};

// Starts listening on 127.0.0.1. Aborts the test on failure.
void fake_master_start(struct fake_master *m, uv_loop_t *loop);
// The attempt is wanted from now on; takes the spec.
struct fake_attempt *fake_master_assign(struct fake_master *m, struct attempt_spec *spec);
void fake_master_stop_attempt(struct fake_master *m, struct fake_attempt *a);
void fake_master_remove(struct fake_master *m, struct fake_attempt *a);
// A spec that runs `sh -c script`, issued to the instance that synced last.
struct attempt_spec *fake_master_spec(const struct fake_master *m, const char *id,
                                      const char *script);
void fake_master_close(struct fake_master *m); // then run the loop
void fake_master_free(struct fake_master *m);
