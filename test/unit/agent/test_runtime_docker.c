// SPDX-License-Identifier: Apache-2.0
// The Docker runtime against a real engine: start to end, limits, labels, images, and stop in every
// phase.
#include "test/unit/agent/docker_bench.h"

#include "node-agent/runtime/docker_api.h"

#include <netinet/in.h>
#include <sys/socket.h>

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

// The task's user counts and not the image's, with nothing that makes more of it; and init, which
// is that user too, can write its records.
START_TEST(task_is_its_user_without_rights)
    {
        bench.uid = 4321;
        bench.gid = 4322;
        struct attempt_spec *s =
            image_spec(A1, "id -u; id -g; grep -E '^(Cap|NoNewPrivs|Seccomp:)' /proc/self/status; "
                           "cat /sys/fs/cgroup/pids/pids.max /sys/fs/cgroup/pids.max 2>/dev/null; "
                           "echo x 2>/dev/null > /run/meadow/lease/lease || echo closed; exit 6");
        free(s->image);
        s->image = strdup("meadow-user:1");
        start_spec(s);
        const struct attempt_status *st = wait_for(SEEN_ENDED, A1);
        ck_assert_msg(st->exit_code == 6, "%s", st->reason);
        cleanup_free char *text = output_of(A1, "stdout");
        ck_assert_str_eq(text, "4321\n4322\n"
                               "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n"
                               "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n"
                               "CapAmb:\t0000000000000000\nNoNewPrivs:\t1\nSeccomp:\t2\n"
                               "4096\nclosed\n");
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

// A registry with one image, as a child that lives as long as *ret_hold is open. Its port; 0 = no
// python3 here.
static int start_registry(int *ret_hold)
{
    char tar[96], port[16] = "";
    int in[2], out[2];
    ck_assert_int_eq(pipe2(in, O_CLOEXEC), 0);
    ck_assert_int_eq(pipe2(out, O_CLOEXEC), 0);
    (void)snprintf(tar, sizeof(tar), "%s/img.tar", dockerd.dir);
    if (fork() == 0) {
        (void)dup2(in[0], 0);
        (void)dup2(out[1], 1);
        (void)execl("/usr/bin/python3", "python3", "test/unit/agent/registry.py", tar, NULL);
        _exit(127);
    }
    (void)close(in[0]);
    (void)close(out[1]);
    (void)!read(out[0], port, sizeof(port) - 1);
    (void)close(out[0]);
    *ret_hold = in[1];
    return atoi(port);
}

START_TEST(pulled_when_missing)
    {
        cleanup_close int hold = -1;
        int port = start_registry(&hold);
        if (port == 0) {
            printf("skipped: pull (no /usr/bin/python3, or not in the top folder)\n");
            return;
        }
        static const char *const tags[] = {":1", "", ":none"};
        const char *ids[] = {A1, A2, "afailing"};
        for (size_t i = 0; i < 3; i++) {
            struct attempt_spec *s = image_spec(ids[i], "exit 5");
            free(s->image);
            ck_assert_int_gt(asprintf(&s->image, "localhost:%d/small%s", port, tags[i]), 0);
            start_spec(s);
            const struct attempt_status *st = wait_for(SEEN_ENDED, ids[i]);
            ck_assert_msg(st->cause == (i < 2 ? CAUSE_EXIT : CAUSE_IMAGE), "%s", st->reason);
            ck_assert_int_eq(st->exit_code, i < 2 ? 5 : 0);
            remove_and_wait(ids[i]);
        }
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

// The start call of an earlier agent comes through after this one has listed.
START_TEST(a_start_after_the_listing_is_adopted)
    {
        char path[ATTEMPT_PATH_BYTES], body[96];
        struct attempt_spec *spec = image_spec(A1, "sleep 1000");
        cleanup_json json_t *create = docker_create_body(&bench.o, spec);
        attempt_spec_free(spec);
        (void)snprintf(body, sizeof(body), "%.40s/body", bench.top);
        ck_assert_int_eq(json_dump_file(create, body, 0), 0);
        ck_assert_int_eq(shell(NULL, 0,
                               "curl -fsS --unix-socket %s -H 'Content-Type: application/json' "
                               "--data-binary @%s 'http://e/containers/create?name=%s' >/dev/null",
                               dockerd.socket, body, A1),
                         0);
        bench_close_runtime();
        open_runtime();
        ck_assert_uint_eq(bench.n_listed, 0);
        (void)snprintf(path, sizeof(path), "/containers/%s/start", A1);
        ck_assert_int_eq(engine_call(NULL, 0, "POST", path), 0);
        out_dir(A1, path);
        wait_for_file(path, "started");
        bench.rt->ops->adopt(bench.rt, A1);
        ck_assert(wait_for(SEEN_STARTED, A1)->container_id[0]);
        bench.rt->ops->stop(bench.rt, A1, -1);
        ck_assert_int_eq(wait_for(SEEN_ENDED, A1)->cause, CAUSE_STOPPED);
        remove_and_wait(A1);
        ck_assert_uint_eq(containers(), 0);
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

int main(void)
{
    TCase *t = tcase_create("docker");
    tcase_add_test(t, runs_ends_and_is_removed);
    tcase_add_test(t, limits_labels_and_mounts_reach_the_container);
    tcase_add_test(t, usage_is_told);
    tcase_add_test(t, task_is_its_user_without_rights);
    tcase_add_test(t, own_name_resolves_to_the_nodes_address);
    tcase_add_test(t, image_runs_its_own_command);
    tcase_add_test(t, no_command_anywhere);
    tcase_add_test(t, missing_command);
    tcase_add_test(t, missing_mount_source);
    tcase_add_test(t, memory_kill_is_told);
    tcase_add_test(t, missing_image);
    tcase_add_test(t, pulled_when_missing);
    tcase_add_test(t, stop_during_pull);
    tcase_add_test(t, stop_during_create);
    tcase_add_test(t, stop_during_start);
    tcase_add_test(t, stop_while_running_twice_and_with_grace);
    tcase_add_test(t, a_start_after_the_listing_is_adopted);
    tcase_add_test(t, remove_while_running);
    tcase_add_test(t, twenty_at_once);
    return run_docker_suite("runtime_docker", t, NULL);
}
