// SPDX-License-Identifier: Apache-2.0
// The Docker runtime when others act: a next agent, other agents, people at the engine, and the
// engine itself going away.
#include "test/unit/agent/docker_bench.h"

START_TEST(killed_from_outside_is_unknown)
    {
        char path[256], out[256];
        start_image(A1, "sleep 1000");
        const struct attempt_status *s = wait_for(SEEN_STARTED, A1);
        (void)snprintf(path, sizeof(path), "/containers/%s/kill", s->container_id);
        ck_assert_int_eq(engine_call(out, sizeof(out), "POST", path), 0);
        s = wait_for(SEEN_ENDED, A1);
        ck_assert_int_eq(s->cause, CAUSE_UNKNOWN);
        ck_assert_int_eq(s->exit_code, 137);
        remove_and_wait(A1);
    }
END_TEST

START_TEST(stopped_or_removed_from_outside_is_unknown)
    {
        char path[256], out[256];
        start_image(A1, "sleep 1000");
        start_image(A2, "sleep 1000");
        (void)wait_for(SEEN_STARTED, A1);
        (void)wait_for(SEEN_STARTED, A2);
        (void)snprintf(path, sizeof(path), "/containers/%s/stop",
                       last(SEEN_STARTED, A1)->status.container_id);
        ck_assert_int_eq(engine_call(out, sizeof(out), "POST", path), 0);
        ck_assert_int_eq(wait_for(SEEN_ENDED, A1)->cause, CAUSE_UNKNOWN);
        (void)snprintf(path, sizeof(path), "/containers/%s?force=1",
                       last(SEEN_STARTED, A2)->status.container_id);
        ck_assert_int_eq(engine_call(out, sizeof(out), "DELETE", path), 0);
        ck_assert_int_eq(wait_for(SEEN_ENDED, A2)->cause, CAUSE_UNKNOWN);
        remove_and_wait(A1);
        remove_and_wait(A2);
    }
END_TEST

START_TEST(adopted_by_the_next_agent)
    {
        char container[72];
        start_image(A1, "sleep 1000");
        start_image(A2, "exit 5");
        (void)wait_for(SEEN_STARTED, A1);
        (void)wait_for(SEEN_ENDED, A2);
        (void)snprintf(container, sizeof(container), "%s",
                       last(SEEN_STARTED, A1)->status.container_id);
        bench_close_runtime();
        open_runtime();
        ck_assert_uint_eq(bench.n_listed, 2);
        for (size_t i = 0; i < 2; i++) {
            const struct attempt_status *s = &bench.listed[i].status;
            bool first = strcmp(s->id, A1) == 0;
            ck_assert_int_eq(s->state, first ? ATTEMPT_RUNNING : ATTEMPT_ENDED);
            ck_assert(!first || strcmp(s->container_id, container) == 0);
            ck_assert(first || s->exit_code == 5);
        }
        struct attempt_spec *spec;
        struct err e;
        ck_assert_int_eq(attempt_claim_read(&bench.o.dirs, A1, &spec, &e), 0);
        start_spec(spec);
        (void)wait_for(SEEN_STARTED, A1);
        ck_assert_uint_eq(containers(), 2);
        bench.rt->ops->stop(bench.rt, A1, -1);
        ck_assert_int_eq(wait_for(SEEN_ENDED, A1)->cause, CAUSE_STOPPED);
        remove_and_wait(A1);
        remove_and_wait(A2);
        ck_assert_uint_eq(containers(), 0);
    }
END_TEST

START_TEST(others_are_left_alone)
    {
        start_image(A1, "sleep 1000");
        (void)wait_for(SEEN_STARTED, A1);
        bench_close_runtime();
        bench.o.node_id = "nother";
        open_runtime();
        ck_assert_uint_eq(count(SEEN_ENDED, ""), 0);
        bench_close_runtime();
        ck_assert_uint_eq(containers(), 1);
    }
END_TEST

START_TEST(no_engine)
    {
        setup_closed();
        bench.o.docker_socket = "/nowhere/docker.sock";
        struct err e;
        ck_assert_int_eq(runtime_docker_new(&bench.o, &bench.rt, &e), 0);
        const struct attempt_status *s = wait_for(SEEN_ENGINE, "");
        ck_assert(!s->has_exit);
        ck_assert_uint_gt(strlen(s->reason), 5);
        run_for(700); // tries again, and says no more
        ck_assert_uint_eq(count(SEEN_ENGINE, ""), 1);
        start_image(A1, "true");
        ck_assert_int_eq(wait_for(SEEN_ENDED, A1)->cause, CAUSE_ENGINE);
        bench_end();
    }
END_TEST

// The last one: it replaces the engine.
START_TEST(engine_goes_and_comes_back)
    {
        start_image(A1, "sleep 1000");
        (void)wait_for(SEEN_STARTED, A1);
        ck_assert_int_eq(kill(dockerd.pid, SIGKILL), 0);
        wait_count(SEEN_ENGINE, "", 2, 20000);
        ck_assert(!last(SEEN_ENGINE, "")->status.has_exit);
        dockerd_spawn(); // kills what ran, as it was not told to keep it
        wait_count(SEEN_ENGINE, "", 3, 30000);
        ck_assert(last(SEEN_ENGINE, "")->status.has_exit);
        (void)wait_for(SEEN_ENDED, A1);
        start_image(A2, "exit 4");
        ck_assert_int_eq(wait_for(SEEN_ENDED, A2)->exit_code, 4);
        remove_and_wait(A1);
        remove_and_wait(A2);
        ck_assert_uint_eq(containers(), 0);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("docker"), *alone = tcase_create("no engine");
    tcase_add_test(alone, no_engine);
    tcase_add_test(t, killed_from_outside_is_unknown);
    tcase_add_test(t, stopped_or_removed_from_outside_is_unknown);
    tcase_add_test(t, adopted_by_the_next_agent);
    tcase_add_test(t, others_are_left_alone);
    tcase_add_test(t, engine_goes_and_comes_back);
    return run_docker_suite("runtime_docker_faults", t, alone);
}
