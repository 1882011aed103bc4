// SPDX-License-Identifier: Apache-2.0
// Our own redis-server: started on a unix socket with an fsync before each answer, restarted when
// it ends, and never left behind (it gets SIGTERM when this process dies).
#pragma once

#include "common/err.h"
#include <sys/types.h>
#include <uv.h>

struct redis_server;

struct redis_server_options {
    uv_loop_t *loop;
    const char *dir;      // its folder, made when missing; locked against a second owner
    const char *socket;   // listens there (0700)
    const char *log_path; // NULL = our stderr
    const char *pid_path; // NULL = none
    const char *program;  // NULL = "redis-server" on PATH
    uint64_t
        patience_ms; // an old server or our own that doesn't end is killed after this. 0 = 5000
    // A child runs; it will answer on the socket soon.
    void (*started)(void *userdata);
    // It ended, and will be started again by itself. `reason` is for people.
    void (*ended)(const char *reason, void *userdata);
    // No restart is likely to mend it: an old server won't go, no such program, or the third end in
    // a row while loading (the text then names the files to look at). Restarts go on nevertheless
    // unless nothing was ever started.
    void (*failed)(int error, const struct err *e, void *userdata);
    void *userdata;
};

// Takes the folder's lock (-EWOULDBLOCK: another process owns it) and starts to wait out an old
// server. Strings are copied.
int redis_server_new(const struct redis_server_options *o, struct redis_server **ret,
                     struct err *e) WARN_UNUSED;
// The next three take NULL as well: no server of our own.
pid_t redis_server_pid(const struct redis_server *s); // 0 = not running
// The child has loaded its files.
void redis_server_loaded(struct redis_server *s);
// The child did durable work: the next restart is quick.
void redis_server_settled(struct redis_server *s);
// SIGTERM, and after the patience SIGKILL; `closed` when the child is gone.
void redis_server_close(struct redis_server *s, void (*closed)(void *userdata), void *userdata);
