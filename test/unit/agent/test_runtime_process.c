// SPDX-License-Identifier: Apache-2.0
// The process runtime with real processes: start, end, stop, removal, leftovers, limits, and
// adoption by a second runtime after the first one was closed.
#include "test/unit/agent/runtime_util.h"

#include "node-agent/runtime/proc_scan.h"
#include "test/unit/suite.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static void open_runtime(void)
{
    struct err e;
    ck_assert_msg(runtime_process_new(&bench.o, &bench.rt, &e) == 0, "%s", e.text);
    ck_assert(wait_for(SEEN_ENGINE, "")->has_exit);
    (void)wait_for(SEEN_LISTED, "");
}

static void setup(void)
{
    bench_init();
    // As on a machine whose init reaps: what a killed supervisor leaves must not stay a zombie of
    // nobody.
    open_runtime();
}

static void teardown(void)
{
    bench_end();
}

// Processes of the task; its supervisor may live a moment longer to make the record durable.
static size_t living(const char *id)
{
    cleanup_free struct proc_owner *owners = NULL;
    size_t n = 0, found = 0;
    ck_assert_int_eq(proc_owners(&owners, &n), 0);
    for (size_t i = 0; i < n; i++) {
        char path[64], comm[32] = "";
        (void)snprintf(path, sizeof(path), "/proc/%d/comm", (int)owners[i].pid);
        cleanup_fclose FILE *f = fopen(path, "r");
        if (f && fgets(comm, sizeof(comm), f) && strcmp(comm, "meadow-init\n") != 0)
            found += strcmp(owners[i].id, id) == 0;
    }
    return found;
}

START_TEST(runs_and_ends)
    {
        ck_assert_uint_eq(bench.n_listed, 0);
        start_sh(A1, "echo hi; exit 7");
        ck_assert_uint_eq(count(SEEN_STARTED, ""), 0); // nothing from inside the call
        const struct attempt_status *s = wait_for(SEEN_STARTED, A1);
        ck_assert_int_eq(s->state, ATTEMPT_RUNNING);
        ck_assert_int_gt(s->pid, 1);
        ck_assert_int_gt(s->started_ms, 0);
        s = wait_for(SEEN_ENDED, A1);
        ck_assert_int_eq(s->cause, CAUSE_EXIT);
        ck_assert(s->has_exit);
        ck_assert_int_eq(s->exit_code, 7);
        ck_assert_int_ge(s->ended_ms, s->started_ms);
        cleanup_free char *out = output_of(A1, "stdout");
        ck_assert_str_eq(out, "hi\n");
    }
END_TEST

START_TEST(environment_is_the_specs_alone)
    {
        struct attempt_spec *s = make_spec(A1, "env; pwd");
        s->env = calloc(1, sizeof(*s->env));
        s->env[0].key = strdup("KEY");
        s->env[0].value = strdup("some value");
        s->n_env = 1;
        (void)setenv("AGENTS_OWN", "secret", 1);
        start_spec(s);
        (void)wait_for(SEEN_ENDED, A1);
        cleanup_free char *out = output_of(A1, "stdout");
        ck_assert_ptr_nonnull(strstr(out, "KEY=some value\n"));
        ck_assert(has_id(out, "MEADOW_ATTEMPT_ID=", "\n"));
        ck_assert_ptr_nonnull(strstr(out, "PATH=/"));
        ck_assert_ptr_null(strstr(out, "AGENTS_OWN"));
        ck_assert(has_id(out, "/state/attempts/", "/work\n"));
    }
END_TEST

START_TEST(missing_command)
    {
        struct attempt_spec *s = make_spec(A1, "");
        free(s->command[0]);
        s->command[0] = strdup("/nowhere/cmd");
        start_spec(s);
        const struct attempt_status *st = wait_for(SEEN_ENDED, A1);
        ck_assert_int_eq(st->cause, CAUSE_START_FAILED);
        ck_assert_int_eq(st->exit_code, 127);
        ck_assert_ptr_nonnull(strstr(st->reason, "/nowhere/cmd"));
        ck_assert_uint_eq(count(SEEN_STARTED, A1), 0);
    }
END_TEST

START_TEST(no_command_at_all)
    {
        start_spec(make_spec(A1, NULL));
        ck_assert_int_eq(wait_for(SEEN_ENDED, A1)->cause, CAUSE_START_FAILED);
    }
END_TEST

START_TEST(environment_too_large)
    {
        struct attempt_spec *s = make_spec(A1, "true");
        s->env = calloc(1, sizeof(*s->env));
        s->env[0].key = strdup("BIG");
        s->env[0].value = calloc(1, 4 << 20);
        memset(s->env[0].value, 'x', (4 << 20) - 1);
        s->n_env = 1;
        start_spec(s);
        ck_assert_int_eq(wait_for(SEEN_ENDED, A1)->cause, CAUSE_START_FAILED);
    }
END_TEST

START_TEST(missing_init_is_the_engines_fault)
    {
        bench_close_runtime();
        bench.o.init_path = "/nowhere/meadow-init";
        open_runtime();
        start_sh(A1, "true");
        ck_assert_int_eq(wait_for(SEEN_ENDED, A1)->cause, CAUSE_ENGINE);
    }
END_TEST

START_TEST(stop_ends_it_and_twice_is_harmless)
    {
        start_sh(A1, "sleep 1000");
        (void)wait_for(SEEN_STARTED, A1);
        bench.rt->ops->stop(bench.rt, A1, -1);
        bench.rt->ops->stop(bench.rt, A1, -1);
        const struct attempt_status *s = wait_for(SEEN_ENDED, A1);
        ck_assert_int_eq(s->cause, CAUSE_STOPPED);
        ck_assert_int_eq(s->signal, SIGTERM);
        bench.rt->ops->stop(bench.rt, A1, -1);
        ck_assert_uint_eq(living(A1), 0);
    }
END_TEST

START_TEST(stop_at_once)
    {
        start_sh(A1, "sleep 1000");
        bench.rt->ops->stop(bench.rt, A1, -1);
        ck_assert_int_eq(wait_for(SEEN_ENDED, A1)->cause, CAUSE_STOPPED);
    }
END_TEST

START_TEST(stop_with_a_grace_of_its_own)
    {
        char path[ATTEMPT_PATH_BYTES];
        start_sh(A1, "trap '' TERM; echo; sleep 1000 & wait; sleep 1000");
        (void)wait_for(SEEN_STARTED, A1);
        out_dir(A1, path);
        wait_for_file(path, "stdout.00000000000000000000");
        int64_t before = clock_mono_ms();
        bench.rt->ops->stop(bench.rt, A1, 100);
        const struct attempt_status *s = wait_for(SEEN_ENDED, A1);
        ck_assert_int_eq(s->signal, SIGKILL);
        ck_assert_int_eq(s->cause, CAUSE_STOPPED);
        ck_assert_int_lt(clock_mono_ms() - before, 5000);
    }
END_TEST

START_TEST(remove_of_a_living_one_ends_it)
    {
        start_sh(A1, "trap '' TERM; sleep 1000");
        (void)wait_for(SEEN_STARTED, A1);
        bench.rt->ops->remove(bench.rt, A1);
        (void)wait_for(SEEN_REMOVED, A1);
        ck_assert_uint_eq(count(SEEN_ENDED, A1), 1);
        ck_assert_uint_eq(living(A1), 0);
        bench.rt->ops->remove(bench.rt, "aunknown");
        (void)wait_for(SEEN_REMOVED, "aunknown");
    }
END_TEST

static size_t open_files(void)
{
    size_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    (void)closedir(d);
    return n;
}

START_TEST(two_hundred_at_once)
    {
        size_t files = open_files();
        for (int i = 0; i < 200; i++) {
            char id[ATTEMPT_ID_BYTES];
            make_id(id, i);
            start_sh(id, "echo $MEADOW_ATTEMPT_ID; exit 3");
        }
        wait_count(SEEN_ENDED, "", 200, 60000);
        for (int i = 0; i < 200; i++) {
            char id[ATTEMPT_ID_BYTES], want[ATTEMPT_ID_BYTES + 8];
            make_id(id, i);
            (void)snprintf(want, sizeof(want), "%s\n", id);
            ck_assert_uint_eq(count(SEEN_STARTED, id), 1);
            ck_assert_uint_eq(count(SEEN_ENDED, id), 1);
            ck_assert_int_eq(last(SEEN_ENDED, id)->status.exit_code, 3);
            cleanup_free char *out = output_of(id, "stdout");
            ck_assert_str_eq(out, want);
            bench.rt->ops->remove(bench.rt, id);
        }
        wait_count(SEEN_REMOVED, "", 200, 20000);
        ck_assert_uint_eq(open_files(), files);
        int status; // all supervisors were reaped
        ck_assert_int_eq(waitpid(-1, &status, WNOHANG), -1);
    }
END_TEST

START_TEST(killed_supervisor_is_unknown_once_all_is_gone)
    {
        start_sh(A1, "setsid sleep 1000 & setsid sleep 1001 & echo; sleep 1002");
        pid_t init = (pid_t)wait_for(SEEN_STARTED, A1)->pid;
        char path[ATTEMPT_PATH_BYTES];
        out_dir(A1, path);
        wait_for_file(path, "stdout.00000000000000000000");
        ck_assert_int_eq(kill(init, SIGKILL), 0);
        const struct attempt_status *s = wait_for(SEEN_ENDED, A1);
        ck_assert_int_eq(s->cause, CAUSE_UNKNOWN);
        ck_assert(!s->has_exit);
        ck_assert_uint_eq(living(A1), 0);
    }
END_TEST

START_TEST(running_attempt_is_adopted)
    {
        start_sh(A1, "echo one; sleep 1000");
        pid_t init = (pid_t)wait_for(SEEN_STARTED, A1)->pid;
        bench_close_runtime();
        open_runtime();
        ck_assert_uint_eq(bench.n_listed, 1);
        ck_assert_str_eq(bench.listed[0].status.id, A1);
        ck_assert_int_eq(bench.listed[0].status.state, ATTEMPT_RUNNING);
        ck_assert_int_eq(bench.listed[0].status.pid, init);
        struct err e;
        struct attempt_spec *spec;
        ck_assert_int_eq(attempt_claim_read(&bench.o.dirs, A1, &spec, &e), 0);
        start_spec(spec); // a second start finds the first
        (void)wait_for(SEEN_STARTED, A1);
        ck_assert_int_eq(last(SEEN_STARTED, A1)->status.pid, init);
        bench.rt->ops->stop(bench.rt, A1, -1);
        ck_assert_int_eq(wait_for(SEEN_ENDED, A1)->cause, CAUSE_STOPPED);
        cleanup_free char *out = output_of(A1, "stdout");
        ck_assert_str_eq(out, "one\n");
    }
END_TEST

// Started by an earlier agent after this one had listed.
START_TEST(a_start_after_the_listing_is_adopted)
    {
        struct runtime *later;
        struct err e;
        ck_assert_msg(runtime_process_new(&bench.o, &later, &e) == 0, "%s", e.text);
        wait_count(SEEN_LISTED, "", 2, 20000);
        start_sh(A1, "sleep 1000");
        pid_t init = (pid_t)wait_for(SEEN_STARTED, A1)->pid;
        bench_close_runtime();
        bench.rt = later;
        bench.rt->ops->adopt(bench.rt, A1);
        ck_assert_int_eq(wait_for(SEEN_STARTED, A1)->pid, init);
        bench.rt->ops->stop(bench.rt, A1, -1);
        ck_assert_int_eq(wait_for(SEEN_ENDED, A1)->cause, CAUSE_STOPPED);
        struct attempt_spec *never = make_spec(A2, "true"); // nothing of it lives: not started
        attempt_spec_free(never);
        bench.rt->ops->adopt(bench.rt, A2);
        ck_assert_int_eq(wait_for(SEEN_ENDED, A2)->cause, CAUSE_UNKNOWN);
        ck_assert_ptr_null(last(SEEN_STARTED, A2));
    }
END_TEST

START_TEST(end_during_absence_is_listed)
    {
        struct attempt_spec *spec = make_spec(A1, "read x < go; exit 9");
        char fifo[ATTEMPT_PATH_BYTES + 8], path[ATTEMPT_PATH_BYTES];
        attempt_path(&bench.o.dirs, A1, "work", path);
        (void)snprintf(fifo, sizeof(fifo), "%s/go", path);
        ck_assert_int_eq(mkfifo(fifo, 0600), 0);
        start_spec(spec);
        (void)wait_for(SEEN_STARTED, A1);
        struct attempt_spec *never = make_spec(A2, "true"); // claimed, not started
        attempt_spec_free(never);
        bench_close_runtime();
        cleanup_close int go = open(fifo, O_WRONLY);
        ck_assert_int_eq(write(go, "\n", 1), 1);
        out_dir(A1, path);
        wait_for_file(path, "exit");
        open_runtime();
        ck_assert_uint_eq(bench.n_listed, 1);
        ck_assert_str_eq(bench.listed[0].status.id, A1);
        // The supervisor may be on its way out still: then the end is told after the list.
        const struct attempt_status *s = &bench.listed[0].status;
        if (s->state != ATTEMPT_ENDED)
            s = wait_for(SEEN_ENDED, A1);
        ck_assert_int_eq(s->exit_code, 9);
    }
END_TEST

START_TEST(leftovers_of_absence_are_swept)
    {
        start_sh(A1, "setsid sleep 1000 & echo; sleep 1000");
        pid_t init = (pid_t)wait_for(SEEN_STARTED, A1)->pid;
        char path[ATTEMPT_PATH_BYTES];
        out_dir(A1, path);
        wait_for_file(path, "stdout.00000000000000000000");
        bench_close_runtime();
        ck_assert_int_eq(kill(init, SIGKILL), 0);
        ck_assert_int_eq(waitpid(init, NULL, 0), init);
        open_runtime();
        ck_assert_uint_eq(bench.n_listed, 1);
        if (bench.listed[0].status.state == ATTEMPT_RUNNING)
            ck_assert_int_eq(wait_for(SEEN_ENDED, A1)->cause, CAUSE_UNKNOWN);
        else
            ck_assert_int_eq(bench.listed[0].status.cause, CAUSE_UNKNOWN);
        ck_assert_uint_eq(living(A1), 0);
    }
END_TEST

START_TEST(usage_is_told)
    {
        start_sh(A1, "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo; sleep 1000");
        (void)wait_for(SEEN_STARTED, A1);
        char path[ATTEMPT_PATH_BYTES];
        out_dir(A1, path);
        wait_for_file(path, "stdout.00000000000000000000");
        cleanup_json json_t *usage = bench.rt->ops->usage(bench.rt);
        const json_t *one = json_object_get(usage, A1);
        ck_assert_ptr_nonnull(one);
        ck_assert_int_gt(json_integer_value(json_object_get(one, "cpu_ms")), 0);
        ck_assert_int_gt(json_integer_value(json_object_get(one, "memory")), 100000);
        bench.rt->ops->remove(bench.rt, A1);
        (void)wait_for(SEEN_REMOVED, A1);
    }
END_TEST

static bool may_make_cgroups(void)
{
    const char *probe = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0
                            ? "/sys/fs/cgroup/meadow-probe"
                            : "/sys/fs/cgroup/memory/meadow-probe";
    bool ok = mkdir(probe, 0755) == 0;
    (void)rmdir(probe);
    if (!ok)
        printf("skipped: limits (may not make control groups here)\n");
    return ok;
}

START_TEST(memory_limit_kills_and_is_told)
    {
        if (!may_make_cgroups())
            return;
        struct attempt_spec *s = make_spec(A1, "cat /proc/self/cgroup; exec tail /dev/zero");
        s->resources = (struct resources){.cpu_milli = 500, .memory = 32 << 20};
        start_spec(s);
        const struct attempt_status *st = wait_for(SEEN_ENDED, A1);
        ck_assert_int_eq(st->cause, CAUSE_OOM);
        ck_assert(st->oom);
        ck_assert_int_eq(st->exit_code, 137);
        cleanup_free char *out = output_of(A1, "stdout");
        ck_assert(has_id(out, "/meadow/", "\n"));
        char group[128];
        (void)snprintf(group, sizeof(group), "/sys/fs/cgroup/memory/meadow/%s", A1);
        ck_assert_int_eq(access(group, F_OK), -1);
    }
END_TEST

START_TEST(timeout_is_told)
    {
        struct attempt_spec *s = make_spec(A1, "sleep 1000");
        s->timeout_ms = 100;
        start_spec(s);
        ck_assert_int_eq(wait_for(SEEN_ENDED, A1)->cause, CAUSE_TIMEOUT);
    }
END_TEST

// As root the agent gives the task its user, and nothing that makes more of it.
START_TEST(task_is_its_user_without_rights)
    {
        if (geteuid() != 0)
            return;
        ck_assert_int_eq(chmod(bench.top, 0711), 0);
        bench.uid = 4321;
        bench.gid = 4322;
        start_sh(A1,
                 "id -u; id -g; id -G; grep -E '^(Cap|NoNewPrivs)' /proc/self/status; echo > x; "
                 "stat -c %u x; cat ../claim.json 2>/dev/null; exit 6");
        const struct attempt_status *st = wait_for(SEEN_ENDED, A1);
        ck_assert_msg(st->exit_code == 6, "%s", st->reason);
        cleanup_free char *text = output_of(A1, "stdout");
        ck_assert_str_eq(text, "4321\n4322\n4322\n"
                               "CapInh:\t0000000000000000\nCapPrm:\t0000000000000000\n"
                               "CapEff:\t0000000000000000\nCapBnd:\t0000000000000000\n"
                               "CapAmb:\t0000000000000000\nNoNewPrivs:\t1\n4321\n");
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("process");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 70);
    tcase_add_test(t, runs_and_ends);
    tcase_add_test(t, environment_is_the_specs_alone);
    tcase_add_test(t, missing_command);
    tcase_add_test(t, no_command_at_all);
    tcase_add_test(t, environment_too_large);
    tcase_add_test(t, missing_init_is_the_engines_fault);
    tcase_add_test(t, stop_ends_it_and_twice_is_harmless);
    tcase_add_test(t, stop_at_once);
    tcase_add_test(t, stop_with_a_grace_of_its_own);
    tcase_add_test(t, remove_of_a_living_one_ends_it);
    tcase_add_test(t, two_hundred_at_once);
    tcase_add_test(t, killed_supervisor_is_unknown_once_all_is_gone);
    tcase_add_test(t, running_attempt_is_adopted);
    tcase_add_test(t, a_start_after_the_listing_is_adopted);
    tcase_add_test(t, end_during_absence_is_listed);
    tcase_add_test(t, leftovers_of_absence_are_swept);
    tcase_add_test(t, usage_is_told);
    tcase_add_test(t, memory_limit_kills_and_is_told);
    tcase_add_test(t, timeout_is_told);
    tcase_add_test(t, task_is_its_user_without_rights);
    return run_case("runtime_process", t);
}
