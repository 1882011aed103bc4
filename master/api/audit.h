// SPDX-License-Identifier: Apache-2.0
// The audit: an append-only file of who changed what and who was refused what, one JSON object a
// line, in the master's data folder. Its promise: a change that was acknowledged has its line on
// disk; a change that took effect has its line in the file even when the master is killed before it
// could answer. It never holds a secret.
#pragma once

#include "master/api/api.h"

struct audit;
struct audit_options {
    uv_loop_t *loop;
    const char *folder;   // copied; made 0700
    size_t file_bytes;    // a file is rotated when it is larger; 0 = 16 MiB
    unsigned files;       // kept, the current one included; 0 = 10
    int64_t aggregate_ms; // repeated offences become one line in this time; 0 = 60,000
};
// Opens or makes the file and continues its numbers. NULL options mean the defaults.
int audit_open(const struct audit_options *o, struct audit **ret, struct err *e) WARN_UNUSED;
// Writes what is still counted, ends with the loop's handles; a goes away by itself. NULL is fine.
void audit_close(struct audit *a);

// A security refusal that is not a plain 401 or 403 of this call's answer (those are recorded by
// api_problem itself): a sealed request that doesn't open, a join token that is not good. `what` is
// a short fixed word ("sealed", "join"), `why` a text without secrets. Repeats of one address and
// word are counted and become one line a minute. No-op without an audit.
void audit_refused(struct call *call, const char *what, const char *why);

// The rest is for api.c and router.c.
// A change is applied in memory and about to be answered with `status`: its line is in the file
// when this returns. `answer` (may be NULL) names the object that was made.
void audit_changed(struct call *call, int status, const json_t *answer);
// A change or a request that was answered with a problem.
void audit_problem(struct call *call, int status, const char *detail);
// Whether lines can be written: else no change is accepted. Tries again when the last write failed.
bool audit_usable(struct audit *a);
// Whether every line written so far is on disk. NULL: true.
bool audit_synced(const struct audit *a);
// Where the files are, for reading (audit_file_scan).
const char *audit_folder(const struct audit *a, unsigned *ret_files);
// Calls fn (later, never from inside) when every line written so far is on disk; with 0 or -errno.
int audit_then(struct audit *a, void (*fn)(int result, void *userdata), void *userdata) WARN_UNUSED;
// Called after each line that is written; add and remove at any time, also from inside.
struct audit_watch {
    void (*line)(void *userdata);
    void *userdata;
    struct audit_watch *prev, *next;
};
void audit_watch_add(struct audit *a, struct audit_watch *w);
void audit_watch_remove(struct audit *a, struct audit_watch *w);
int64_t audit_last(const struct audit *a); // number of the newest line; 0 = none
// Masks the secret part of every "mtok_..." and "mjoin_..." in the text, in place.
void audit_mask(char *text);
