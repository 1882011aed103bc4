// SPDX-License-Identifier: Apache-2.0
// Starting daemons and waiting until they say that they are ready (sd_notify) or end.
#pragma once

#include "cli/local.h"

struct spawn_set;

// A socket for their word in DIR/run. *ret is ended by spawn_free.
int spawn_open(const struct local *l, struct spawn_set **ret, struct err *e) WARN_UNUSED;
void spawn_free(struct spawn_set *s); // the daemons live on

// Starts `binary` --config DIR/<name>.yml --pid-file DIR/<name>.pid in a session of its own, output
// to DIR/log/<name>.log. It inherits `fd` when that is >= 0 (and only that).
int spawn_daemon(struct spawn_set *s, const char *binary, const char *name, int fd,
                 struct err *e) WARN_UNUSED;
// Until all are ready. -ECHILD: one ended first; -ETIMEDOUT. *ret_name (borrowed) is the one that
// failed.
int spawn_wait(struct spawn_set *s, int timeout_ms, const char **ret_name,
               struct err *e) WARN_UNUSED;
// What the daemon wrote since it was started, the last `lines` lines; caller frees.
char *spawn_last_words(const struct spawn_set *s, const char *name, int lines);

// Path of a program of ours: beside this one, on PATH, in /usr/sbin or /usr/bin. Caller frees.
int spawn_find(const char *program, char **ret, struct err *e) WARN_UNUSED;
