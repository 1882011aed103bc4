// SPDX-License-Identifier: Apache-2.0
// What the files of master/cluster/ share: the context, marks, and the steps that one file offers
// to the others.
#pragma once

#include "common/heap.h"
#include "master/cluster/cluster.h"
#include "master/cluster/event_limit.h"
#include "master/cluster/team.h"
#include "master/cluster/user.h"

struct extra_record { // other modules' records, waiting for the batch
    char *key;
    char *json; // NULL = delete
    int64_t ttl_ms;
};

struct loaded_record { // kept from cluster_load until cluster_start: what it needs comes later
    json_t *json;
    struct loaded_record *next;
};

// Logs that were there at the start (lost_logs.c).
struct lost_logs {
    struct kept_log *logs; // asking: all, by attempt; then those that are nobody's, oldest first
    size_t n, at;          // those before `at` are gone
    bool asking, walking;  // whose they are; and the jobs are being looked at
    struct job *job;       // weak; the next that is looked at
    int element;           // of it, when it is an array
    int64_t gone;          // since the last word about it
};

struct cluster {
    struct cluster_options options;
    char *id, *name;
    struct commit *commit; // borrowed; NULL before start
    int64_t epoch;
    int64_t lost_commits; // that the store is known to have forgotten before this start

    struct node *nodes, *nodes_by_name, *nodes_by_key;
    unsigned node_counts[NODE_STATE_MAX];
    struct user *users;           // by name
    struct team *teams;           // with a record, by name
    struct team_size *team_sizes; // of those that users name
    struct node *gone_shells;
    struct gone_node *gone;
    struct secret *secrets;      // by "<user>/<name>"
    struct seal_keys *seal_keys; // NULL = secrets can't be kept (tests)
    struct job *jobs;            // by id
    struct job *oldest, *newest; // oldest is the list's head; newest its tail
    struct job_names *names;     // job_list.c
    struct job_user *job_users;
    struct job_block *blocks; // from submission number first_block * 256 on
    size_t n_blocks, blocks_capacity;
    int64_t first_block;
    bool jobs_listed;          // else records are being loaded
    struct job *history;       // that are over, the first to end first (history.c)
    struct job *history_logs;  // the first of them that still has its logs
    int64_t n_history;         // with arrays' elements
    int64_t history_gone;      // deleted since the last word about it
    int64_t history_logs_gone; // likewise, of whose only the logs went
    bool history_busy;         // a deletion is on its way to the store
    struct job *dropping; // that are over and in no list, whose logs and elements go (history_next)
    bool drop_busy;
    struct lost_logs lost;
    unsigned job_counts[JOB_STATE_MAX];
    int64_t last_order;
    struct loaded_record *loaded, *loaded_elements;
    struct job *preview; // an element that somebody looks at; NULL = none

    struct node *dirty_nodes;
    struct job *dirty_jobs;
    struct heap limits[LIMIT_CLOCKS]; // of jobs with a deadline or wait_limit (job_limits.c)
    struct wall_timer *limit_timer;   // for LIMIT_WALL; the other has `timer`
    struct job *ended;                // whose dependents are to be looked at
    struct task *dirty_tasks;
    struct extra_record *extras;
    size_t n_extras, extras_capacity;
    struct node *changed_nodes; // assignment moved since the last collect
    struct node **publishing;   // captured by collect: published when the batch is durable
    int64_t *publishing_generation;
    size_t n_publishing;
    int64_t publishing_event;
    bool marked; // something since the last collect

    struct scheduler *scheduler;
    struct plan_images images; // what the nodes have

    struct event **events; // ring of kept events, by id
    bool events_loaded;
    struct event_limit *event_limit;
    int64_t first_event; // id of the oldest kept; last_event + 1 when there is none
    int64_t last_event, collected_event, published_event;
    int64_t seen_event, trimmed_event; // at the last look of give_back_memory, at its last trim
    struct cluster_watch *watches, *watch_cursor;

    struct heap waits; // tasks that ended and whose logs are not in, or that wait to be restarted
    uv_timer_t timer;  // earliest of them and of limits[LIMIT_BOOT]
    uv_timer_t liveness;
    uv_timer_t node_timer; // node_timer.c
    uv_check_t after_poll; // judges after the sockets were polled
    int64_t liveness_due_ms, started_boot_ms, judge_from_ms;
    bool ending;                   // a planned stop is under way
    bool granting;                 // its longer lease is durable: answers give it
    int64_t grant_ms;              // loaded: the master before granted this when it stopped
    char moves_held[REASON_BYTES]; // why nothing is moved although nodes are silent; "" = nothing
    int handles;
    void (*closed)(void *userdata);
    void *closed_userdata;
};

// cluster.c: marks. Each makes the record part of this turn's batch.
void mark(struct cluster *c);
void node_dirty(struct cluster *c, struct node *n);
void job_dirty(struct cluster *c, struct job *j);
void task_dirty(struct cluster *c, struct task *t);
void node_changed(struct cluster *c, struct node *n); // its generation grew
// Something that the scheduler should look at changed.
void want_schedule(struct cluster *c);
// Once per sync interval: after a burst that is over, free memory goes back to the system.
void give_back_memory(struct cluster *c);

// node.c: no other job may be on the task's node.
bool task_exclusive(const struct task *t);
// room.c: what the node's last report says of its disk.
void room_refresh(struct cluster *c, struct node *n);
// liveness.c: what is added to a lease of this length until it is over for sure: clocks that drift
// apart, and the time to freeze.
int64_t lease_margin_ms(int64_t lease_ms);
// When nothing with this lease can run any more on a node that was heard last at `heard`, and that
// an earlier master let run until `granted` (0 = none did).
int64_t lease_over_at(int64_t heard, int64_t granted, int64_t lease_ms);
// former.c: another machine takes the node's place (another key, or a copy of its state). What was
// given to the one before is over only when it is seen on the new one, or when its lease is.
void former_begin(struct cluster *c, struct node *n);
// Whether a status from the new machine says nothing about what the one before runs.
bool former_ignores(struct task *t, const struct attempt_status *s);
// When the machine before can run the task, which is marked, no more; nothing that the new one does
// or that is said of it makes that sooner.
int64_t former_over_at(const struct node *n, const struct task *t);
void former_judge(struct cluster *c, struct node *n, int64_t now_boot_ms);
// settle.c: looks whether work may be placed again.
void settle_look(struct cluster *c);
// Of a record that can't be read before others; kept with a reference of its own. -ENOMEM.
int cluster_put_aside(struct loaded_record **list, const json_t *r, struct err *e) WARN_UNUSED;
void settle_start(struct cluster *c); // when everything is loaded
// Every lease that a master before this one may have given is over, and every node that is there
// has told what it holds and ended what is not known here.
bool settle_all_told(const struct cluster *c);

// event.c
struct event_fields {
    const char *type, *object, *user, *reason;
    const struct node *node;
    const struct job *job;
    const struct task *task;
};
void event_emit(struct cluster *c, const struct event_fields *f);
void event_collect(struct cluster *c);
void event_publish(struct cluster *c, int64_t up_to);
void event_free_all(struct cluster *c);

// node.c, node_record.c
void node_set_state(struct cluster *c, struct node *n, enum node_state s, const char *reason);
void node_refresh_state(struct cluster *c, struct node *n);
void node_reserve(struct cluster *c, struct node *n, struct task *t);
void node_release(struct cluster *c, struct task *t);
// An orphan that is among the node's assignments takes this (1), or does no longer (-1).
void node_orphan_holds(struct cluster *c, struct node *n, const struct attempt_holds *h, int sign);
int node_take_info(struct cluster *c, struct node *n, json_t *info, struct err *e) WARN_UNUSED;
// node_images.c: the names of its images. -EPROTO when it is no such list; -ENOMEM.
int node_take_images(struct cluster *c, struct node *n, const json_t *list,
                     struct err *e) WARN_UNUSED;
json_t *node_images_view(const struct node *n);
char *node_to_record(const struct node *n);
int node_from_record(struct cluster *c, const json_t *j, struct err *e) WARN_UNUSED;
struct node *node_new(struct cluster *c, const char *id, const char *name);
void node_destroy(struct node *n);
// It is in this state from now on; node_set_state also tells.
void node_count_move(struct cluster *c, struct node *n, enum node_state s);
// Its key is this one from now on; "" = none.
void node_set_key(struct cluster *c, struct node *n, const char *fingerprint);

// node_identity.c: its part of the record
void node_identity_to_record(const struct node *n, json_t *j);
void node_identity_from_record(struct node *n, const json_t *j);
// A new instance speaks: -ESTALE when it doesn't come after the one that had the identity last.
int node_identity_instance(struct cluster *c, struct node *n, const struct sync_request *msg,
                           struct err *e) WARN_UNUSED;

// node_message.c
// Whether the clocks of more than half of the ready nodes that told theirs are step_ms ahead of
// this master's, to CLOCK_STEP_MS; 0: agree with it. Without such nodes they don't.
bool clock_agreed(const struct cluster *c, int64_t step_ms);

// node.c: an event about the node; user and reason may be NULL.
void node_emit(struct cluster *c, const struct node *n, const char *type, const char *user,
               const char *reason);

// node_timer.c
void node_timer_arm(struct cluster *c); // for what is due first

// node_drain.c
int64_t node_drain_due(const struct node *n); // CLOCK_BOOTTIME; INT64_MAX = nothing is
void node_drain_look(struct cluster *c, struct node *n, int64_t now_boot_ms); // due?
void node_drain_emptied(struct cluster *c, struct node *n); // nothing runs there any more?
// -EBUSY with the reason while it is being removed: then nothing else can be decided about it.
int node_refuse_leaving(const struct node *n, struct err *e) WARN_UNUSED;
json_t *node_drain_view(const struct node *n); // null while not draining
json_t *node_drain_to_record(const struct node *n);
void node_drain_from_record(struct node *n, const json_t *j);
// task_move of all that it holds.
void node_move_all(struct cluster *c, struct node *n, const char *reason);

// node_aside.c
json_t *node_aside_to_record(const struct node *n); // while it is set aside
void node_aside_from_record(struct cluster *c, struct node *n, const json_t *j); // NULL: it is not
int64_t node_aside_due(const struct node *n);
void node_aside_look(struct cluster *c, struct node *n, int64_t now_boot_ms);
// An attempt runs there, or an operator says that it is well: forgets all failures.
void node_aside_clear(struct cluster *c, struct node *n);
// What made starts fail there may be over: tries one at once.
void node_aside_mended(struct cluster *c, struct node *n);
void node_aside_placed(struct node *n); // something was placed there: if it probes, this is it
void node_aside_ended(struct cluster *c, struct node *n, const struct task *t);

// node_remove.c
int gone_from_record(struct cluster *c, const json_t *j, struct err *e) WARN_UNUSED;
void gone_free_all(struct cluster *c);
// Ends a removal whose work is over or whose time is up.
void node_remove_check(struct cluster *c, struct node *n);

// assignment.c
struct assignment *assignment_add(struct cluster *c, struct node *n, struct task *t);
void assignment_stop(struct cluster *c, struct node *n, struct assignment *a);
void assignment_remove(struct cluster *c, struct node *n,
                       struct assignment *a); // becomes a tombstone
void assignment_give_away(struct cluster *c, struct node *n, struct assignment *a);
void assignment_drop_applied(struct node *n);
void assignment_free_all(struct node *n);
struct assignment *assignment_find(struct node *n, const char *attempt_id);
void assignment_reported(struct node *n, struct assignment *a, enum attempt_state s);

// Takes over a new entry for an attempt that the node has already.
void assignment_adopt(struct cluster *c, struct node *n, struct assignment *a,
                      enum attempt_state s);

// orphan.c
// Whether the attempt, which is not assigned, is kept as an orphan. holds NULL: not known.
bool orphan_keep(struct cluster *c, struct node *n, const struct attempt_status *s,
                 const struct attempt_holds *holds);
// Nothing of it runs any more.
void orphan_ended(struct cluster *c, struct node *n, struct assignment *a);
// Their times, for the node's record.
json_t *orphans_to_record(const struct node *n);
void orphan_gone(struct cluster *c, struct node *n, struct assignment *a); // its entry goes
void orphan_expire(struct cluster *c, struct node *n, int64_t now_boot_ms);
json_t *orphans_view(const struct node *n);

// names.c: a copy of `text`, cut to REASON_BYTES, takes the place of *at, a job's or task's reason.
// Most have none, so it takes no room in them. Out of memory: "".
void reason_set(const char **at, const char *text);

// job.c, job_record.c
struct job *job_new(struct job_spec *spec, const char *user);
// One more of its tasks' sort, with the spec of `of`: name and place in the lists are the caller's.
struct job *job_new_element(struct job *of, int number);
void job_set_state(struct cluster *c, struct job *j, enum job_state s, const char *user,
                   const char *reason);
// State, times and the like of a record. -EPROTO.
int job_read_record(struct job *j, const json_t *r, struct err *e) WARN_UNUSED;
// history.c
void history_add(struct cluster *c, struct job *j); // it is over
// Its logs go, its record stays (drop.c). At most about `most` logs and elements at a time:
// `logs_gone` says that all are gone. How many were looked at.
int job_forget_logs(struct cluster *c, struct job *j, int most);
void history_remove(struct cluster *c, struct job *j);
int history_start(struct cluster *c) WARN_UNUSED; // all are loaded; -ENOMEM
void history_look(struct cluster *c);             // now and then: begins to delete what is too much
// lost_logs.c: now and then, a step of finding out whose logs there are.
void lost_logs_look(struct cluster *c);
void lost_logs_job_gone(struct cluster *c, const struct job *j);
// Nobody's logs are to be deleted: `room` is needed, or they are too old.
bool lost_logs_due(const struct cluster *c, bool room);
bool lost_logs_drop(struct cluster *c, bool room); // the next one; false: none is due
void lost_logs_told(struct cluster *c);            // an event about what went
// drop.c: it goes, with its records and logs; it is over. Many logs, and an array's elements, go in
// steps. How many logs went at once.
int job_drop(struct cluster *c, struct job *j);
void job_drop_start(struct cluster *c); // goes on with what was under way at the last end
void job_drop_look(struct cluster *c);
void job_drop_free(struct cluster *c);
// job_list.c
// Puts a job into all lists; it is the newest, but for loading.
void job_link(struct cluster *c, struct job *j);
void job_unlink(struct cluster *c, struct job *j);
int job_lists_start(struct cluster *c) WARN_UNUSED; // all are loaded; -ENOMEM
struct job_key {
    int64_t key, order; // by this, then by submission
    struct job *job;
};
// An array, because sorting a list of a million jobs walks through all of memory twenty times.
void jobs_sort(struct job_key *keys, size_t n);
void job_lists_free(struct cluster *c);
// It comes into (1) or leaves (-1) the state that it has.
void job_counted(struct cluster *c, struct job *j, int by);
// Those that are not over, the newest first: ->live_next. NULL = none.
struct job *live_jobs_of_name(struct cluster *c, const char *name);
// The live job of that name, else (when any will do) the newest. user NULL = anybody's.
struct job *job_by_name(struct cluster *c, const char *name, const char *user, bool live);
// job.c
void job_free(struct job *j);
void job_refresh(struct cluster *c, struct job *j);
void job_end_begin(struct cluster *c, struct job *j, enum job_state final, const char *user,
                   const char *reason);
void job_queue_update(struct cluster *c, struct job *j);
bool job_admissible(const struct job *j); // its waiting tasks may get a place
bool job_tried(const struct job *j);      // the scheduler looked at it, and it found no place
char *job_to_record(const struct job *j);
int job_from_record(struct cluster *c, const json_t *j, struct err *e) WARN_UNUSED;

// task.c, task_record.c
const struct job_component *task_component(const struct task *t);
void task_name(const struct task *t, char *out, size_t size); // JOBID/COMPONENT/INDEX
// What was last told of its latest attempt; all zero when it had none yet.
const struct attempt_status *task_status(const struct task *t);
// The job goes: what the task owns is freed.
void task_free(struct task *t);
void task_set_state(struct cluster *c, struct task *t, enum task_state s, const char *reason);
void task_place(struct cluster *c, struct task *t, struct node *n, const struct resources *granted,
                uint64_t gpus, const uint16_t *ports, int n_ports);
void task_apply_status(struct cluster *c, struct node *n, struct task *t,
                       const struct attempt_status *s);
void task_gone(struct cluster *c, struct node *n, struct task *t, const char *reason);
// Its node was silent for longer than the attempt's lease and a margin (liveness.c): what ran there
// is frozen or gone for good.
void task_lost(struct cluster *c, struct node *n, struct task *t, const char *reason);
void task_stop(struct cluster *c, struct task *t, const char *reason);
// Pending, and not placed before the delay is over.
void task_back_off(struct cluster *c, struct task *t, int64_t delay_ms);
// Stopped with its grace, and started elsewhere; not counted as a restart, and not done where
// on_node_lost says `fail`. One that stops already goes on stopping.
void task_move(struct cluster *c, struct task *t, const char *reason);
void task_waits_init(struct cluster *c);
void task_timers(struct cluster *c); // arms the timer for the earliest of the waiting tasks
void task_timer_fired(struct cluster *c);
char *task_to_record(const struct task *t);
void task_load_state(struct task *t, enum task_state s); // no event, no record
int task_from_record(struct cluster *c, const json_t *j, struct err *e) WARN_UNUSED;
// At once when it is over and nobody's, as most are: a history of them is not kept twice. Else
// task_from_record is called by cluster_start.
int task_load(struct cluster *c, const json_t *j, struct err *e) WARN_UNUSED;

// attempt_build.c, env.c: what the agent gets
struct attempt_spec *attempt_build(struct cluster *c, const struct task *t); // NULL = out of memory
struct attempt_spec *
attempt_build_bare(const char *id); // of an attempt that is only kept for its logs
int attempt_env(struct cluster *c, const struct task *t, struct job_env **ret,
                size_t *ret_n) WARN_UNUSED;
struct resources component_resources(const struct cluster *c, const struct job_component *k);

// secret.c
int secret_from_record(struct cluster *c, const json_t *j, struct err *e) WARN_UNUSED;
void secret_reseal_all(struct cluster *c); // what is sealed under an older key
void secret_forget_user(struct cluster *c, const char *user);
// Into the spec, with their values while it has not run yet. -ENOMEM.
int secret_for_attempt(const struct cluster *c, const struct task *t,
                       struct attempt_spec *spec) WARN_UNUSED;
void secret_free_all(struct cluster *c);

// user.c
int user_from_record(struct cluster *c, const json_t *j, struct err *e) WARN_UNUSED;
void user_free_all(struct cluster *c);

// team.c
int team_from_record(struct cluster *c, const json_t *j, struct err *e) WARN_UNUSED;
// A user belongs to the team now, or not any more. -ENOMEM. "" is no team.
int team_join(struct cluster *c, const char *name) WARN_UNUSED;
void team_leave(struct cluster *c, const char *name);
void team_free_all(struct cluster *c);

// liveness.c
// The node runs something with this lease, perhaps from before the interval was made longer.
void node_bound_interval(const struct cluster *c, struct node *n, int64_t lease_ms);
// The record of cluster_grant.
int grant_from_record(struct cluster *c, const json_t *j, struct err *e) WARN_UNUSED;
int liveness_start(struct cluster *c);
// One look at all nodes, as the timer's: after a poll of the sockets.
void liveness_judge(struct cluster *c);
void liveness_stop(struct cluster *c);
