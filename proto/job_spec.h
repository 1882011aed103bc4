// SPDX-License-Identifier: Apache-2.0
// The job file: what a user asks for, parsed from JSON or YAML and checked as a whole. Plain data.
// Reading never stops at the first mistake; see problem list below. Field meanings:
// docs/job-file.md.
#pragma once

#include "common/err.h"
#include "proto/health.h"
#include "proto/job_array.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// What a task may ask for and a node may have; times 100,000 of them it still fits int64_t.
#define RESOURCES_MAX_MEMORY (INT64_C(64) << 40)
#define RESOURCES_MAX_CPU_MILLI (INT64_C(100000) * 1000)

struct resources {
    int64_t cpu_milli; // millicores
    int64_t memory;    // bytes
    int64_t gpu;       // cards
};

enum job_mode {
    JOB_MODE_DEFAULT,
    JOB_MODE_PROCESS,
    JOB_MODE_GRASS,
    JOB_MODE_GRASS_LOCAL,
    JOB_MODE_GRASS_ON_PREMISES,
    JOB_MODE_GRASS_AZURE,
    JOB_MODE_K8S_AKS,
    JOB_MODE_MAX
};
enum alloc_mode { ALLOC_BEST_FIT, ALLOC_SPREAD, ALLOC_BALANCED, ALLOC_COMPACTED, ALLOC_MAX };
enum alloc_metric { METRIC_CPU, METRIC_MEMORY, METRIC_GPU, METRIC_MAX };
enum gang_mode { GANG_ANY_NODES, GANG_FEW_NODES, GANG_SAME_NODE, GANG_MAX };
enum restart_policy { RESTART_NEVER, RESTART_ON_FAILURE, RESTART_ALWAYS, RESTART_MAX };
enum node_lost_action { NODE_LOST_RESTART, NODE_LOST_FAIL, NODE_LOST_WAIT, NODE_LOST_MAX };
enum after_when { AFTER_OK, AFTER_ANY, AFTER_FAILED, AFTER_MAX };
enum network_mode { NETWORK_HOST, NETWORK_BRIDGE, NETWORK_NONE, NETWORK_MAX };

// Texts as written in job files; from_string gives -EINVAL for anything else.
const char *alloc_mode_to_string(enum alloc_mode m);
int alloc_mode_from_string(const char *text, enum alloc_mode *ret) WARN_UNUSED;
const char *alloc_metric_to_string(enum alloc_metric m);
int alloc_metric_from_string(const char *text,
                             enum alloc_metric *ret) WARN_UNUSED; // any case, as MARO's
const char *gang_mode_to_string(enum gang_mode m);
int gang_mode_from_string(const char *text, enum gang_mode *ret) WARN_UNUSED;
const char *restart_policy_to_string(enum restart_policy p);
int restart_policy_from_string(const char *text, enum restart_policy *ret) WARN_UNUSED;
const char *network_mode_to_string(enum network_mode m);
int network_mode_from_string(const char *text, enum network_mode *ret) WARN_UNUSED;
const char *after_when_to_string(enum after_when w);
int after_when_from_string(const char *text, enum after_when *ret) WARN_UNUSED;
const char *node_lost_action_to_string(enum node_lost_action a);
int node_lost_action_from_string(const char *text, enum node_lost_action *ret) WARN_UNUSED;
const char *job_mode_to_string(enum job_mode m); // "" for the default
int job_mode_from_string(const char *text, enum job_mode *ret) WARN_UNUSED;

struct job_mount {
    char *source; // host path; NULL = the cluster's shared data
    char *target; // absolute path in the container
    bool read_only;
};

struct job_env {
    char *key;
    char *value;
};

struct job_secret {
    char *name; // of the user whose job it is
    char *path; // where the file is in the container; NULL = /run/secrets/NAME
};

struct job_component {
    char *name;
    char *image;    // NULL = none: process nodes only
    char **command; // NULL-terminated argv, or NULL = the image's own. A string in the file became
                    // {"/bin/sh","-c",text}
    bool command_shell; // it was a string
    int num;
    bool has_resources; // false: the cluster's default applies
    struct resources resources;
    bool cpu_all, memory_all, gpu_all; // "all": the node's total
    char *gpu_model;                   // condition on each card's name; NULL = any
    int64_t gpu_memory;                // bytes that each card has at least; 0 = any
    struct job_mount *mounts;
    size_t n_mounts;
    struct job_secret *secrets;
    size_t n_secrets;
    struct job_env *env;
    size_t n_env;
    int ports;
    enum network_mode network;
    enum restart_policy restart;
    int max_attempts; // counts starts; 0 = no bound
    int64_t backoff_ms;
    int64_t max_backoff_ms;
    int stop_signal; // number
    int64_t grace_ms;
    int64_t timeout_ms; // 0 = none
    bool finishes_job;
    bool exclusive;      // no other job on its nodes
    enum gang_mode gang; // of its tasks
    // Components of the job, or "job:NAME" for others, that must be, or must not be, on its nodes:
    // NULL-terminated; NULL = none.
    char **near, **apart;
    int64_t lost_after_ms; // on_node_lost.after; 0 = the cluster's (`lease` of master.yml)
    enum node_lost_action lost_action;
    // Conditions on the node's labels and cards, as constraint_next reads them; NULL = none.
    char *where;
    struct job_health *health; // NULL = none
};

// It starts only when that job is over, and has ended so.
struct job_after {
    char *job; // a name or an id
    enum after_when when;
};
#define JOB_MAX_AFTER 100

struct job_spec {
    char *name;
    enum job_mode mode;
    int priority;     // 0..100
    bool preemptible; // may be stopped and queued again for a job of higher priority
    enum alloc_mode alloc;
    enum alloc_metric metric;
    enum gang_mode gang;              // of all tasks together
    bool exclusive;                   // of all components
    struct job_component *components; // in file order
    size_t n_components;
    json_t *tags; // object or NULL
    struct job_after *after;
    size_t n_after;
    struct job_array array;
    int64_t wait_limit_ms; // to have started, from its submission; 0 = none
    int64_t deadline_ms;   // to be over: from its submission, or the time since the epoch; 0 = none
    bool deadline_fixed;   // the latter
    int refs;              // further holders: job_spec_ref
};

struct job_problem {
    char path[192];    // "components.actor.resources.memory"
    int line;          // 1-based; 0 = unknown
    int column;        // 1-based; 0 = unknown
    char message[384]; // what was found, what was expected, a suggestion for a misspelt key
};

struct job_problems {
    struct job_problem *items; // at most JOB_PROBLEMS_MAX; `more` counts the rest
    size_t count;
    size_t more;
};
#define JOB_PROBLEMS_MAX 100
// What it owns, not the struct.
void job_problems_free(struct job_problems *p);

struct job_warnings {
    char **items; // owned texts, e.g. "mode: …"
    size_t count;
};
// What it owns, not the struct.
void job_warnings_free(struct job_warnings *w);

// Parses text in `format` ("json" or "yaml") and checks it. Returns 0 and a spec owned by the
// caller; -EPROTO when the text is malformed (e has line and column) or -EINVAL with all problems
// (a well-formed text that is wrong: 422). Warnings are filled in either case. The job name given
// (may be NULL) replaces the file's.
int job_spec_parse(const char *text, size_t len, const char *format, const char *name,
                   struct job_spec **ret, struct job_problems *problems,
                   struct job_warnings *warnings, struct err *e) WARN_UNUSED;
void job_spec_free(struct job_spec *spec);
// One holder more: the next job_spec_free only takes that back.
struct job_spec *job_spec_ref(struct job_spec *spec);

// Canonical JSON (units as users write them and exact: "8192m", "500m", "10s");
// job_spec_from_json(job_spec_to_json(x)) == x. What the master stores and shows as `spec`. NULL =
// out of memory.
json_t *job_spec_to_json(const struct job_spec *spec);
int job_spec_from_json(const json_t *json, struct job_spec **ret, struct err *e) WARN_UNUSED;

// "NAME" of "job:NAME"; NULL = a component is meant.
const char *job_named(const char *name);
int job_spec_total_tasks(const struct job_spec *spec);
