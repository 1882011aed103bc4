// SPDX-License-Identifier: Apache-2.0
// Attempts that only take time. What happens to them goes into the history, one line each:
//   <time, ms> <what> <attempt id> <job> <component> <index> <number> <node>
// what: got (the assignment arrived), run, freeze and thaw (its lease was over; renewed), end.
#include "test/sim/swarm/swarm.h"

#include "common/cleanup.h"
#include "common/clock.h"

#include <stdlib.h>
#include <string.h>

#define STOP_MS 20 // from the order to the end

static void note_ago(const struct agent *a, const struct attempt *x, const char *what, int64_t ms)
{
    if (a->swarm->history)
        (void)fprintf(a->swarm->history, "%lld %s %s %s %s %d %d %s\n",
                      (long long)(clock_real_ms() - ms), what, x->id, x->spec->job,
                      x->spec->component, x->spec->index, x->spec->attempt, a->name);
}

static void note(const struct agent *a, const struct attempt *x, const char *what)
{
    note_ago(a, x, what, 0);
}

static bool over(const struct attempt *x)
{
    return x->status.state == ATTEMPT_ENDED;
}

static bool runs(const struct attempt *x)
{
    return x->status.state == ATTEMPT_RUNNING || x->status.state == ATTEMPT_STOPPING;
}

static void set_state(struct agent *a, struct attempt *x, enum attempt_state state)
{
    a->sum -= x->status.change ? inventory_hash(x->id, x->status.state) : 0;
    x->status.state = state;
    x->status.change = ++a->change;
    a->sum += inventory_hash(x->id, state);
}

static void end(struct agent *a, struct attempt *x, enum attempt_cause cause, int code)
{
    if (runs(x)) {
        a->swarm->stats.running--;
        note(a, x, "end");
    }
    a->swarm->stats.ends++;
    x->status.cause = cause;
    x->status.has_exit = cause == CAUSE_EXIT || cause == CAUSE_STOPPED;
    x->status.exit_code = code;
    x->status.ended_ms = clock_real_ms();
    x->status.logs = LOGS_COMPLETE;
    x->due_ms = 0;
    set_state(a, x, ATTEMPT_ENDED);
}

// A shell of three words: "sleep S" and "exit N" are done, everything else takes a seeded time.
static int64_t lasts_ms(struct swarm *s, struct attempt *x)
{
    const char *text = "";
    for (char **word = x->spec->command; word && *word; word++)
        text = *word;
    const char *sleep = strstr(text, "sleep "), *code = strstr(text, "exit ");
    x->exit_code = code ? atoi(code + 5) : strcmp(text, "false") == 0;
    if (sleep)
        return (int64_t)(strtod(sleep + 6, NULL) * 1000);
    if (code || strcmp(text, "true") == 0 || strcmp(text, "false") == 0)
        return 0;
    uint64_t span = (uint64_t)(s->o.most_ms - s->o.least_ms) + 1;
    return s->o.least_ms + (int64_t)(swarm_random(s) % span);
}

// --- the assignment ---

static struct attempt *attempt_new(struct agent *a, struct attempt_spec *spec)
{
    struct swarm *s = a->swarm;
    struct attempt *x = calloc(1, sizeof(*x));
    if (!x)
        return NULL;
    memcpy(x->id, spec->id, sizeof(x->id));
    memcpy(x->status.id, spec->id, sizeof(x->id));
    x->spec = spec;
    HASH_ADD_STR(a->attempts, id, x);
    note(a, x, "got");
    if (strcmp(spec->issued_to, a->instance) != 0) {
        (void)snprintf(x->status.reason, sizeof(x->status.reason), "issued to another instance");
        end(a, x, CAUSE_NEVER_STARTED, 0);
        return x;
    }
    set_state(a, x, ATTEMPT_STARTING);
    x->due_ms = clock_boot_ms() + 1 + (int64_t)(swarm_random(s) % (uint64_t)(s->o.start_ms + 1));
    return x;
}

static void attempt_forget(struct agent *a, struct attempt *x)
{
    if (!over(x))
        end(a, x, CAUSE_STOPPED, 143);
    a->sum -= inventory_hash(x->id, x->status.state);
    HASH_DEL(a->attempts, x);
    attempt_spec_free(x->spec);
    free(x);
}

static int take_entry(struct agent *a, struct assignment_entry *entry)
{
    struct attempt *x = NULL;
    HASH_FIND_STR(a->attempts, entry->spec->id, x);
    if (!x && !(x = attempt_new(a, entry->spec)))
        return -ENOMEM;
    if (x->spec == entry->spec)
        entry->spec = NULL;
    x->dropped = false;
    x->desired = entry->desired;
    if (x->desired == DESIRED_STOP && !over(x) && x->status.state != ATTEMPT_STOPPING) {
        if (runs(x))
            set_state(a, x, ATTEMPT_STOPPING);
        x->due_ms = clock_boot_ms() + STOP_MS;
    }
    return 0;
}

int attempts_apply(struct agent *a, struct sync_answer *answer)
{
    struct attempt *x, *next;
    if (!answer->assignment_full && (answer->base.epoch != a->applied.epoch ||
                                     answer->base.generation != a->applied.generation))
        return 0;
    for (x = a->attempts; x; x = x->hh.next)
        x->dropped = answer->assignment_full;
    for (size_t i = 0; i < answer->n_entries; i++)
        if (take_entry(a, &answer->entries[i]) < 0)
            return -ENOMEM;
    for (size_t i = 0; i < answer->n_removed; i++) {
        HASH_FIND_STR(a->attempts, answer->removed[i], x);
        if (x)
            x->dropped = true;
    }
    HASH_ITER (hh, a->attempts, x, next) {
        if (x->dropped)
            attempt_forget(a, x);
    }
    a->applied = answer->position;
    return 0;
}

// --- leases ---

static void thaw(struct agent *a, struct attempt *x, int64_t now)
{
    x->frozen = false;
    x->due_ms = now + x->left_ms;
    note(a, x, "thaw");
}

void attempts_lease(struct agent *a, const struct sync_answer *answer, int64_t sent_boot_ms)
{
    struct attempt *x;
    int64_t now = clock_boot_ms();
    for (x = a->attempts; x; x = x->hh.next)
        x->denied = answer->lease_scope == LEASES_ONLY;
    for (size_t i = 0; i < answer->n_leases; i++) {
        HASH_FIND_STR(a->attempts, answer->leases[i], x);
        if (x)
            x->denied = answer->lease_scope == LEASES_EXCEPT;
    }
    for (x = a->attempts; x; x = x->hh.next) {
        int64_t lease = x->spec->lease_ms;
        if (x->denied || lease == 0 || over(x))
            continue;
        if (answer->lease_at_least_ms > lease)
            lease = answer->lease_at_least_ms;
        x->deadline_ms = sent_boot_ms + lease;
        if (x->frozen && x->deadline_ms > now)
            thaw(a, x, now);
    }
}

// --- time ---

static void start(struct agent *a, struct attempt *x, int64_t now)
{
    if (x->deadline_ms && now >= x->deadline_ms)
        return; // the next answer may renew it
    x->status.started_ms = clock_real_ms();
    set_state(a, x, ATTEMPT_RUNNING);
    x->due_ms = now + lasts_ms(a->swarm, x);
    a->swarm->stats.running++;
    a->swarm->stats.starts++;
    note(a, x, "run");
}

static void step(struct agent *a, struct attempt *x, int64_t now)
{
    if (x->status.state == ATTEMPT_STOPPING || x->desired == DESIRED_STOP) {
        end(a, x, CAUSE_STOPPED, 143);
    } else if (x->status.state == ATTEMPT_STARTING) {
        start(a, x, now);
    } else {
        end(a, x, CAUSE_EXIT, x->exit_code);
    }
}

// It froze at the deadline, whenever this process comes to see it.
static void freeze(struct agent *a, struct attempt *x, int64_t now)
{
    x->frozen = true;
    x->left_ms = x->due_ms > x->deadline_ms ? x->due_ms - x->deadline_ms : 0;
    note_ago(a, x, "freeze", now - x->deadline_ms);
}

int64_t attempts_step(struct agent *a, int64_t now)
{
    int64_t next = 0;
    for (struct attempt *x = a->attempts; x; x = x->hh.next) {
        if (runs(x) && !x->frozen && x->deadline_ms && now >= x->deadline_ms)
            freeze(a, x, now);
        bool rests = x->frozen && x->desired != DESIRED_STOP;
        if (!rests && x->due_ms && now >= x->due_ms)
            step(a, x, now);
        if (over(x) || rests)
            continue;
        int64_t due = x->due_ms > now ? x->due_ms : 0;
        if (runs(x) && !x->frozen && x->deadline_ms && (!due || x->deadline_ms < due))
            due = x->deadline_ms;
        if (due && (!next || due < next))
            next = due;
    }
    return next;
}

int attempts_collect(const struct agent *a, bool all, struct attempt_status **ret, size_t *ret_n)
{
    *ret_n = 0;
    *ret = NULL;
    if (!all && a->change == a->acked)
        return 0;
    *ret = calloc(HASH_COUNT(a->attempts) + 1, sizeof(**ret));
    if (!*ret)
        return -ENOMEM;
    for (const struct attempt *x = a->attempts; x; x = x->hh.next)
        if (all || x->status.change > a->acked)
            (*ret)[(*ret_n)++] = x->status;
    return 0;
}
