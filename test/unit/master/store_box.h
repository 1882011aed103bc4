// SPDX-License-Identifier: Apache-2.0
// For the tests of the store: one store on a real Redis, and what it told.
#pragma once

#include "test/unit/master/store_fixture.h"

struct box { // one store and what it said
    struct place *place;
    struct store *store;
    int ready, error;
    char text[600];
    int records;
    char last_key[100];
    bool in_order;
    int up, down, lost, closed;
    int done, result;
    void (*on_record)(struct box *box, const char *key, const char *json);
    uint64_t timeout_ms;
};

static inline void on_ready(int error, const struct err *e, void *userdata)
{
    struct box *box = userdata;
    box->ready++;
    box->error = error;
    (void)snprintf(box->text, sizeof(box->text), "%s", e ? e->text : "");
}

static inline void on_record(const char *key, const char *json, size_t len, void *userdata)
{
    struct box *box = userdata;
    ck_assert_uint_eq(strlen(json), len);
    box->in_order = box->in_order && strcmp(box->last_key, key) < 0;
    (void)snprintf(box->last_key, sizeof(box->last_key), "%s", key);
    box->records++;
    if (box->on_record)
        box->on_record(box, key, json);
}

static inline void on_health(bool ok, const char *reason, void *userdata)
{
    struct box *box = userdata;
    const char *now;
    ck_assert(ok == store_ok(box->store, &now));
    ck_assert(ok || reason[0]);
    ++*(ok ? &box->up : &box->down);
}

static inline void on_lost(const char *reason, void *userdata)
{
    struct box *box = userdata;
    box->lost++;
    (void)snprintf(box->text, sizeof(box->text), "%s", reason);
}

static inline int box_try(struct box *box, struct place *p, struct err *e)
{
    const struct store_options o = {.loop = &p->loop,
                                    .data_dir = p->data,
                                    .run_dir = p->run,
                                    .log_path = p->log,
                                    .pid_path = p->pid,
                                    .cluster_id = "ctest",
                                    .command_timeout_ms = box->timeout_ms,
                                    .ready = on_ready,
                                    .record = on_record,
                                    .health = on_health,
                                    .lost = on_lost,
                                    .userdata = box};
    box->place = p;
    box->in_order = true;
    return store_open(&o, &box->store, e);
}

static inline void box_open(struct box *box, struct place *p)
{
    struct err e = {""};
    ck_assert_msg(box_try(box, p, &e) == 0, "%s", e.text);
    run_until(&p->loop, &box->ready, 1);
    ck_assert_msg(box->error == 0, "%s", box->text);
}

static inline void box_close(struct box *box)
{
    pid_t pid = store_server_pid(box->store);
    store_close(box->store, count, &box->closed);
    run_until(&box->place->loop, &box->closed, 1);
    ck_assert(pid == 0 || !process_lives(pid));
    ck_assert_int_ne(access(box->place->pid, F_OK), 0);
}

static inline void on_done(int result, void *userdata)
{
    struct box *box = userdata;
    box->done++;
    box->result = result;
}

static inline struct store_op set_op(const char *key, const char *json)
{
    return (struct store_op){.kind = STORE_SET, .key = strdup(key), .json = strdup(json)};
}

static inline void apply(struct box *box, const struct store_op *ops, size_t n)
{
    struct store_batch b = {malloc(n * sizeof(*ops)), n};
    memcpy(b.ops, ops, n * sizeof(*ops));
    store_apply(box->store, &b, on_done, box);
}

static inline void apply_wait(struct box *box, const struct store_op *ops, size_t n)
{
    int before = box->done;
    apply(box, ops, n);
    run_until(&box->place->loop, &box->done, before + 1);
    ck_assert_int_eq(box->result, 0);
}

// One number per batch, so that what was acknowledged can be counted.
static inline void apply_number(struct box *box, int n)
{
    char key[32], json[64];
    (void)snprintf(key, sizeof(key), "job:%08d", n);
    (void)snprintf(json, sizeof(json), "{\"n\":%d}", n);
    const struct store_op op = set_op(key, json);
    apply(box, &op, 1);
}

// Asks Redis beside the store. The command is the test's own text.
static inline void ask(struct place *p, const char *command, char *out, size_t size)
{
    char line[300];
    (void)snprintf(line, sizeof(line), "redis-cli -s %s %s", p->socket, command);
    FILE *f = popen(line, "r");
    ck_assert_ptr_nonnull(f);
    out[fread(out, 1, size - 1, f)] = '\0';
    (void)pclose(f);
}

static inline void kill_redis(struct box *box, int signal)
{
    pid_t pid = store_server_pid(box->store);
    ck_assert_int_gt(pid, 1);
    ck_assert_int_eq(kill(pid, signal), 0);
}
