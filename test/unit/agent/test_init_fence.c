// SPDX-License-Identifier: Apache-2.0
// The fence of meadow-init with the real program: frozen when the lease is over, thawed when it is
// renewed, killed when it is given away, never started without one.
#include "test/unit/agent/init_util.h"

#include "common/clock.h"
#include "test/unit/suite.h"

#include <inttypes.h>
#include <sys/stat.h>

static struct init_run run;
static char lease_dir[64], options[160];

static void boot_id(char out[40])
{
    cleanup_fclose FILE *f = fopen("/proc/sys/kernel/random/boot_id", "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_nonnull(fgets(out, 40, f));
    out[strcspn(out, "\n")] = '\0';
}

static void write_lease_text(const char *boot, const char *deadline)
{
    char temp[128], path[128];
    (void)snprintf(temp, sizeof(temp), "%s/lease.tmp", lease_dir);
    (void)snprintf(path, sizeof(path), "%s/lease", lease_dir);
    FILE *f = fopen(temp, "w");
    ck_assert_ptr_nonnull(f);
    (void)fprintf(f, "meadow-lease 1 a1 %s %s\n", boot, deadline);
    (void)fclose(f);
    ck_assert_int_eq(rename(temp, path), 0);
}

static void write_lease(const char *boot, int64_t deadline)
{
    char text[32];
    (void)snprintf(text, sizeof(text), "%" PRId64, deadline);
    write_lease_text(boot, text);
}

static void lease_in(int64_t ms)
{
    char boot[40];
    boot_id(boot);
    write_lease(boot, clock_boot_ms() + ms);
}

static void setup(void)
{
    make_folder(lease_dir);
    (void)snprintf(options, sizeof(options), "--grace 60000 --lease %s", lease_dir);
}

static void teardown(void)
{
    if (run.dir[0])
        remove_folder(run.dir);
    remove_folder(lease_dir);
}

// Waits until init.log has the text.
static void wait_for_note(const char *text)
{
    char events[4096];
    cleanup_close int fd = inotify_init1(IN_CLOEXEC);
    ck_assert_int_ge(inotify_add_watch(fd, run.dir, IN_CREATE | IN_MODIFY), 0);
    for (;;) {
        cleanup_free char *log = slurp(run.dir, "init.log", NULL);
        if (log && strstr(log, text))
            return;
        ck_assert_int_gt(read(fd, events, sizeof(events)), 0);
    }
}

static char state_of(pid_t pid)
{
    char path[64], text[256];
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    cleanup_fclose FILE *f = fopen(path, "r");
    if (!f)
        return '-';
    size_t n = fread(text, 1, sizeof(text) - 1, f);
    text[n] = '\0';
    return strrchr(text, ')')[2];
}

static pid_t command_pid(void)
{
    cleanup_free char *started = slurp(run.dir, "started", NULL);
    ck_assert_ptr_nonnull(started);
    return (pid_t)atoi(started);
}

static void expect_record(const char *begin)
{
    cleanup_free char *text = slurp(run.dir, "exit", NULL);
    ck_assert_ptr_nonnull(text);
    ck_assert_msg(strncmp(text, begin, strlen(begin)) == 0, "record \"%s\"", text);
}

// The shell's children leave its session and group, and go on forking.
#define FAMILY                                                                                     \
    "for i in 1 2 3; do (setsid sh -c 'while :; do /bin/true; done') & done; "                     \
    "while [ ! -e done ]; do /bin/true; done; exit 7"

START_TEST(frozen_at_the_deadline_and_thawed_by_a_renewal)
    {
        char path[128];
        lease_in(300);
        (void)snprintf(options, sizeof(options), "--grace 60000 --lease %s --chdir %s", lease_dir,
                       lease_dir);
        init_start_sh(&run, options, FAMILY);
        wait_for_note("frozen");
        // D: a shell that waits for its vfork; the signal is pending.
        ck_assert(state_of(command_pid()) == 'T' || state_of(command_pid()) == 'D');
        (void)snprintf(path, sizeof(path), "%s/done", lease_dir);
        cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
        ck_assert_int_ge(fd, 0);
        lease_in(60000);
        ck_assert_int_eq(init_wait(&run), 7);
        expect_record("7 0 exit ");
        wait_for_note("goes on");
    }
END_TEST

START_TEST(renewed_in_time_is_never_frozen)
    {
        lease_in(250);
        init_start_sh(&run, options, "sleep 0.6; exit 3");
        wait_for_file(run.dir, "started");
        lease_in(60000);
        ck_assert_int_eq(init_wait(&run), 3);
        ck_assert_ptr_null(slurp(run.dir, "init.log", NULL));
    }
END_TEST

START_TEST(given_away_is_killed_without_grace)
    {
        lease_in(200);
        init_start_sh(&run, options, "trap 'echo bye' TERM; while :; do /bin/true; done");
        wait_for_note("frozen");
        ck_assert_int_eq(kill(run.pid, SIGTERM), 0);
        ck_assert_int_eq(init_wait(&run), 137);
        expect_record("137 9 stopped ");
        ck_assert_ptr_null(slurp(run.dir, "stdout.00000000000000000000", NULL));
    }
END_TEST

START_TEST(stop_with_a_renewed_lease_has_its_grace)
    {
        lease_in(300);
        init_start_sh(&run, options, "trap 'exit 5' TERM; while :; do /bin/true; done");
        wait_for_note("frozen");
        lease_in(60000);
        ck_assert_int_eq(kill(run.pid, SIGTERM), 0);
        ck_assert_int_eq(init_wait(&run), 5);
        expect_record("5 0 stopped ");
    }
END_TEST

START_TEST(not_started_before_the_lease_is_valid)
    {
        lease_in(-1);
        init_start_sh(&run, options, "exit 4");
        lease_in(-2);
        ck_assert_ptr_null(slurp(run.dir, "started", NULL));
        lease_in(60000);
        ck_assert_int_eq(init_wait(&run), 4);
        expect_record("4 0 exit ");
    }
END_TEST

START_TEST(stopped_before_the_lease_is_valid)
    {
        lease_in(-1);
        init_start_sh(&run, options, "exit 4");
        ck_assert_int_eq(kill(run.pid, SIGTERM), 0);
        ck_assert_int_eq(init_wait(&run), 143);
        expect_record("143 15 stopped ");
    }
END_TEST

// There was no room to write it, or it was not granted.
START_TEST(without_the_file_nothing_starts)
    {
        init_start_sh(&run, options, "exit 4");
        ck_assert_int_eq(kill(run.pid, SIGTERM), 0);
        ck_assert_int_eq(init_wait(&run), 143);
        cleanup_free char *text = slurp(run.dir, "exit", NULL);
        ck_assert_ptr_nonnull(text);
        ck_assert_ptr_nonnull(strstr(text, "stopped before it was started"));
    }
END_TEST

START_TEST(starts_when_the_file_comes)
    {
        init_start_sh(&run, options, "exit 4");
        lease_in(60000);
        ck_assert_int_eq(init_wait(&run), 4);
    }
END_TEST

START_TEST(lease_of_another_boot_is_over)
    {
        write_lease("00000000-0000-4000-8000-000000000000", INT64_MAX / 2);
        init_start_sh(&run, options, "exit 4");
        ck_assert_int_eq(kill(run.pid, SIGTERM), 0);
        ck_assert_int_eq(init_wait(&run), 143);
    }
END_TEST

START_TEST(damaged_file_keeps_the_deadline)
    {
        char path[128];
        lease_in(400);
        init_start_sh(&run, options, "while :; do /bin/true; done");
        wait_for_file(run.dir, "started");
        (void)snprintf(path, sizeof(path), "%s/lease", lease_dir);
        ck_assert_int_eq(truncate(path, 5), 0);
        wait_for_note("frozen");
        ck_assert_int_eq(kill(run.pid, SIGTERM), 0);
        ck_assert_int_eq(init_wait(&run), 137);
    }
END_TEST

// A master that stops as planned grants more than usual; the next one takes that back.
START_TEST(longer_lease_taken_back_is_seen_at_once)
    {
        char boot[64], line[40];
        boot_id(boot);
        int64_t now = clock_boot_ms();
        (void)snprintf(line, sizeof(line), "%" PRId64 " 1000", now + 60000);
        write_lease_text(boot, line);
        init_start_sh(&run, options, "while :; do /bin/true; done");
        wait_for_file(run.dir, "started");
        (void)snprintf(line, sizeof(line), "%" PRId64 " 1000", now + 1);
        write_lease_text(boot, line);
        wait_for_note("frozen");
        ck_assert_int_eq(kill(run.pid, SIGTERM), 0);
        ck_assert_int_eq(init_wait(&run), 137);
    }
END_TEST

START_TEST(folder_removed_while_frozen_and_made_again)
    {
        lease_in(300);
        init_start_sh(&run, options, "while [ ! -e $PWD/never ]; do /bin/true; done");
        wait_for_note("frozen");
        remove_folder(lease_dir);
        ck_assert_int_eq(mkdir(lease_dir, 0755), 0);
        lease_in(60000);
        wait_for_note("goes on");
        ck_assert_int_eq(kill(run.pid, SIGKILL), 0);
        (void)init_wait(&run);
    }
END_TEST

// Only where we may make a group with a freezer (root).
START_TEST(freezer_of_the_control_group)
    {
        char group[128], procs[160], text[64] = "";
        const char *root = access("/sys/fs/cgroup/cgroup.controllers", F_OK) == 0
                               ? "/sys/fs/cgroup"
                               : "/sys/fs/cgroup/freezer";
        (void)snprintf(group, sizeof(group), "%s/meadow-test-%d", root, (int)getpid());
        if (mkdir(group, 0755) < 0)
            return;
        lease_in(300);
        (void)snprintf(options, sizeof(options), "--grace 60000 --lease %s --cgroup %s", lease_dir,
                       group);
        init_start_sh(&run, options, FAMILY);
        wait_for_note("frozen");
        ck_assert_int_ne(state_of(command_pid()), 'R');
        ck_assert_int_eq(kill(run.pid, SIGTERM), 0);
        ck_assert_int_eq(init_wait(&run), 137);
        (void)snprintf(procs, sizeof(procs), "%s/cgroup.procs", group);
        FILE *f = fopen(procs, "r");
        ck_assert_ptr_nonnull(f);
        ck_assert_ptr_null(fgets(text, sizeof(text), f));
        (void)fclose(f);
        ck_assert_int_eq(rmdir(group), 0);
    }
END_TEST

int main(void)
{
    TCase *fence = tcase_create("fence");
    tcase_add_checked_fixture(fence, setup, teardown);
    tcase_set_timeout(fence, 30);
    tcase_add_test(fence, frozen_at_the_deadline_and_thawed_by_a_renewal);
    tcase_add_test(fence, renewed_in_time_is_never_frozen);
    tcase_add_test(fence, given_away_is_killed_without_grace);
    tcase_add_test(fence, stop_with_a_renewed_lease_has_its_grace);
    tcase_add_test(fence, not_started_before_the_lease_is_valid);
    tcase_add_test(fence, stopped_before_the_lease_is_valid);
    tcase_add_test(fence, without_the_file_nothing_starts);
    tcase_add_test(fence, starts_when_the_file_comes);
    tcase_add_test(fence, lease_of_another_boot_is_over);
    tcase_add_test(fence, damaged_file_keeps_the_deadline);
    tcase_add_test(fence, longer_lease_taken_back_is_seen_at_once);
    tcase_add_test(fence, folder_removed_while_frozen_and_made_again);
    tcase_add_test(fence, freezer_of_the_control_group);
    return run_case("init_fence", fence);
}
