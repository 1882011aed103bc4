// SPDX-License-Identifier: Apache-2.0
// The Docker runtime against a real engine: start to end, limits, labels, images, stop in every
// phase, adoption, somebody else's hands on the containers, and an engine that goes away and comes
// back.
#include "test/unit/agent/dockerd_util.h"
#include "test/unit/agent/runtime_util.h"

#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>

static char node_id[32];

static void open_runtime(void)
{
    struct err e;
    ck_assert_msg(runtime_docker_new(&bench.o, &bench.rt, &e) == 0, "%s", e.text);
    (void)wait_for(SEEN_ENGINE, "");
    (void)wait_for(SEEN_LISTED, "");
}

static void setup_closed(void)
{
    bench_init();
    (void)snprintf(node_id, sizeof(node_id), "n%d", (int)getpid());
    bench.o.node_id = node_id;
    bench.o.docker_socket = dockerd.socket;
}

static void setup(void)
{
    setup_closed();
    open_runtime();
    ck_assert(last(SEEN_ENGINE, "")->status.has_exit);
}

static size_t containers(void)
{
    static char out[1 << 20];
    char path[256];
    size_t n = 0;
    (void)snprintf(path, sizeof(path),
                   "/containers/json?all=1&filters={%%22label%%22:[%%22io.meadow.node=%s%%22]}",
                   node_id);
    ck_assert_int_eq(engine_call(out, sizeof(out), "GET", path), 0);
    for (const char *p = out; (p = strstr(p, "\"Id\":")); p++)
        n++;
    return n;
}

static void teardown(void)
{
    bench_end();
    (void)shell(
        NULL, 0,
        "for c in $(curl -sS -g --unix-socket %s "
        "'http://e/containers/json?all=1&filters={%%22label%%22:[%%22io.meadow.node=%s%%22]}' | "
        "grep -o '\"Id\":\"[0-9a-f]*' | "
        "cut -c7-); do curl -sS --unix-socket %s -X DELETE \"http://e/containers/$c?force=1\"; "
        "done",
        dockerd.socket, node_id, dockerd.socket);
}

static struct attempt_spec *image_spec(const char *id, const char *script)
{
    struct attempt_spec *s = make_spec(id, script);
    s->image = strdup(TEST_IMAGE);
    s->network = NETWORK_HOST;
    return s;
}

static void start_image(const char *id, const char *script)
{
    start_spec(image_spec(id, script));
}

static void remove_and_wait(const char *id)
{
    bench.rt->ops->remove(bench.rt, id);
    (void)wait_for(SEEN_REMOVED, id);
}

START_TEST(runs_ends_and_is_removed)
    {
        start_image(A1, "echo hi; echo $MEADOW_ATTEMPT_ID >&2; exit 7");
        ck_assert_uint_eq(count(SEEN_STARTED, ""), 0);
        const struct attempt_status *s = wait_for(SEEN_STARTED, A1);
        ck_assert_int_eq(s->state, ATTEMPT_RUNNING);
        ck_assert_uint_eq(strlen(s->container_id), 64);
        s = wait_for(SEEN_ENDED, A1);
        ck_assert_int_eq(s->cause, CAUSE_EXIT);
        ck_assert_int_eq(s->exit_code, 7);
        cleanup_free char *out = output_of(A1, "stdout"), *err = output_of(A1, "stderr");
        ck_assert_str_eq(out, "hi\n");
        ck_assert(has_id(err, "", "\n"));
        ck_assert_uint_ge(count(SEEN_PHASE, A1), 2);
        ck_assert_uint_eq(containers(), 1);
        remove_and_wait(A1);
        ck_assert_uint_eq(containers(), 0);
    }
END_TEST

START_TEST(limits_labels_and_mounts_reach_the_container)
    {
        static char out[1 << 16];
        char path[256], file[200];
        struct attempt_spec *s =
            image_spec(A1, "cat /data/x; cat /sys/fs/cgroup/memory/memory.limit_in_bytes "
                           "/sys/fs/cgroup/memory.max; "
                           "cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu.max; echo "
                           "$KEY; sleep 1000");
        s->resources = (struct resources){.cpu_milli = 4000,
                                          .memory = 64 << 20}; // more cores than there may be
        s->mounts = calloc(1, sizeof(*s->mounts));
        s->mounts[0].target = strdup("/data");
        s->n_mounts = 1;
        s->env = calloc(1, sizeof(*s->env));
        s->env[0] = (struct job_env){strdup("KEY"), strdup("value 1")};
        s->n_env = 1;
        (void)snprintf(file, sizeof(file), "%s/x", bench.data);
        FILE *f = fopen(file, "w");
        (void)fputs("shared\n", f);
        (void)fclose(f);
        start_spec(s);
        const struct attempt_status *st = wait_for(SEEN_STARTED, A1);
        (void)snprintf(path, sizeof(path), "/containers/%s/json", st->container_id);
        ck_assert_int_eq(engine_call(out, sizeof(out), "GET", path), 0);
        ck_assert(has_id(out, "\"io.meadow.attempt\":\"", "\""));
        ck_assert_ptr_nonnull(strstr(out, "\"io.meadow.cluster\":\"cluster-test\""));
        ck_assert_ptr_nonnull(strstr(out, "\"io.meadow.component\":\"actor\""));
        ck_assert_ptr_nonnull(strstr(out, "\"io.meadow.number\":\"1\""));
        ck_assert(has_id(out, "\"Name\":\"/meadow-name-actor-0-", "\""));
        bench.rt->ops->stop(bench.rt, A1, 0);
        (void)wait_for(SEEN_ENDED, A1);
        cleanup_free char *text = output_of(A1, "stdout");
        ck_assert_msg(strncmp(text, "shared\n", 7) == 0, "%s", text);
        ck_assert_ptr_nonnull(strstr(text, "67108864\n"));
        ck_assert_ptr_nonnull(strstr(text, "400000"));
        ck_assert_ptr_nonnull(strstr(text, "value 1\n"));
        remove_and_wait(A1);
    }
END_TEST

START_TEST(usage_is_told)
    {
        struct attempt_spec *s = image_spec(A1, "sleep 1000");
        start_spec(s);
        (void)wait_for(SEEN_STARTED, A1);
        cleanup_json json_t *usage = bench.rt->ops->usage(bench.rt);
        ck_assert_int_gt(json_integer_value(json_object_get(json_object_get(usage, A1), "memory")),
                         0);
        remove_and_wait(A1);
    }
END_TEST

START_TEST(own_name_resolves_to_the_nodes_address)
    {
        bench_close_runtime();
        bench.o.node_address = "10.1.2.3";
        open_runtime();
        start_image(A1, "hostname; cat /etc/hosts");
        (void)wait_for(SEEN_ENDED, A1);
        cleanup_free char *text = output_of(A1, "stdout");
        ck_assert_msg(strncmp(text, "node-1\n", 7) == 0, "%s", text);
        ck_assert_ptr_nonnull(strstr(text, "10.1.2.3\tnode-1\n"));
        remove_and_wait(A1);
    }
END_TEST

START_TEST(image_runs_its_own_command)
    {
        struct attempt_spec *s = image_spec(A1, NULL);
        free(s->image);
        s->image = strdup("meadow-own:1");
        start_spec(s);
        ck_assert_int_eq(wait_for(SEEN_ENDED, A1)->exit_code, 0);
        cleanup_free char *text = output_of(A1, "stdout");
        ck_assert_str_eq(text, "the image\n");
        remove_and_wait(A1);
    }
END_TEST

START_TEST(no_command_anywhere)
    {
        start_spec(image_spec(A1, NULL));
        ck_assert_int_eq(wait_for(SEEN_ENDED, A1)->cause, CAUSE_START_FAILED);
        remove_and_wait(A1);
    }
END_TEST

START_TEST(missing_command)
    {
        struct attempt_spec *s = image_spec(A1, "");
        free(s->command[0]);
        s->command[0] = strdup("/nowhere");
        start_spec(s);
        const struct attempt_status *st = wait_for(SEEN_ENDED, A1);
        ck_assert_int_eq(st->cause, CAUSE_START_FAILED);
        ck_assert_int_eq(st->exit_code, 127);
        remove_and_wait(A1);
    }
END_TEST

START_TEST(missing_mount_source)
    {
        struct attempt_spec *s = image_spec(A1, "true");
        s->mounts = calloc(1, sizeof(*s->mounts));
        s->mounts[0].source = strdup("/nowhere/at/all");
        s->mounts[0].target = strdup("/data");
        s->n_mounts = 1;
        start_spec(s);
        const struct attempt_status *st = wait_for(SEEN_ENDED, A1);
        ck_assert_int_eq(st->cause, CAUSE_START_FAILED);
        ck_assert_ptr_nonnull(strstr(st->reason, "/nowhere/at/all"));
        remove_and_wait(A1);
        ck_assert_uint_eq(containers(), 0);
    }
END_TEST

START_TEST(memory_kill_is_told)
    {
        struct attempt_spec *s = image_spec(A1, "exec tail /dev/zero");
        s->resources.memory = 32 << 20;
        start_spec(s);
        const struct attempt_status *st = wait_for(SEEN_ENDED, A1);
        ck_assert_int_eq(st->exit_code, 137);
        ck_assert_int_eq(st->cause, CAUSE_OOM);
        ck_assert(st->oom);
        remove_and_wait(A1);
    }
END_TEST

START_TEST(missing_image)
    {
        struct attempt_spec *s = image_spec(A1, "true");
        free(s->image);
        s->image = strdup("localhost:1/nothing:here");
        start_spec(s);
        const struct attempt_status *st = wait_for(SEEN_ENDED, A1);
        ck_assert_int_eq(st->cause, CAUSE_IMAGE);
        ck_assert_ptr_nonnull(strstr(st->reason, "localhost:1/nothing:here"));
        ck_assert_uint_eq(count(SEEN_PHASE, A1), 2); // creating, pulling
        remove_and_wait(A1);
    }
END_TEST

// A registry that takes connections and never says anything.
START_TEST(stop_during_pull)
    {
        struct sockaddr_in addr = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t len = sizeof(addr);
        cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
        ck_assert_int_eq(listen(fd, 16), 0);
        ck_assert_int_eq(getsockname(fd, (struct sockaddr *)&addr, &len), 0);
        struct attempt_spec *s = image_spec(A1, "true");
        free(s->image);
        ck_assert_int_gt(asprintf(&s->image, "localhost:%d/x:1", ntohs(addr.sin_port)), 0);
        start_spec(s);
        wait_count(SEEN_PHASE, A1, 2, 20000);
        ck_assert_ptr_nonnull(strstr(last(SEEN_PHASE, A1)->status.reason, "pulling"));
        bench.rt->ops->stop(bench.rt, A1, -1);
        ck_assert_int_eq(wait_for(SEEN_ENDED, A1)->cause, CAUSE_STOPPED);
        remove_and_wait(A1);
        ck_assert_uint_eq(containers(), 0);
    }
END_TEST

START_TEST(stop_during_create)
    {
        start_image(A1, "sleep 1000");
        bench.rt->ops->stop(bench.rt, A1, -1);
        ck_assert_int_eq(wait_for(SEEN_ENDED, A1)->cause, CAUSE_STOPPED);
        remove_and_wait(A1);
        ck_assert_uint_eq(containers(), 0);
    }
END_TEST

START_TEST(stop_during_start)
    {
        start_image(A1, "sleep 1000");
        wait_count(SEEN_PHASE, A1, 2, 20000);
        ck_assert_str_eq(last(SEEN_PHASE, A1)->status.reason, "starting");
        bench.rt->ops->stop(bench.rt, A1, -1);
        ck_assert_int_eq(wait_for(SEEN_ENDED, A1)->cause, CAUSE_STOPPED);
        remove_and_wait(A1);
        ck_assert_uint_eq(containers(), 0);
    }
END_TEST

START_TEST(stop_while_running_twice_and_with_grace)
    {
        start_image(A1, "trap '' TERM; echo; while true; do sleep 1; done");
        (void)wait_for(SEEN_STARTED, A1);
        char path[ATTEMPT_PATH_BYTES];
        out_dir(A1, path);
        wait_for_file(path, "stdout.00000000000000000000");
        bench.rt->ops->stop(bench.rt, A1, -1);
        bench.rt->ops->stop(bench.rt, A1, 200);
        const struct attempt_status *s = wait_for(SEEN_ENDED, A1);
        ck_assert_int_eq(s->cause, CAUSE_STOPPED);
        ck_assert_int_eq(s->signal, SIGKILL);
        remove_and_wait(A1);
    }
END_TEST

START_TEST(remove_while_running)
    {
        start_image(A1, "sleep 1000");
        (void)wait_for(SEEN_STARTED, A1);
        remove_and_wait(A1);
        ck_assert_uint_eq(containers(), 0);
        bench.rt->ops->remove(bench.rt, "aunknown");
        (void)wait_for(SEEN_REMOVED, "aunknown");
    }
END_TEST

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

START_TEST(twenty_at_once)
    {
        char id[ATTEMPT_ID_BYTES];
        for (int i = 0; i < 20; i++) {
            make_id(id, i);
            start_image(id, "echo x; exit 3");
        }
        wait_count(SEEN_ENDED, "", 20, 60000);
        for (int i = 0; i < 20; i++) {
            make_id(id, i);
            ck_assert_int_eq(last(SEEN_ENDED, id)->status.exit_code, 3);
            bench.rt->ops->remove(bench.rt, id);
        }
        wait_count(SEEN_REMOVED, "", 20, 60000);
        ck_assert_uint_eq(containers(), 0);
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
    Suite *s = suite_create("runtime_docker");
    TCase *alone = tcase_create("no engine"), *t = tcase_create("docker");
    tcase_add_test(alone, no_engine);
    suite_add_tcase(s, alone);
    // A replaced engine must not become nobody's child.
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    bool containers_too = dockerd_start();
    if (containers_too) {
        tcase_add_checked_fixture(t, setup, teardown);
        tcase_set_timeout(t, 90);
        tcase_add_test(t, runs_ends_and_is_removed);
        tcase_add_test(t, limits_labels_and_mounts_reach_the_container);
        tcase_add_test(t, usage_is_told);
        tcase_add_test(t, own_name_resolves_to_the_nodes_address);
        tcase_add_test(t, image_runs_its_own_command);
        tcase_add_test(t, no_command_anywhere);
        tcase_add_test(t, missing_command);
        tcase_add_test(t, missing_mount_source);
        tcase_add_test(t, memory_kill_is_told);
        tcase_add_test(t, missing_image);
        tcase_add_test(t, stop_during_pull);
        tcase_add_test(t, stop_during_create);
        tcase_add_test(t, stop_during_start);
        tcase_add_test(t, stop_while_running_twice_and_with_grace);
        tcase_add_test(t, remove_while_running);
        tcase_add_test(t, killed_from_outside_is_unknown);
        tcase_add_test(t, stopped_or_removed_from_outside_is_unknown);
        tcase_add_test(t, adopted_by_the_next_agent);
        tcase_add_test(t, others_are_left_alone);
        tcase_add_test(t, twenty_at_once);
        tcase_add_test(t, engine_goes_and_comes_back);
        suite_add_tcase(s, t);
    }
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    if (containers_too)
        dockerd_stop();
    return failed != 0;
}
