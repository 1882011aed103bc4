// SPDX-License-Identifier: Apache-2.0
// Carries out what reconcile decides: claims, starts (bounded in number), stops, removals, leases.
// It owns the talk with the runtime; observed states go into the table of attempts.
#pragma once

#include "node-agent/policy.h"
#include "node-agent/reconcile.h"
#include "node-agent/runtime/runtime.h"

struct executor;

struct executor_options {
    uv_loop_t *loop;
    struct tasks *tasks; // weak
    struct attempt_dirs dirs;
    const char *instance; // borrowed, as are the other texts
    const char *boot_id;
    unsigned max_starts;         // under way at once, pulls included
    const struct policy *policy; // borrowed; NULL = everything is allowed (tests)
    const char *secrets_dir;     // NULL or "" = this node cannot hold secrets
    int64_t log_limit;           // upper bound of spec.log_limit; 0 = none
    // Completes the spec's environment before the start; may fail (the attempt then ends with cause
    // ENGINE).
    int (*prepare)(struct attempt_spec *spec, void *userdata, struct err *e);
    // The out folder exists and will be written (live), was written earlier (resume), is not
    // written any more.
    void (*logs_open)(const char *attempt_id, bool resume, void *userdata);
    void (*logs_end)(const char *attempt_id, void *userdata);
    void (*logs_forget)(const char *attempt_id, void *userdata);
    // Engine state, inventory or something else of the node's report changed.
    void (*node_changed)(void *userdata);
    void (*images_changed)(void *userdata);
    void *userdata;
};

// Owned by the caller: executor_close. -ENOMEM or a negative errno of libuv.
int executor_new(const struct executor_options *options, struct executor **ret) WARN_UNUSED;
// The events to give to the runtime, with the executor as userdata.
const struct runtime_events *executor_runtime_events(void);
// Hands over the runtime (weak) once it exists.
void executor_set_runtime(struct executor *x, struct runtime *runtime);
// Reads the claims of earlier instances into the table. Damaged ones are kept as attempts without a
// spec.
int executor_load(struct executor *x, struct err *e) WARN_UNUSED;
// Looks at every touched attempt and acts. Once per loop turn.
void executor_run(struct executor *x);
// A sync sent at `sent_boot_ms` (CLOCK_BOOTTIME) was answered: renews the leases that the answer
// names.
void executor_lease(struct executor *x, const struct sync_answer *answer, int64_t sent_boot_ms);

// Whether the runtime was listed since the start; how the engine is, and why when it isn't usable.
bool executor_listed(const struct executor *x);
enum engine_state executor_engine(const struct executor *x);
const char *executor_engine_reason(const struct executor *x);
const json_t *executor_engine_info(const struct executor *x); // borrowed, NULL = unknown
json_t *executor_images(const struct executor *x);            // borrowed, NULL = unknown
// Starts under way.
unsigned executor_starting(const struct executor *x);

// After the runtime was closed: waits for workers, then frees and calls `closed`.
void executor_close(struct executor *x, void (*closed)(void *userdata), void *userdata);
