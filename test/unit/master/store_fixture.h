// SPDX-License-Identifier: Apache-2.0
// For the tests that run a real redis-server: a folder of their own, a loop, and waiting with a
// bound.
#pragma once

#include "common/atomic_file.h"
#include "common/backoff.h"
#include "master/store/store.h"
#include "test/unit/suite.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BOUND_MS 30000

struct place { // where a test works
    uv_loop_t loop;
    char dir[64];
    char data[80], run[80], log[80], pid[80], redis[80], socket[96];
};

static inline void place_names(struct place *p)
{
    (void)snprintf(p->data, sizeof(p->data), "%s/data", p->dir);
    (void)snprintf(p->run, sizeof(p->run), "%s/run", p->dir);
    (void)snprintf(p->log, sizeof(p->log), "%s/redis.log", p->dir);
    (void)snprintf(p->pid, sizeof(p->pid), "%s/redis.pid", p->dir);
    (void)snprintf(p->redis, sizeof(p->redis), "%s/data/redis", p->dir);
    (void)snprintf(p->socket, sizeof(p->socket), "%s/run/redis.sock", p->dir);
}

static inline void place_make(struct place *p)
{
    (void)strcpy(p->dir, "/tmp/meadow-store-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(p->dir));
    place_names(p);
    ck_assert_int_eq(make_dirs(p->redis, 0700, NULL), 0);
    ck_assert_int_eq(make_dirs(p->run, 0700, NULL), 0);
    ck_assert_int_eq(uv_loop_init(&p->loop), 0);
}

// The loop must be empty: whoever was closed left no handle.
static inline void place_drop(struct place *p)
{
    (void)uv_run(&p->loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&p->loop), 0);
    ck_assert_int_eq(remove_tree(p->dir, NULL), 0);
}

static inline void on_bound(uv_timer_t *timer)
{
    *(bool *)timer->data = true;
}

static inline void on_bound_closed(uv_handle_t *handle)
{
    *(bool *)handle->data = true;
}

// Runs the loop until the number is at least `wanted`.
static inline void run_until(uv_loop_t *loop, const int *number, int wanted)
{
    uv_timer_t bound;
    bool over = false;
    ck_assert_int_eq(uv_timer_init(loop, &bound), 0);
    bound.data = &over;
    ck_assert_int_eq(uv_timer_start(&bound, on_bound, BOUND_MS, 0), 0);
    while (*number < wanted && !over)
        (void)uv_run(loop, UV_RUN_ONCE);
    ck_assert_msg(!over, "waited too long");
    bool gone = false;
    bound.data = &gone;
    uv_close((uv_handle_t *)&bound, on_bound_closed);
    while (!gone)
        (void)uv_run(loop, UV_RUN_NOWAIT);
}

static inline void count(void *userdata)
{
    ++*(int *)userdata;
}

// A zombie that its new parent hasn't collected yet counts as dead.
static inline bool process_lives(pid_t pid)
{
    char path[64], state = 'Z';
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "re");
    if (!f)
        return false;
    (void)!fscanf(f, "%*d (%*[^)]) %c", &state);
    (void)fclose(f);
    return state != 'Z' && state != 'X';
}
