// SPDX-License-Identifier: Apache-2.0
// Making sure that no earlier redis-server still has our folder or socket, before a new one is
// started: two servers on one folder would both append to its files.
#pragma once

#include "common/err.h"
#include <sys/types.h>
#include <uv.h>

struct redis_old;

struct redis_old_options {
    uv_loop_t *loop;
    const char *dir;      // Redis's working folder, absolute, no link in it; the lock lies in it
    const char *socket;   // absolute
    uint64_t patience_ms; // after this long an old server is killed; after twice as long given up.
                          // 0 = 5000
    // Once, from the loop. 0: `lock` is the locked descriptor of dir/server.lock, which the new
    // server must inherit (the lock is held as long as any process has it open) and which the
    // receiver closes. Or -EBUSY (it doesn't go), -EADDRINUSE (somebody else's server has the
    // socket), another -errno.
    void (*done)(int result, int lock, const struct err *e, void *userdata);
    void *userdata;
};

// Starts the search; the object frees itself after done(). -ENOMEM.
int redis_old_wait(const struct redis_old_options *o, struct redis_old **ret,
                   struct err *e) WARN_UNUSED;
// done() isn't called any more; `closed` comes from the loop.
void redis_old_cancel(struct redis_old *o, void (*closed)(void *userdata), void *userdata);
// Writes the pid of the server that now holds the lock into the lock's file, for the next search.
void redis_old_note(int lock, pid_t pid);
