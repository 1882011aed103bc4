// SPDX-License-Identifier: Apache-2.0
// What a daemon owes its service manager and its operator: signals, readiness, status line,
// watchdog, pid file.
#pragma once

#include "common/err.h"
#include <uv.h>

struct daemon;

struct daemon_options {
    uv_loop_t *loop;
    const char *pid_file;           // NULL = none
    void (*stop)(void *userdata);   // SIGTERM or SIGINT, once
    void (*reload)(void *userdata); // SIGHUP; NULL = ignored
    void *userdata;
};

// Ignores SIGPIPE, catches the signals, locks and writes the pid file (-EWOULDBLOCK when another
// living process holds it). Owned by the caller, ended by daemon_close.
int daemon_new(const struct daemon_options *options, struct daemon **ret,
               struct err *e) WARN_UNUSED;
// READY=1 with a status line; from then on the watchdog is fed from the loop (when the manager
// asked for it, at half of its time), so that a loop that hangs is restarted.
void daemon_ready(struct daemon *d, const char *status);
// A new status line; nothing is sent when it is the same as the last one.
void daemon_status(struct daemon *d, const char *fmt, ...) PRINTF_LIKE(2, 3);
// RELOADING=1 / READY=1 around a reload.
void daemon_reloading(struct daemon *d);
void daemon_reloaded(struct daemon *d);
// STOPPING=1, removes the pid file, closes the handles; freed from the loop. NULL allowed.
void daemon_close(struct daemon *d);
// Raises the soft limit of open files to the hard one.
void daemon_raise_files(void);
