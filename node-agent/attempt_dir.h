// SPDX-License-Identifier: Apache-2.0
// The folders and files of an attempt on the node (layout: proto/AGENT.md): claims, exit records,
// lease files.
#pragma once

#include "proto/attempt.h"
#include <sys/types.h>

struct attempt_dirs { // where this agent keeps its attempts; absolute, owned by the caller
    char state[120];  // STATE
    char run[120];    // RUN
    char boot_id[40]; // of the machine as it runs now; "" = not known
};

#define ATTEMPT_PATH_BYTES 256
// "<state>/attempts/<id>/<leaf>" (leaf "" = the folder itself; "out", "work", "claim.json").
void attempt_path(const struct attempt_dirs *d, const char *id, const char *leaf,
                  char out[ATTEMPT_PATH_BYTES]);
void attempt_run_path(const struct attempt_dirs *d, const char *id, const char *leaf,
                      char out[ATTEMPT_PATH_BYTES]);

// Creates the folders and the claim (O_EXCL, fsync of file and folders). -EEXIST when there is a
// claim already.
int attempt_claim(const struct attempt_dirs *d, const struct attempt_spec *spec,
                  struct err *e) WARN_UNUSED;
// Reads a claim. -ENOENT; -EPROTO when damaged.
int attempt_claim_read(const struct attempt_dirs *d, const char *id, struct attempt_spec **ret,
                       struct err *e) WARN_UNUSED;
// Whether the attempt was claimed before the machine's last boot; false when that is not known.
bool attempt_of_earlier_boot(const struct attempt_dirs *d, const char *id);
// Whether it was claimed since then; false when that is not known.
bool attempt_of_this_boot(const struct attempt_dirs *d, const char *id);
// Ids of all claims; *ret is a malloc'd array of `*ret_n` ids.
int attempt_claims_list(const struct attempt_dirs *d, char (**ret)[ATTEMPT_ID_BYTES], size_t *ret_n,
                        struct err *e) WARN_UNUSED;
// Removes both folders of the attempt. Missing = 0.
int attempt_remove(const struct attempt_dirs *d, const char *id, struct err *e) WARN_UNUSED;

struct exit_record {
    int code; // 128+N when killed by signal N
    int signal;
    enum attempt_cause cause;     // EXIT, STOPPED, TIMEOUT or START_FAILED
    int64_t started_ms, ended_ms; // real time
    char text[200];
    bool logs_lost; // bytes of its streams found no room on the disk
};
// -ENOENT: not there (yet); -EPROTO: damaged.
int attempt_exit_read(const struct attempt_dirs *d, const char *id, struct exit_record *ret,
                      struct err *e) WARN_UNUSED;
// 0 and pid + time of the start; -ENOENT: not started.
int attempt_started_read(const struct attempt_dirs *d, const char *id, pid_t *ret_pid,
                         int64_t *ret_ms) WARN_UNUSED;
// What meadow-init says of its health; NONE when it says nothing.
enum health_word attempt_health_read(const struct attempt_dirs *d, const char *id);
// Whether a meadow-init holds the attempt's lock, and its pid.
bool attempt_init_alive(const struct attempt_dirs *d, const char *id, pid_t *ret_pid);
// Takes the lock of meadow-init, so that none can begin until the descriptor is closed: to look and
// to decide in one. -EWOULDBLOCK: one lives; -ENOENT: no lock file.
int attempt_lock(const struct attempt_dirs *d, const char *id) WARN_UNUSED;
// Writes the exit record of an attempt whose end nobody saw, durably: meadow-init refuses to begin
// where one is. Under attempt_lock. No out folder: 0, nothing is written.
int attempt_verdict_write(const struct attempt_dirs *d, const char *id, enum attempt_cause cause,
                          const char *text, struct err *e) WARN_UNUSED;
int attempt_lease_write(const struct attempt_dirs *d, const char *id, const char *boot_id,
                        int64_t deadline_boot_ms, int64_t lease_ms, struct err *e) WARN_UNUSED;
