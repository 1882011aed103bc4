// SPDX-License-Identifier: Apache-2.0
// The cluster model: the only place where state changes. Verbs are pure transitions on memory plus
// a mark; the mark makes them part of the turn's batch (store/commit.h). Replies, events and
// assignments leave only when that batch is durable.
#pragma once

#include "common/strbuf.h"
#include "master/cluster/model.h"
#include "master/scheduler/options.h"
#include "master/store/commit.h"
#include <uv.h>

struct kept_log;

struct cluster_options {
    uv_loop_t *loop;
    const char *id;
    const char *name;
    int64_t sync_interval_ms;
    int64_t lease_ms;
    int64_t orphans_ms;    // attempts of unknown jobs are kept so long; 0 = stopped at once
    int64_t stop_lease_ms; // what a planned stop grants
    int64_t log_limit;     // bytes per stream kept on a node
    int64_t disk_warn_percent, disk_full_percent; // used part of a disk; 0 = not looked at
    struct resources default_resources;           // of components without `resources`
    int64_t longest_lease_ms; // that a master of this cluster may have given; for `restored`
    bool restored; // the store came from a backup: nothing is placed until nodes have told
                   // (settle.c)
    void (*settled)(void *userdata); // they have; NULL = nobody cares
    struct scheduling_options scheduling;
    struct {
        int64_t
            failures; // starts in a row that failed, of two jobs: the node is set aside; 0 = never
        int64_t pause_ms, max_pause_ms; // until one is tried again
    } aside;
    struct {
        int64_t jobs;      // that are over are kept; 0 = all
        int64_t age_ms;    // since their end; 0 = for ever
        int64_t log_bytes; // of all logs: those of jobs that are over go above it; 0 = never
    } history;
    // Called for each node whose published assignment moved (answer its held sync).
    void (*assignment_moved)(struct node *node, void *userdata);
    // The node has sent everything that the attempt wrote.
    void (*logs_complete)(const char *attempt_id, void *userdata);
    // What all logs take on disk now, bytes; NULL = not known.
    int64_t (*logs_kept)(void *userdata);
    // The attempt's logs are no longer needed (its job was deleted).
    void (*forget_logs)(const char *attempt_id, void *userdata);
    void *userdata;
};

struct cluster *cluster_new(const struct cluster_options *o); // NULL = out of memory
// Ends its timers; `closed` comes from the loop.
void cluster_close(struct cluster *c, void (*closed)(void *userdata), void *userdata);
void cluster_free(struct cluster *c); // after closed

// Loading, before cluster_start: one record of ours ("node:", "job:", "task:"); -ENOENT when the
// key is not the cluster's.
int cluster_load(struct cluster *c, const char *key, const char *json, size_t len,
                 struct err *e) WARN_UNUSED;
// An event of the stream, in order; the newest are kept for lists. Unreadable ones are skipped.
void cluster_load_event(struct cluster *c, int64_t id, const char *json, size_t len);
// Links what was loaded, takes the commit queue (borrowed) and begins to work. `epoch` is the
// store's. `last_event` the highest event id in the stream.
int cluster_start(struct cluster *c, struct commit *commit, int64_t epoch, int64_t last_event,
                  struct err *e) WARN_UNUSED;
// The logs that were on the disk at the start, sorted by attempt: taken. Those that are nobody's
// are deleted when it is time (lost_logs.c). userdata of log_store_count = the cluster.
void cluster_logs_found(struct kept_log *logs, size_t n, void *cluster);
// The commit queue's collect: schedules if something changed, then puts all dirty records. userdata
// = the cluster.
void cluster_collect(void *cluster);

// Other modules' records (tokens, idempotency) ride in the same batch. json is taken.
void cluster_put(struct cluster *c, const char *key, char *json, int64_t ttl_ms);
void cluster_del(struct cluster *c, const char *key);
struct commit *cluster_commit(struct cluster *c);

// Borrowed for the cluster's life; the epoch of the store that is owned now.
const char *cluster_id(const struct cluster *c);
const char *cluster_name(const struct cluster *c);
int64_t cluster_epoch(const struct cluster *c);
// The store raised it: every node is told its assignment and asked for its inventory anew.
void cluster_set_epoch(struct cluster *c, int64_t epoch);
// A node has seen `lost` commits that the store doesn't have (rollback.c); `reason` is for people.
void cluster_rolled_back(struct cluster *c, const struct node *n, int64_t lost, const char *reason);
int64_t cluster_lost_commits(const struct cluster *c); // the most that were told since the start
const struct cluster_options *cluster_settings(const struct cluster *c);

// --- nodes ---
struct node *cluster_node_by_id(struct cluster *c, const char *id);
struct node *cluster_node_by_name(struct cluster *c, const char *name);
struct node *cluster_node_by_key(struct cluster *c, const char *fingerprint);
struct node *cluster_nodes(struct cluster *c); // uthash head (hh), iteration order = join order
unsigned cluster_node_count(const struct cluster *c);
unsigned cluster_node_count_in(const struct cluster *c, enum node_state state);
// Joins by key: the same key gets the same node again (a name that `node replace` has freed goes to
// the new key, with everything else of the node). -EEXIST when another key has the name: e tells
// who has it, since when, and what settles it; -EBUSY when the node is being removed.
struct node_claim {
    const char *name;
    const char *key_fingerprint;
    const char *machine_id; // "" = unknown
    bool approved;          // else it waits for `node approve`
};
int cluster_node_join(struct cluster *c, const struct node_claim *claim, struct node **ret,
                      struct err *e) WARN_UNUSED;
// A certificate was made for the node. The one in use stays good until the new one is used.
void cluster_node_issued(struct cluster *c, struct node *n, const char *cert_fingerprint,
                         int64_t not_after_ms);
// Whether the node may use this certificate; the first use of a new one ends the old one.
bool cluster_node_uses(struct cluster *c, struct node *n, const char *cert_fingerprint,
                       int64_t not_after_ms);
// Repeating is harmless. -EBUSY while it is being removed.
int cluster_node_approve(struct cluster *c, struct node *n, const char *user,
                         struct err *e) WARN_UNUSED;
// For the next hour another machine (a new key, or a copy of this one's state) may take the node's
// place, once.
#define NODE_REPLACE_MS INT64_C(3600000)
int cluster_node_replace(struct cluster *c, struct node *n, const char *user,
                         struct err *e) WARN_UNUSED;
// Ends what runs there of jobs that are not known.
void cluster_node_stop_orphans(struct cluster *c, struct node *n, const char *user);
// Takes `labels`, an object of texts: the node's labels are exactly these.
void cluster_node_set_labels(struct cluster *c, struct node *n, json_t *labels, const char *user);
// Its work is stopped with its grace, then the record goes: when the agent has confirmed, or when
// grace and lease are over. Repeating is harmless.
void cluster_node_remove(struct cluster *c, struct node *n, const char *user);
// A node that was removed, by id or name (the last of that name); NULL = unknown or forgotten.
const struct gone_node *cluster_node_gone(struct cluster *c, const char *ref);
// Before anything else of a message is read: -EPROTO when the agent's version is too far from ours;
// then the node is as good as silent, and its reason says why.
int cluster_node_protocol(struct cluster *c, struct node *n, int64_t protocol,
                          struct err *e) WARN_UNUSED;
// One message of an agent (sync or report), applied. -EBUSY: a second live instance; -EPROTO.
// `held_gone`: see api/agents.c.
int cluster_node_message(struct cluster *c, struct node *n, struct sync_request *msg,
                         struct err *e) WARN_UNUSED;
// It spoke while the store can take nothing in: it lives, and as the answer renews its leases, that
// counts; nothing else of its message does.
void cluster_node_heard(struct node *n, const char *instance);
// How long its syncs are held, ms: the cluster's interval, or less for what it runs.
int64_t cluster_node_interval(const struct cluster *c, const struct node *n);
// An operator's word that the machine is off: its tasks are lost at once, whatever their
// on_node_lost says and however many nodes are missing. -EBUSY while it answers.
int cluster_node_off(struct cluster *c, struct node *n, const char *user,
                     struct err *e) WARN_UNUSED;
// Why nothing is moved although nodes are silent (more than half are); "" = nothing holds it.
const char *cluster_moves_held(const struct cluster *c);
// Least on_node_lost.after that this cluster can keep, ms.
int64_t cluster_lease_min(const struct cluster *c);
// A planned stop (ms 0: nothing to grant): from now on answers grant leases of at least `ms` once
// the record, part of the next batch, is durable (cluster_grant_durable).
void cluster_grant(struct cluster *c, int64_t ms);
void cluster_grant_durable(struct cluster *c, bool durable);
// Its connection with the held sync is gone: another instance may take over at once.
void cluster_node_disconnected(struct cluster *c, struct node *n);
// Whether the attempt is in the node's assignment: only then may the node send its logs.
bool cluster_node_holds(struct node *n, const char *attempt_id);
// Fills an answer (owned by the caller) for the agent's position: only when everything of the node
// is published.
bool cluster_node_settled(const struct node *n);
int cluster_node_answer(struct cluster *c, struct node *n, const struct sync_position *applied,
                        struct sync_answer *ret) WARN_UNUSED;
// Used part of a disk, in whole percent, rounded down; 0 when the figures make no sense.
int room_used_percent(int64_t total, int64_t free);
// Gives the node no new work. What the order doesn't say stays as an earlier one said it; a
// deadline counts from now. Without one what runs there may finish; at the deadline it is stopped
// with its grace and started elsewhere, not counted as a restart. -EBUSY while the node is being
// removed.
#define DRAIN_KEEP (-1) // of the deadline: as it is
#define DRAIN_NONE (-2) // there is none (any more)
struct drain_order {
    const char *reason;  // NULL = as it is
    int64_t deadline_ms; // from now, or one of the above
    const char *user;
};
int cluster_node_drain(struct cluster *c, struct node *n, const struct drain_order *o,
                       struct err *e) WARN_UNUSED;
// It is set aside, but may get one job's tasks as a probe.
bool node_aside_probe(const struct node *n);
// "draining: why; what is left is stopped at ...".
void node_drain_text(const struct node *n, char *out, size_t size);
// Gives it work again, and forgets reason and deadline; what the deadline has stopped stays so.
// Repeating is harmless. -EBUSY while the node is being removed.
int cluster_node_resume(struct cluster *c, struct node *n, const char *user,
                        struct err *e) WARN_UNUSED;

// After a restore: how long, at least, until work is placed. 0 = it is.
int64_t cluster_settle_ms(const struct cluster *c);

// --- jobs ---
struct job *cluster_job_by_id(struct cluster *c, const char *id);
// An id, else the user's live job of that name, else the newest of that name. user NULL =
// anybody's.
// An array's element is "ARRAY_INDEX": one that was not made yet is only good to look at, until the
// next call, or cluster_job_make.
struct job *cluster_job_find(struct cluster *c, const char *ref, const char *user);
// Before anything is done to a job that was found: makes it a job of its own. Harmless for others.
void cluster_job_make(struct cluster *c, struct job *j);
// The array's element with this number (0 <= number < count), as cluster_job_find's. NULL = out of
// memory.
struct job *cluster_job_element(struct cluster *c, struct job *array, int number);
struct job *cluster_jobs_newest(struct cluster *c);
struct job *cluster_job_older(struct cluster *c,
                              const struct job *j); // the one submitted before it; NULL at the end
struct job_filter {
    const char *user; // NULL = anybody's
    unsigned states;  // JOB_IN(state) of those that are wanted
};
#define JOB_IN(state) (1u << (state))
bool cluster_job_passes(const struct job *j, const struct job_filter *f);
// Whether it is worth making the array's element `number` to look at it.
bool cluster_element_may_pass(const struct job *array, int number, const struct job_filter *f);
size_t cluster_elements_matching(const struct job *array, const struct job_filter *f);
// The newest job that passes and is older than `after` (NULL = of all); NULL at the end.
struct job *cluster_jobs_next(struct cluster *c, const struct job *after,
                              const struct job_filter *f);
size_t cluster_jobs_matching(struct cluster *c, const struct job_filter *f);
unsigned cluster_job_count(const struct cluster *c);
unsigned cluster_job_count_in(const struct cluster *c, enum job_state state);
// Takes the spec. -EEXIST: the user has a live job of that name. -ENOSPC: too many jobs.
int cluster_job_submit(struct cluster *c, struct job_spec *spec, const char *user, struct job **ret,
                       struct err *e) WARN_UNUSED;
// Repeating is harmless; a job that is over stays as it is.
void cluster_job_stop(struct cluster *c, struct job *j, const char *user, const char *reason);
// A held job's waiting tasks get no place; what runs goes on. Repeating is harmless. -EINVAL: it is
// over.
int cluster_job_set_held(struct cluster *c, struct job *j, bool held, const char *user,
                         struct err *e) WARN_UNUSED;
// -EBUSY while it is not over. Record, tasks and logs go.
int cluster_job_delete(struct cluster *c, struct job *j, const char *user,
                       struct err *e) WARN_UNUSED;
struct task *cluster_job_task(struct job *j, const char *component, int index);

// --- events ---
// Something about the cluster as a whole; durable with the turn's batch. user may be NULL.
void cluster_event(struct cluster *c, const char *type, const char *reason, const char *user);
struct cluster_watch {
    void (*event)(const struct event *ev, void *userdata); // durable events, in order
    void *userdata;
    struct cluster_watch *prev, *next;
};
void cluster_watch_add(struct cluster *c, struct cluster_watch *w);
void cluster_watch_remove(struct cluster *c,
                          struct cluster_watch *w);  // also from inside a callback
int64_t cluster_last_event(const struct cluster *c); // last published id
// In memory, for lists: the newest `n` are kept (CLUSTER_EVENTS_KEPT). Oldest first from id >
// after; NULL at the end.
#define CLUSTER_EVENTS_KEPT 10000
const struct event *cluster_event_after(const struct cluster *c, int64_t after);

// --- explain ---
struct plan_explanation;
// Why it waits (job with pending tasks), computed now. -EALREADY when nothing of it waits, or it is
// held. Node names come in cluster_nodes order. *ret_more: {why, reservation}, the caller's.
int cluster_job_explain(struct cluster *c, struct job *j, struct plan_explanation *ret,
                        json_t **ret_more) WARN_UNUSED;
// Ids of waiting jobs that are looked at before it, the first first, at most `max`. Borrowed.
size_t cluster_job_ahead(struct cluster *c, const struct job *j, const char **ret, size_t max);
// What would become of the job if it were submitted now: {starts_now, why, summary, placements}.
// The spec stays the caller's. -EINVAL: never fits the user's quota.
int cluster_job_plan(struct cluster *c, struct job_spec *spec, const char *user, json_t **ret,
                     struct err *e) WARN_UNUSED;

// --- views (JSON shapes of docs/api.md); new references, NULL = out of memory ---
json_t *node_view(const struct node *n);
json_t *node_summary(const struct node *n); // for lists: without what each of its tasks uses
json_t *job_view(const struct job *j, bool with_spec_and_tasks);
// The same for lists, as one line of tab-separated values; without its reason where it is not to be
// seen. JOB_ROW_HEAD names the columns; `tasks` are an array's elements.
#define JOB_ROW_HEAD                                                                               \
    "id\tname\tstate\tuser\tpriority\trunning\ttasks\tsubmitted_at\tstarted_at\tended_"            \
    "at\treason\n"
void job_row(const struct job *j, bool with_reason, struct strbuf *out);
json_t *task_view(const struct task *t);
json_t *event_view(const struct event *ev);
