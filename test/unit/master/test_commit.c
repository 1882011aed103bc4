// SPDX-License-Identifier: Apache-2.0
// Group commit on a real Redis: one batch a turn, and nobody is answered before it is durable.
#include "master/store/commit.h"

#include "test/unit/master/store_box.h"
#include "test/unit/suite.h"

#define KEYS_MAX 4096

struct model { // what a cluster does: remembers what is dirty, writes it when asked
    struct box box;
    struct commit *commit;
    int dirty[KEYS_MAX];
    int n_dirty;
    int collects;
    int marks_in_collect; // marks again from inside, so many times
    bool forget_text;     // as if out of memory
    int closed;
};

static void collect(void *userdata)
{
    struct model *m = userdata;
    char key[32];
    m->collects++;
    for (int i = 0; i < m->n_dirty; i++) {
        (void)snprintf(key, sizeof(key), "job:%08d", m->dirty[i]);
        commit_put(m->commit, key, m->forget_text ? NULL : strdup("{\"n\":1}"), 0);
    }
    m->n_dirty = 0;
    if (m->marks_in_collect > 0) {
        m->marks_in_collect--;
        commit_mark(m->commit);
    }
}

static void change(struct model *m, int n)
{
    m->dirty[m->n_dirty++] = n;
    commit_mark(m->commit);
}

static void model_open(struct model *m, struct place *p)
{
    place_make(p);
    box_open(&m->box, p);
    m->commit = commit_new(&p->loop, m->box.store, collect, m);
    ck_assert_ptr_nonnull(m->commit);
}

static void model_close(struct model *m)
{
    struct place *p = m->box.place;
    if (!m->closed) {
        commit_close(m->commit, count, &m->closed);
        run_until(&p->loop, &m->closed, 1);
    }
    box_close(&m->box);
    place_drop(p);
}

struct wait { // one commit_then
    struct model *model;
    int done, result;
    int order;
    int64_t commit_number;
    void (*then)(struct wait *w);
};

static int calls;

static void on_then(int result, void *userdata)
{
    struct wait *w = userdata;
    w->done++;
    w->result = result;
    w->order = ++calls;
    w->commit_number = store_commit_number(w->model->box.store);
    if (w->then)
        w->then(w);
}

static void then(struct model *m, struct wait *w, int64_t timeout_ms)
{
    w->model = m;
    ck_assert_int_eq(commit_then(m->commit, timeout_ms, on_then, w), 0);
    ck_assert_int_eq(w->done, 0); // never from inside
}

static void turn(struct model *m)
{
    (void)uv_run(&m->box.place->loop, UV_RUN_NOWAIT);
}

START_TEST(one_batch_a_turn)
    {
        struct place p;
        struct model m = {0};
        struct wait w[3] = {{0}};
        model_open(&m, &p);
        ck_assert(!commit_pending(m.commit));
        change(&m, 1);
        then(&m, &w[0], 0);
        change(&m, 2);
        then(&m, &w[1], 0);
        change(&m, 3);
        then(&m, &w[2], 0);
        ck_assert(commit_pending(m.commit));
        ck_assert_int_eq(m.collects, 0);
        turn(&m);
        ck_assert_int_eq(m.collects, 1);
        run_until(&p.loop, &w[2].done, 1);
        for (int i = 0; i < 3; i++) {
            ck_assert_int_eq(w[i].result, 0);
            ck_assert_int_eq(w[i].order, i + 1);
            ck_assert_int_eq(w[i].commit_number, 1);
        }
        ck_assert_int_eq(m.collects, 1);
        ck_assert(!commit_pending(m.commit));
        model_close(&m);
    }
END_TEST

START_TEST(nothing_pending_is_answered_at_the_end_of_the_turn)
    {
        struct place p;
        struct model m = {0};
        struct wait w = {0};
        model_open(&m, &p);
        then(&m, &w, 0);
        turn(&m);
        ck_assert_int_eq(w.done, 1);
        ck_assert_int_eq(w.result, 0);
        ck_assert_int_eq(m.collects, 0);
        ck_assert_int_eq(store_commit_number(m.box.store), 0);
        model_close(&m);
    }
END_TEST

START_TEST(who_comes_during_a_flight_waits_for_what_it_depends_on)
    {
        struct place p;
        struct model m = {0};
        struct wait first = {0}, same = {0}, second = {0};
        model_open(&m, &p);
        change(&m, 1);
        then(&m, &first, 0);
        turn(&m); // in flight
        ck_assert_int_eq(m.collects, 1);
        then(&m, &same, 0); // depends on what is in flight
        change(&m, 2);
        then(&m, &second, 0);
        turn(&m);
        run_until(&p.loop, &same.done, 1);
        ck_assert_int_eq(first.commit_number, 1);
        ck_assert_int_eq(same.commit_number, 1);
        run_until(&p.loop, &second.done, 1);
        ck_assert_int_eq(second.commit_number, 2);
        ck_assert_int_eq(m.collects, 2);
        model_close(&m);
    }
END_TEST

static void change_again(struct wait *w)
{
    if (w->done == 1) {
        w->then = NULL;
        change(w->model, 7);
        ck_assert_int_eq(commit_then(w->model->commit, 0, on_then, w), 0);
    }
}

START_TEST(callbacks_may_change_more)
    {
        struct place p;
        struct model m = {0};
        struct wait w = {.then = change_again};
        model_open(&m, &p);
        change(&m, 1);
        then(&m, &w, 0);
        run_until(&p.loop, &w.done, 2);
        ck_assert_int_eq(w.commit_number, 2);
        model_close(&m);
    }
END_TEST

START_TEST(marks_from_inside_collect_come_next)
    {
        struct place p;
        struct model m = {.marks_in_collect = 2};
        struct wait w = {0};
        model_open(&m, &p);
        change(&m, 1);
        then(&m, &w, 0);
        run_until(&p.loop, &m.collects, 3);
        ck_assert_int_eq(w.done, 1);
        ck_assert_int_eq(store_commit_number(m.box.store), 1); // empty batches go nowhere
        model_close(&m);
    }
END_TEST

static void on_tick(uv_timer_t *timer)
{
    ++*(int *)timer->data;
}

START_TEST(an_idle_loop_sleeps)
    {
        struct place p;
        struct model m = {0};
        struct wait w = {0};
        uv_timer_t timer;
        int ticks = 0, turns = 0;
        model_open(&m, &p);
        change(&m, 1);
        then(&m, &w, 1000);
        run_until(&p.loop, &w.done, 1);
        ck_assert_int_eq(uv_timer_init(&p.loop, &timer), 0);
        timer.data = &ticks;
        ck_assert_int_eq(uv_timer_start(&timer, on_tick, 100, 0), 0);
        while (ticks == 0) {
            (void)uv_run(&p.loop, UV_RUN_ONCE);
            turns++;
        }
        ck_assert_int_le(turns, 3);
        uv_close((uv_handle_t *)&timer, NULL);
        model_close(&m);
    }
END_TEST

START_TEST(limits_pass_while_redis_is_down_and_the_batch_stays_in_line)
    {
        struct place p;
        struct model m = {.box = {.timeout_ms = 5000}};
        struct wait brief = {0}, patient = {0}, longer = {0};
        model_open(&m, &p);
        kill_redis(&m.box, SIGSTOP);
        change(&m, 1);
        then(&m, &longer, 300);
        then(&m, &brief, 50); // registered later, over earlier
        then(&m, &patient, 0);
        run_until(&p.loop, &brief.done, 1);
        ck_assert_int_eq(brief.result, -ETIMEDOUT);
        ck_assert_int_eq(longer.done, 0);
        run_until(&p.loop, &longer.done, 1);
        ck_assert_int_eq(longer.result, -ETIMEDOUT);
        ck_assert(commit_pending(m.commit));
        ck_assert_int_eq(patient.done, 0);
        kill_redis(&m.box, SIGCONT);
        run_until(&p.loop, &patient.done, 1);
        ck_assert_int_eq(patient.result, 0);
        ck_assert_int_eq(patient.commit_number, 1);
        model_close(&m);
    }
END_TEST

START_TEST(closing_cancels_who_waits)
    {
        struct place p;
        struct model m = {0};
        struct wait flying = {0}, next = {0};
        model_open(&m, &p);
        kill_redis(&m.box, SIGSTOP);
        change(&m, 1);
        then(&m, &flying, 0);
        turn(&m);
        change(&m, 2);
        then(&m, &next, 60000);
        commit_close(m.commit, count, &m.closed);
        ck_assert_int_eq(commit_then(m.commit, 0, on_then, &next), -ECANCELED);
        ck_assert_int_eq(flying.done, 0); // from the loop only
        run_until(&p.loop, &m.closed, 1);
        ck_assert_int_eq(flying.result, -ECANCELED);
        ck_assert_int_eq(next.result, -ECANCELED);
        ck_assert_int_lt(flying.order, next.order);
        kill_redis(&m.box, SIGCONT); // the answer finds nobody
        model_close(&m);
    }
END_TEST

START_TEST(a_lost_change_ends_all_acknowledgements)
    {
        struct place p;
        struct model m = {.forget_text = true};
        struct wait w = {0};
        model_open(&m, &p);
        change(&m, 1);
        then(&m, &w, 0);
        run_until(&p.loop, &w.done, 1);
        ck_assert_int_eq(w.result, -ENOMEM);
        ck_assert_int_eq(commit_then(m.commit, 0, on_then, &w), -ENOMEM);
        ck_assert_int_eq(store_commit_number(m.box.store), 0);
        model_close(&m);
    }
END_TEST

static void stream(struct wait *w)
{
    struct model *m = w->model;
    ck_assert_int_eq(w->result, 0);
    if (w->done < 40) {
        change(m, w->done);
        ck_assert_int_eq(commit_then(m->commit, 0, on_then, w), 0);
    }
}

START_TEST(a_stream_goes_on_over_kills_of_redis)
    {
        struct place p;
        struct model m = {0};
        struct wait w = {.model = &m, .then = stream};
        model_open(&m, &p);
        change(&m, 0);
        then(&m, &w, 0);
        for (int kills = 1; kills <= 3; kills++) {
            run_until(&p.loop, &w.done, kills * 10);
            kill_redis(&m.box, SIGKILL);
        }
        run_until(&p.loop, &w.done, 40);
        ck_assert_int_eq(store_commit_number(m.box.store), 40);
        model_close(&m);
    }
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, one_batch_a_turn);
    tcase_add_test(all, nothing_pending_is_answered_at_the_end_of_the_turn);
    tcase_add_test(all, who_comes_during_a_flight_waits_for_what_it_depends_on);
    tcase_add_test(all, callbacks_may_change_more);
    tcase_add_test(all, marks_from_inside_collect_come_next);
    tcase_add_test(all, an_idle_loop_sleeps);
    tcase_add_test(all, limits_pass_while_redis_is_down_and_the_batch_stays_in_line);
    tcase_add_test(all, closing_cancels_who_waits);
    tcase_add_test(all, a_lost_change_ends_all_acknowledgements);
    tcase_add_test(all, a_stream_goes_on_over_kills_of_redis);
    return run_case("commit", all);
}
