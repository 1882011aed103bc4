// SPDX-License-Identifier: Apache-2.0
// meadow-init as a program: exit codes, records, signals, stop with grace, timeout, orphans, its
// own death; and the parsers of its command line and lease file.
#include "test/unit/agent/init_util.h"

#include "common/clock.h"
#include "node-agent/init/args.h"
#include "node-agent/init/lease.h"
#include "test/unit/suite.h"

#include <errno.h>
#include <sys/prctl.h>
#include <sys/stat.h>

static struct init_run run;

static void setup(void)
{
    // What outlives an init that was killed comes to us, so that its end can be waited for.
    ck_assert_int_eq(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
}

static void teardown(void)
{
    if (run.dir[0])
        remove_folder(run.dir);
    run.dir[0] = '\0';
}

static void expect_record(const char *start)
{
    cleanup_free char *text = slurp(run.dir, "exit", NULL);
    ck_assert_ptr_nonnull(text);
    ck_assert_msg(strncmp(text, start, strlen(start)) == 0, "exit record: %s", text);
    ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
}

static bool stream_is(const char *stream, const char *want)
{
    size_t len;
    uint64_t offset;
    cleanup_free char *text = read_stream(run.dir, stream, &len, &offset);
    return offset == 0 && len == strlen(want) && memcmp(text, want, len) == 0;
}

START_TEST(exit_code_is_kept)
    {
        init_start_sh(&run, "", "echo out; echo err >&2; exit 7");
        ck_assert_int_eq(init_wait(&run), 7);
        expect_record("7 0 exit ");
        ck_assert(stream_is("stdout", "out\n"));
        ck_assert(stream_is("stderr", "err\n"));
        cleanup_free char *started = slurp(run.dir, "started", NULL);
        ck_assert_ptr_nonnull(started);
        ck_assert_ptr_null(slurp(run.dir, "exit.tmp", NULL));
    }
END_TEST

START_TEST(death_by_signal_is_told)
    {
        init_start_sh(&run, "", "kill -SEGV $$");
        ck_assert_int_eq(init_wait(&run), 128 + SIGSEGV);
        expect_record("139 11 exit ");
    }
END_TEST

START_TEST(missing_command_is_a_failed_start)
    {
        char *command[] = {(char *)(uintptr_t) "/nowhere/cmd", NULL};
        init_start(&run, "", command);
        ck_assert_int_eq(init_wait(&run), 127);
        expect_record("127 0 start_failed 0 ");
        cleanup_free char *text = slurp(run.dir, "exit", NULL);
        ck_assert_ptr_nonnull(strstr(text, "/nowhere/cmd: No such file or directory"));
        ck_assert_ptr_null(slurp(run.dir, "started", NULL));
    }
END_TEST

START_TEST(not_executable_is_a_failed_start)
    {
        char *command[] = {(char *)(uintptr_t) "/etc/passwd", NULL};
        init_start(&run, "", command);
        ck_assert_int_eq(init_wait(&run), 126);
        expect_record("126 0 start_failed ");
    }
END_TEST

START_TEST(missing_folder_is_a_failed_start)
    {
        init_start_sh(&run, "--chdir /nowhere", "true");
        ck_assert_int_eq(init_wait(&run), 127);
        cleanup_free char *text = slurp(run.dir, "exit", NULL);
        ck_assert_ptr_nonnull(strstr(text, "chdir /nowhere"));
    }
END_TEST

START_TEST(stop_sends_the_signal)
    {
        init_start_sh(&run, "--stop-signal 10 --grace 60000",
                      "trap 'echo bye; exit 3' USR1; echo go; while :; do sleep 60 & wait; done");
        wait_for_file(run.dir, "stdout.00000000000000000000");
        ck_assert_int_eq(kill(run.pid, SIGTERM), 0);
        ck_assert_int_eq(init_wait(&run), 3);
        expect_record("3 0 stopped ");
    }
END_TEST

START_TEST(stop_kills_after_grace)
    {
        init_start_sh(&run, "--grace 300", "trap '' TERM; sleep 1000");
        wait_for_file(run.dir, "started");
        int64_t before = clock_mono_ms();
        ck_assert_int_eq(kill(run.pid, SIGTERM), 0);
        int code = init_wait(&run);
        ck_assert(code == 137 || code == 143); // 143: before the trap was set
        ck_assert_int_lt(clock_mono_ms() - before, 5000);
    }
END_TEST

START_TEST(stop_file_shortens_grace)
    {
        char path[128];
        init_start_sh(&run, "--grace 600000", "trap '' TERM; sleep 1000 & wait; sleep 1000");
        wait_for_file(run.dir, "started");
        (void)snprintf(path, sizeof(path), "%s/stop", run.dir);
        cleanup_fclose FILE *f = fopen(path, "w");
        (void)fputs("0\n", f);
        (void)fflush(f);
        ck_assert_int_eq(kill(run.pid, SIGTERM), 0);
        int code = init_wait(&run);
        ck_assert(code == 137 || code == 143);
    }
END_TEST

START_TEST(stop_at_once_is_not_lost)
    {
        for (int i = 0; i < 20; i++) {
            init_start_sh(&run, "--grace 60000", "sleep 1000");
            ck_assert_int_eq(kill(run.pid, SIGTERM), 0);
            ck_assert_int_eq(init_wait(&run), 143);
            expect_record("143 15 stopped ");
            teardown();
        }
    }
END_TEST

START_TEST(other_signals_are_forwarded)
    {
        init_start_sh(&run, "", "trap 'exit 9' USR2; echo go; while :; do sleep 60 & wait; done");
        wait_for_file(run.dir, "stdout.00000000000000000000");
        ck_assert_int_eq(kill(run.pid, SIGUSR2), 0);
        ck_assert_int_eq(init_wait(&run), 9);
        expect_record("9 0 exit ");
    }
END_TEST

START_TEST(timeout_is_its_own_cause)
    {
        init_start_sh(&run, "--timeout 200 --grace 100", "trap '' TERM; sleep 1000");
        ck_assert_int_eq(init_wait(&run), 137);
        expect_record("137 9 timeout ");
    }
END_TEST

// The orphan prints its pid, then lives in a session of its own, with the output pipe still open.
START_TEST(orphans_end_with_the_command)
    {
        init_start_sh(&run, "", "setsid sh -c 'setsid sleep 1000 & echo $!' ; exit 4");
        ck_assert_int_eq(init_wait(&run), 4);
        size_t len;
        uint64_t offset;
        cleanup_free char *text = read_stream(run.dir, "stdout", &len, &offset);
        pid_t orphan = (pid_t)atoi(text);
        ck_assert_int_gt(orphan, 1);
        ck_assert_int_eq(kill(orphan, 0), -1);
        ck_assert_int_eq(errno, ESRCH);
    }
END_TEST

START_TEST(many_orphans_end_too)
    {
        init_start_sh(&run, "",
                      "for i in 1 2 3 4 5 6 7 8 9 10; do (for j in 1 2 3 4 5; do sleep 1000 & "
                      "done; wait) & done; exit 0");
        ck_assert_int_eq(init_wait(&run), 0);
        int status; // as subreaper we would have inherited what it left
        ck_assert_int_eq(waitpid(-1, &status, WNOHANG), -1);
        ck_assert_int_eq(errno, ECHILD);
    }
END_TEST

START_TEST(killed_init_takes_the_command_along)
    {
        int status;
        init_start_sh(&run, "", "exec sleep 1000");
        wait_for_file(run.dir, "started");
        cleanup_free char *started = slurp(run.dir, "started", NULL);
        pid_t command = (pid_t)atoi(started);
        ck_assert_int_eq(kill(run.pid, SIGKILL), 0);
        ck_assert_int_eq(init_wait(&run), 137);
        ck_assert_int_eq(waitpid(command, &status, 0), command);
        ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
        ck_assert_ptr_null(slurp(run.dir, "exit", NULL));
    }
END_TEST

START_TEST(second_run_is_refused)
    {
        char command[PATH_MAX + 256];
        init_start_sh(&run, "", "exit 0");
        ck_assert_int_eq(init_wait(&run), 0);
        (void)snprintf(command, sizeof(command),
                       "%s --out %s --attempt a1 -- touch %s/again 2>/dev/null", init_path(),
                       run.dir, run.dir);
        ck_assert_int_eq(WEXITSTATUS(system(command)), 125);
        ck_assert_ptr_null(slurp(run.dir, "again", NULL));
    }
END_TEST

START_TEST(memory_stays_small)
    {
        char path[64], line[256];
        long dirty = 0, kb;
        init_start_sh(&run, "", "yes | head -c 3000000; echo >&2; exec sleep 1000");
        wait_for_file(run.dir, "stderr.00000000000000000000");
        (void)snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", (int)run.pid);
        cleanup_fclose FILE *f = fopen(path, "r");
        while (f && fgets(line, sizeof(line), f))
            if (sscanf(line, "Anonymous: %ld kB", &kb) == 1)
                dirty = kb;
        ck_assert_int_eq(kill(run.pid, SIGTERM), 0);
        (void)init_wait(&run);
        ck_assert_msg(dirty <= 200, "%ld KiB private dirty", dirty);
    }
END_TEST

START_TEST(command_line)
    {
        struct init_args a;
        char *good[] = {(char *)"init",
                        (char *)"--out",
                        (char *)"/o",
                        (char *)"--attempt",
                        (char *)"a1",
                        (char *)"--cgroup",
                        (char *)"/c1",
                        (char *)"--cgroup",
                        (char *)"/c2",
                        (char *)"--grace",
                        (char *)"5",
                        (char *)"--log-limit",
                        (char *)"1",
                        (char *)"--",
                        (char *)"cmd",
                        (char *)"--out",
                        NULL};
        ck_assert_ptr_null(init_args_parse(16, good, &a));
        ck_assert_str_eq(a.out, "/o");
        ck_assert_uint_eq(a.n_cgroups, 2);
        ck_assert_int_eq(a.grace_ms, 5);
        ck_assert_int_eq(a.log_limit, 4096);
        ck_assert_int_eq(a.stop_signal, SIGTERM);
        ck_assert_str_eq(a.command[1], "--out");
        ck_assert_ptr_nonnull(init_args_parse(14, good, &a)); // no command
        good[10] = (char *)"5x";
        ck_assert_ptr_nonnull(init_args_parse(16, good, &a));
        good[9] = (char *)"--nonsense";
        ck_assert_ptr_nonnull(init_args_parse(16, good, &a));
    }
END_TEST

static int parse(const char *text, struct lease *l)
{
    return lease_parse(text, strlen(text), l);
}

START_TEST(lease_format)
    {
        struct lease l;
        const char *boot = "6f1c5a4e-0000-4000-8000-0123456789ab";
        char line[200];
        (void)snprintf(line, sizeof(line), "meadow-lease 1 aabcdefghijklmnopqrst %s 123456789012\n",
                       boot);
        ck_assert_int_eq(parse(line, &l), 0);
        ck_assert_str_eq(l.attempt, "aabcdefghijklmnopqrst");
        ck_assert_str_eq(l.boot_id, boot);
        ck_assert_int_eq(l.deadline_boot_ms, 123456789012);
        ck_assert_int_eq(parse("meadow-lease 1 a b 5 later fields\nlines\n", &l), 0);
        ck_assert_int_eq(l.deadline_boot_ms, 5);
        ck_assert_int_eq(parse("meadow-lease 1 a b 5", &l), 0);
        ck_assert_int_eq(parse("", &l), -EPROTO);
        ck_assert_int_eq(parse("meadow-lease 2 a b 5\n", &l), -EPROTO);
        ck_assert_int_eq(parse("meadow-lease 1 a b -5\n", &l), -EPROTO);
        ck_assert_int_eq(parse("meadow-lease 1 a b 5x\n", &l), -EPROTO);
        ck_assert_int_eq(parse("meadow-lease 1 a b\n", &l), -EPROTO);
        ck_assert_int_eq(parse("meadow-lease 1 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa b 5\n", &l),
                         -EPROTO);
    }
END_TEST

START_TEST(lease_file)
    {
        char dir[64], path[128];
        struct lease l;
        make_folder(dir);
        ck_assert_int_eq(lease_read(dir, &l), -ENOENT);
        (void)snprintf(path, sizeof(path), "%s/lease", dir);
        FILE *f = fopen(path, "w");
        (void)fputs("meadow-lease 1 a b 77\n", f);
        (void)fclose(f);
        ck_assert_int_eq(lease_read(dir, &l), 0);
        ck_assert_int_eq(l.deadline_boot_ms, 77);
        remove_folder(dir);
    }
END_TEST

int main(void)
{
    Suite *s = suite_create("init");
    TCase *life = tcase_create("life"), *parsers = tcase_create("parsers");
    tcase_add_checked_fixture(life, setup, teardown);
    tcase_set_timeout(life, 20);
    tcase_add_test(life, exit_code_is_kept);
    tcase_add_test(life, death_by_signal_is_told);
    tcase_add_test(life, missing_command_is_a_failed_start);
    tcase_add_test(life, not_executable_is_a_failed_start);
    tcase_add_test(life, missing_folder_is_a_failed_start);
    tcase_add_test(life, stop_sends_the_signal);
    tcase_add_test(life, stop_kills_after_grace);
    tcase_add_test(life, stop_file_shortens_grace);
    tcase_add_test(life, stop_at_once_is_not_lost);
    tcase_add_test(life, other_signals_are_forwarded);
    tcase_add_test(life, timeout_is_its_own_cause);
    tcase_add_test(life, orphans_end_with_the_command);
    tcase_add_test(life, many_orphans_end_too);
    tcase_add_test(life, killed_init_takes_the_command_along);
    tcase_add_test(life, second_run_is_refused);
    tcase_add_test(life, memory_stays_small);
    tcase_add_test(parsers, command_line);
    tcase_add_test(parsers, lease_format);
    tcase_add_test(parsers, lease_file);
    suite_add_tcase(s, life);
    suite_add_tcase(s, parsers);
    return run_suite(s);
}
