// SPDX-License-Identifier: Apache-2.0
// The decision per attempt over all combinations of facts (what must never happen), some named
// cases, and the assignment.
#include "node-agent/reconcile.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>

static struct reconcile_facts fresh(void)
{
    struct reconcile_facts f = {.member = TASK_ASSIGNED,
                                .desired = DESIRED_RUN,
                                .issued_here = true,
                                .known = true,
                                .listed = true,
                                .engine = ENGINE_UP,
                                .state = ATTEMPT_ASSIGNED};
    return f;
}

START_TEST(fresh_attempt_starts)
    {
        struct reconcile_facts f = fresh();
        ck_assert_int_eq(reconcile_decide(&f), ACT_START);
        f.engine = ENGINE_UNKNOWN;
        ck_assert_int_eq(reconcile_decide(&f), ACT_NOTHING);
        f.engine = ENGINE_DOWN;
        ck_assert_int_eq(reconcile_decide(&f), ACT_ENGINE);
        f.desired = DESIRED_STOP;
        ck_assert_int_eq(reconcile_decide(&f), ACT_STOPPED);
    }
END_TEST

START_TEST(earlier_instances_attempt)
    {
        struct reconcile_facts f = fresh();
        f.issued_here = false;
        f.known = false;
        f.listed = false;
        ck_assert_int_eq(reconcile_decide(&f), ACT_NOTHING); // may still be found running
        f.listed = true;
        ck_assert_int_eq(reconcile_decide(&f), ACT_NEVER_STARTED);
        f.claimed = true;
        ck_assert_int_eq(reconcile_decide(&f), ACT_LOST);
        f.known = true;
        f.state = ATTEMPT_RUNNING;
        ck_assert_int_eq(reconcile_decide(&f), ACT_NOTHING); // adopted
    }
END_TEST

START_TEST(running_attempt_is_stopped_once)
    {
        struct reconcile_facts f = fresh();
        f.claimed = true;
        f.start_asked = true;
        f.state = ATTEMPT_RUNNING;
        ck_assert_int_eq(reconcile_decide(&f), ACT_NOTHING);
        f.desired = DESIRED_STOP;
        ck_assert_int_eq(reconcile_decide(&f), ACT_STOP);
        f.stop_asked = true;
        f.state = ATTEMPT_STOPPING;
        ck_assert_int_eq(reconcile_decide(&f), ACT_NOTHING);
        f.state = ATTEMPT_ENDED;
        ck_assert_int_eq(reconcile_decide(&f), ACT_NOTHING);
        f.member = TASK_DROPPED;
        ck_assert_int_eq(reconcile_decide(&f), ACT_REMOVE);
        f.remove_asked = true;
        ck_assert_int_eq(reconcile_decide(&f), ACT_NOTHING);
    }
END_TEST

START_TEST(undecided_is_left_alone)
    {
        struct reconcile_facts f = fresh();
        f.member = TASK_UNDECIDED;
        f.issued_here = false;
        f.claimed = true;
        f.state = ATTEMPT_RUNNING;
        f.desired =
            DESIRED_STOP; // the zero of a fresh record may be anything: only an assignment counts
        ck_assert_int_eq(reconcile_decide(&f), ACT_NOTHING);
    }
END_TEST

static void check_invariants(const struct reconcile_facts *f)
{
    enum reconcile_action a = reconcile_decide(f);
    bool alive = f->state == ATTEMPT_RUNNING || f->state == ATTEMPT_STOPPING;

    ck_assert_int_lt(a, ACT_MAX);
    if (a == ACT_START) {
        ck_assert(f->member == TASK_ASSIGNED && f->desired == DESIRED_RUN && f->issued_here);
        ck_assert(!f->claimed && f->listed && f->engine == ENGINE_UP);
        ck_assert(!alive && f->state != ATTEMPT_ENDED);
    }
    if (alive) // what lives is never declared over or removed
        ck_assert(a == ACT_NOTHING || a == ACT_STOP);
    if (f->state == ATTEMPT_ENDED)
        ck_assert(a == ACT_NOTHING || a == ACT_REMOVE);
    if (a == ACT_REMOVE)
        ck_assert(f->member == TASK_DROPPED && !f->remove_asked);
    if (a == ACT_LOST || a == ACT_NEVER_STARTED)
        ck_assert(f->listed || f->known);
}

START_TEST(invariants_over_everything)
    {
        for (unsigned bits = 0; bits < 1u << 7; bits++)
            for (int member = 0; member <= TASK_DROPPED; member++)
                for (int engine = 0; engine <= ENGINE_DOWN; engine++)
                    for (int state = 0; state < ATTEMPT_STATE_MAX; state++) {
                        struct reconcile_facts f = {.member = (enum task_member)member,
                                                    .engine = (enum engine_state)engine,
                                                    .state = (enum attempt_state)state,
                                                    .desired =
                                                        bits & 1 ? DESIRED_STOP : DESIRED_RUN,
                                                    .issued_here = bits & 2,
                                                    .claimed = bits & 4,
                                                    .known = bits & 8,
                                                    .listed = bits & 16,
                                                    .start_asked = bits & 32,
                                                    .stop_asked = bits & 32,
                                                    .remove_asked = bits & 64};
                        check_invariants(&f);
                    }
    }
END_TEST

// --- assignment ----------------------------------------------------------------------------------

static struct attempt_spec *spec_of(const char *id, const char *issued_to)
{
    struct attempt_spec *s = calloc(1, sizeof(*s));
    ck_assert_ptr_nonnull(s);
    (void)snprintf(s->id, sizeof(s->id), "%s", id);
    (void)snprintf(s->issued_to, sizeof(s->issued_to), "%s", issued_to);
    return s;
}

static struct sync_answer answer_of(bool full, int64_t base, int64_t to, const char *id)
{
    struct sync_answer a = {.has_assignment = true, .assignment_full = full};
    a.base = (struct sync_position){1, base};
    a.position = (struct sync_position){1, to};
    if (id) {
        a.entries = calloc(1, sizeof(*a.entries));
        ck_assert_ptr_nonnull(a.entries);
        a.entries[0].spec = spec_of(id, "i1");
        a.n_entries = 1;
    }
    return a;
}

START_TEST(assignment_full_and_delta)
    {
        struct tasks *t;
        struct sync_position at = {0, 0};
        bool applied;

        ck_assert_int_eq(tasks_new(NULL, NULL, &t), 0);
        ck_assert_ptr_nonnull(tasks_add(t, "a0", NULL)); // an earlier claim
        struct sync_answer a = answer_of(false, 4, 5, "a1");
        ck_assert_int_eq(assignment_apply(t, &a, "i1", &at, &applied), 0);
        ck_assert(!applied && !tasks_find(t, "a1"));
        sync_answer_reset(&a);

        a = answer_of(true, 0, 5, "a1");
        ck_assert_int_eq(assignment_apply(t, &a, "i1", &at, &applied), 0);
        ck_assert(applied && at.generation == 5);
        ck_assert_int_eq(tasks_find(t, "a0")->member, TASK_DROPPED);
        ck_assert_int_eq(tasks_find(t, "a1")->member, TASK_ASSIGNED);
        ck_assert(tasks_find(t, "a1")->known); // ours: part of the inventory at once
        sync_answer_reset(&a);

        a = answer_of(false, 5, 6, "a2");
        a.removed = calloc(1, ATTEMPT_ID_BYTES);
        ck_assert_ptr_nonnull(a.removed);
        (void)strcpy(a.removed[0], "a1");
        a.n_removed = 1;
        ck_assert_int_eq(assignment_apply(t, &a, "i2", &at, &applied), 0);
        ck_assert(applied);
        ck_assert_int_eq(tasks_find(t, "a1")->member, TASK_DROPPED);
        ck_assert_int_eq(tasks_find(t, "a2")->member, TASK_ASSIGNED);
        ck_assert(!tasks_find(t, "a2")->known); // another instance's: the runtime speaks first
        sync_answer_reset(&a);
        tasks_free(t);
    }
END_TEST

START_TEST(changes_are_numbered_and_acknowledged)
    {
        struct tasks *t;
        struct attempt_status *list = NULL;
        size_t n = 0;

        ck_assert_int_eq(tasks_new(NULL, NULL, &t), 0);
        struct task *one = tasks_add(t, "a1", NULL);
        struct task *two = tasks_add(t, "a2", NULL);
        tasks_set_state(t, one, ATTEMPT_STARTING, "x");
        tasks_set_state(t, two, ATTEMPT_RUNNING, "");
        tasks_set_state(t, two, ATTEMPT_RUNNING, ""); // the same: no change
        ck_assert_int_eq(tasks_last_change(t), 2);
        tasks_ack(t, 1);
        tasks_ack(t, 0);
        tasks_ack(t, 99); // never numbered
        ck_assert_int_eq(tasks_acked(t), 1);
        ck_assert_int_eq(tasks_collect(t, false, &list, &n), 0);
        ck_assert_int_eq(n, 1);
        ck_assert_str_eq(list[0].id, "a2");
        free(list);
        tasks_end(t, one, CAUSE_STOPPED, "");
        tasks_set_state(t, one, ATTEMPT_RUNNING, ""); // the end is final
        ck_assert_int_eq(one->status.state, ATTEMPT_ENDED);
        ck_assert(tasks_digest(t) ==
                  inventory_hash("a1", ATTEMPT_ENDED) + inventory_hash("a2", ATTEMPT_RUNNING));
        tasks_free(t);
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("reconcile");
    tcase_add_test(tc, fresh_attempt_starts);
    tcase_add_test(tc, earlier_instances_attempt);
    tcase_add_test(tc, running_attempt_is_stopped_once);
    tcase_add_test(tc, undecided_is_left_alone);
    tcase_add_test(tc, invariants_over_everything);
    tcase_add_test(tc, assignment_full_and_delta);
    tcase_add_test(tc, changes_are_numbered_and_acknowledged);
    return run_case("reconcile", tc);
}
