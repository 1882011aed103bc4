// SPDX-License-Identifier: Apache-2.0
// What meadow-init tells the agent through the out folder: lock, `started`, `exit`; and what it is
// told there: `stop`.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct record {
    int dir_fd;     // the out folder
    int lock_fd;    // held until the process ends
    int started_fd; // room reserved, renamed into place when written
    int exit_fd;
};

#define RECORD_LOGS_LOST "logs lost" // second line of the exit record

struct exit_info {
    int code;
    int signal;
    const char *cause; // "exit", "stopped", "timeout", "start_failed", "unhealthy"...
    int64_t start_ms, end_ms;
    const char *text; // one line
    bool logs_lost;   // some bytes of stdout or stderr found no room
};

// Opens the folder, takes the lock (waits for it) and reserves room for both records. `lock_fd` >=
// 0: already locked. 0; -EALREADY when the attempt ran before; another -errno, *ret_what naming the
// step.
int record_open(struct record *r, const char *out, int lock_fd, const char **ret_what);
// Puts our pid into the lock file: after the command was forked, as it may have to wait for the
// disk.
void record_pid(struct record *r);
int record_started(struct record *r, pid_t pid, int64_t start_ms);
// Durable when it returns 0.
int record_exit(struct record *r, const struct exit_info *info);
// The word for the agent in `health`; what can't be written comes with the next change.
void record_health(const struct record *r, const char *word);
// Whether a stop was asked for by file, and the grace it names (-1 = none named).
bool record_stop_wanted(const struct record *r, int64_t *ret_grace_ms);
// One line for people, into init.log, with the time.
void record_note(const struct record *r, const char *text);
