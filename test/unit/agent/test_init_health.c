// SPDX-License-Identifier: Apache-2.0
// meadow-init's health checks, by the program itself: words, the end by retries, a check that is
// stopped and can't end itself.
#include "test/unit/agent/init_util.h"
#include "test/unit/suite.h"

static struct init_run run;

static void teardown(void)
{
    if (run.dir[0])
        remove_folder(run.dir);
    run.dir[0] = '\0';
}

// The check is "sh -c SCRIPT", where blanks in the script are tabs (init_start splits by blanks).
static void start(const char *more, const char *script, const char *command)
{
    char options[512];
    ck_assert_int_lt(snprintf(options, sizeof(options),
                              "--health-arg sh --health-arg -c --health-arg %s %s", script, more),
                     (int)sizeof(options));
    init_start_sh(&run, options, command);
}

static void expect(const char *file, const char *start)
{
    cleanup_free char *text = slurp(run.dir, file, NULL);
    ck_assert_ptr_nonnull(text);
    ck_assert_msg(strncmp(text, start, strlen(start)) == 0, "%s: %s", file, text);
}

static void wait_for_word(const char *word)
{
    char events[4096];
    cleanup_close int fd = inotify_init1(IN_CLOEXEC);
    ck_assert_int_ge(inotify_add_watch(fd, run.dir, IN_MOVED_TO), 0);
    for (;;) {
        cleanup_free char *text = slurp(run.dir, "health", NULL);
        if (text && strcmp(text, word) == 0)
            return;
        ck_assert_int_gt(read(fd, events, sizeof(events)), 0);
    }
}

START_TEST(failures_in_a_row_end_it)
    {
        char out[128];
        (void)snprintf(out, sizeof(out), "%s", "echo\tx;exit\t2");
        start("--health-interval 20 --health-retries 3 --grace 100", out,
              "trap 'exit 0' TERM; while :; do sleep 0.05; done");
        ck_assert_int_eq(init_wait(&run), 0);
        cleanup_free char *text = slurp(run.dir, "exit", NULL);
        ck_assert_msg(strncmp(text, "0 0 unhealthy ", 14) == 0, "%s", text);
        ck_assert_ptr_nonnull(strstr(text, "unhealthy: exit code 2: x\n"));
        expect("health", "unhealthy\n");
    }
END_TEST

START_TEST(passed_checks_say_healthy)
    {
        start("--health-interval 20", "true", "while [ ! -e done ]; do sleep 0.05; done");
        wait_for_word("healthy\n");
        ck_assert_int_eq(kill(run.pid, SIGTERM), 0);
        (void)init_wait(&run);
        expect("exit", "143 15 stopped ");
        expect("health", "healthy\n");
    }
END_TEST

START_TEST(no_check_no_word)
    {
        init_start_sh(&run, "--health-interval 20", "exit 0");
        ck_assert_int_eq(init_wait(&run), 0);
        ck_assert_ptr_null(slurp(run.dir, "health", NULL));
    }
END_TEST

// Its parent, the check's own supervisor, is stopped: nobody but init can end it.
START_TEST(a_check_that_cannot_end_itself_is_given_up)
    {
        start("--health-interval 20 --health-timeout 20 --health-retries 1 --grace 100",
              "kill\t-STOP\t$PPID;sleep\t1000", "sleep 1000");
        ck_assert_int_eq(init_wait(&run), 143);
        cleanup_free char *text = slurp(run.dir, "exit", NULL);
        ck_assert_ptr_nonnull(strstr(text, "unhealthy: the check could not be ended\n"));
    }
END_TEST

START_TEST(what_is_no_program_is_unhealthy)
    {
        init_start_sh(&run,
                      "--health-arg /no/such --health-interval 20 --health-retries 1 --grace 100",
                      "sleep 1000");
        ck_assert_int_eq(init_wait(&run), 143);
        cleanup_free char *text = slurp(run.dir, "exit", NULL);
        ck_assert_ptr_nonnull(strstr(text, "unhealthy: exit code 127: /no/such: No such file"));
    }
END_TEST

START_TEST(nobody_at_the_port)
    {
        init_start_sh(&run, "--health-port 1 --health-interval 20 --health-retries 1 --grace 100",
                      "sleep 1000");
        ck_assert_int_eq(init_wait(&run), 143);
        cleanup_free char *text = slurp(run.dir, "exit", NULL);
        ck_assert_ptr_nonnull(strstr(text, "unhealthy: port 1: Connection refused\n"));
    }
END_TEST

int main(void)
{
    TCase *c = tcase_create("program");
    tcase_add_checked_fixture(c, NULL, teardown);
    tcase_set_timeout(c, 60);
    tcase_add_test(c, failures_in_a_row_end_it);
    tcase_add_test(c, passed_checks_say_healthy);
    tcase_add_test(c, no_check_no_word);
    tcase_add_test(c, a_check_that_cannot_end_itself_is_given_up);
    tcase_add_test(c, what_is_no_program_is_unhealthy);
    tcase_add_test(c, nobody_at_the_port);
    return run_case("init_health", c);
}
