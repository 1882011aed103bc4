// SPDX-License-Identifier: Apache-2.0
// What runs attempts: a driver (docker, process) behind one table of functions. Asynchronous on the
// agent's loop; every outcome arrives by callback, never from inside the call that asked.
// meadow-init supervises each attempt in both drivers, so attempts outlive the agent.
#pragma once

#include "node-agent/attempt_dir.h"
#include "node-agent/policy.h"
#include <uv.h>

struct runtime;

struct runtime_attempt { // what a listing found
    struct attempt_status
        status; // id, state RUNNING or ENDED, exit fields, container_id, pid, started_ms, ended_ms
};

struct runtime_events {
    // The engine became usable or not (also once at start). `reason` says why not, for people.
    // `info` is {name, version, api, ...} for the node report, borrowed.
    void (*engine)(bool ok, const char *reason, const json_t *info, void *userdata);
    // Everything of this cluster and node that exists now: after start and after each engine
    // reconnect. Attempts of which no process lives and nothing is known are not in it.
    void (*listed)(const struct runtime_attempt *items, size_t n, void *userdata);
    // "pulling image x: 40 %", "creating container", "starting".
    void (*phase)(const char *attempt_id, const char *text, void *userdata);
    // RUNNING: status has pid, container_id, started_ms, health. Again when its health changes.
    void (*started)(const struct attempt_status *status, void *userdata);
    // ENDED, once per attempt and process life: also when a start failed (cause START_FAILED, IMAGE
    // or ENGINE).
    void (*ended)(const struct attempt_status *status, void *userdata);
    // After remove: container and whatever the driver kept are gone (or there were none).
    void (*removed)(const char *attempt_id, void *userdata);
    // The images that can be run without a pull: short names (proto/image_name.h), the most
    // recently used first, at most IMAGES_TOLD_MAX; borrowed. Once the engine answers, and when
    // they change.
    void (*images)(const json_t *names, void *userdata);
};

// When images that meadow pulled are removed (docker_gc.c). All zero: never.
struct image_gc {
    int64_t high_percent, low_percent; // of the engine's disk; 0 or 100 = it is not looked at
    int64_t max_bytes;                 // of all of them; 0 = no bound
    int64_t min_age_ms;                // since a task used it last
};

struct runtime_options { // texts are borrowed until the driver has closed
    uv_loop_t *loop;
    const struct runtime_events *events; // borrowed
    void *userdata;
    struct attempt_dirs dirs;
    const char *cluster_id;
    const char *node_id;
    const char *node_name;
    const char *init_path;       // meadow-init binary on this machine
    const char *data_dir;        // shared data on this machine
    const char *docker_socket;   // docker only
    struct image_gc image_gc;    // docker only
    const char *cgroup_parent;   // "" = the driver's default
    const char *boot_id;         // as leases have it; NULL = meadow-init looks for itself
    bool units;                  // process: attempts are services of systemd
    const char *secrets_dir;     // where folders of secrets are; may be NULL without any
    const struct policy *policy; // NULL = none (tests)
    int64_t total_cpu_milli; // of the machine as it is, not as configured (engines refuse more than
                             // it has)
    // docker: what the container's own name resolves to with the host's network. Read at each
    // start; NULL or "" = not known, the name is left alone.
    const char *node_address;
    // docker: the UUID of a card, by its index; NULL = no real card, so no engine is told of it.
    // May be NULL.
    const char *(*gpu_uuid)(int index, void *gpu_userdata);
    void *gpu_userdata;
};

struct runtime_ops {
    const char *name; // "docker", "process"
    // The claim exists. Runs it: image, create, start. For an attempt that is there already (same
    // id) it reports what it found instead of starting a second one.
    void (*start)(struct runtime *r, const struct attempt_spec *spec);
    // It is alive, or has left a record, and was not in the listing: tells of it from now on. Never
    // starts anything.
    void (*adopt)(struct runtime *r, const char *attempt_id);
    // Asks it to end: the spec's signal, then SIGKILL after grace. Repeating is harmless; during
    // start it cancels. grace_ms < 0 = as in the spec.
    void (*stop)(struct runtime *r, const char *attempt_id, int64_t grace_ms);
    void (*remove)(struct runtime *r, const char *attempt_id);
    // CPU ms used and memory bytes now of all attempts, for the report; fills *ret with {"<id>":
    // {cpu_ms, memory}} or {} (owned by caller).
    json_t *(*usage)(struct runtime *r);
    // Stops watching (attempts run on) and frees from the loop.
    void (*close)(struct runtime *r, void (*closed)(void *userdata), void *userdata);
};
struct runtime {
    const struct runtime_ops *ops;
};

// Owned by the caller, ended by ops->close. -ENOMEM or a negative errno with text; an engine that
// is away is no error but an event.
int runtime_docker_new(const struct runtime_options *o, struct runtime **ret,
                       struct err *e) WARN_UNUSED;
int runtime_process_new(const struct runtime_options *o, struct runtime **ret,
                        struct err *e) WARN_UNUSED;
