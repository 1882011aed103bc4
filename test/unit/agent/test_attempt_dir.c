// SPDX-License-Identifier: Apache-2.0
// Claims, records, locks and leases of attempts on disk.
#include "test/unit/agent/init_util.h"

#include "common/atomic_file.h"

#include "node-agent/attempt_dir.h"
#include "node-agent/init/lease.h"
#include "node-agent/runtime/outcome.h"
#include "test/unit/suite.h"

#include <errno.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char top[64];
static struct attempt_dirs dirs;
static const char *id = "aabcdefghijklmnopqrst";

static void setup(void)
{
    make_folder(top);
    (void)snprintf(dirs.state, sizeof(dirs.state), "%.40s/state", top);
    (void)snprintf(dirs.run, sizeof(dirs.run), "%.40s/run", top);
}

static void teardown(void)
{
    remove_folder(top);
}

static struct attempt_spec spec_of(const char *attempt)
{
    static char *command[] = {(char *)(uintptr_t) "true", NULL};
    struct attempt_spec s = {
        .job = (char *)(uintptr_t) "jabcdefghijkl",
        .job_name = (char *)(uintptr_t) "name",
        .user = (char *)(uintptr_t) "admin",
        .component = (char *)(uintptr_t) "actor",
        .attempt = 1,
        .command = command,
        .stop_signal = SIGTERM,
        .grace_ms = 1000,
    };
    (void)snprintf(s.id, sizeof(s.id), "%s", attempt);
    (void)snprintf(s.issued_to, sizeof(s.issued_to), "iabcdefghijklmnop");
    return s;
}

static void set_boot(const char *boot_id)
{
    (void)snprintf(dirs.boot_id, sizeof(dirs.boot_id), "%s", boot_id);
}

static void write_out(const char *leaf, const char *text)
{
    char path[ATTEMPT_PATH_BYTES];
    attempt_path(&dirs, id, leaf, path);
    cleanup_fclose FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    (void)fputs(text, f);
}

static void claim(void)
{
    struct err e = {0};
    struct attempt_spec spec = spec_of(id);
    ck_assert_msg(attempt_claim(&dirs, &spec, &e) == 0, "%s", e.text);
}

static void expect_boot(bool earlier, bool this_one)
{
    ck_assert_int_eq(attempt_of_earlier_boot(&dirs, id), earlier);
    ck_assert_int_eq(attempt_of_this_boot(&dirs, id), this_one);
}

START_TEST(claims_know_their_boot)
    {
        set_boot("");
        claim();
        set_boot("b1");
        expect_boot(false, false); // an older agent's claim does not say
        ck_assert_int_eq(attempt_remove(&dirs, id, NULL), 0);
        expect_boot(false, false);
        claim();
        expect_boot(false, true);
        set_boot("b2");
        expect_boot(true, false);
        set_boot(""); // we do not know ours
        expect_boot(false, false);
    }
END_TEST

START_TEST(health_word_is_read)
    {
        claim();
        ck_assert_int_eq(attempt_health_read(&dirs, id), HEALTH_WORD_NONE);
        write_out("out/health", "healthy\n");
        ck_assert_int_eq(attempt_health_read(&dirs, id), HEALTH_WORD_HEALTHY);
        write_out("out/health", "fine\n");
        ck_assert_int_eq(attempt_health_read(&dirs, id), HEALTH_WORD_NONE);
    }
END_TEST

START_TEST(claim_is_made_once_and_read_back)
    {
        struct err e = {0};
        struct attempt_spec spec = spec_of(id), *back = NULL;
        char(*ids)[ATTEMPT_ID_BYTES];
        size_t n;
        ck_assert_int_eq(attempt_claims_list(&dirs, &ids, &n, &e), 0);
        ck_assert_uint_eq(n, 0);
        free(ids);
        ck_assert_int_eq(attempt_claim_read(&dirs, id, &back, &e), -ENOENT);
        claim();
        ck_assert_int_eq(attempt_claim(&dirs, &spec, &e), -EEXIST);
        ck_assert_int_eq(attempt_claim_read(&dirs, id, &back, &e), 0);
        ck_assert_str_eq(back->component, "actor");
        ck_assert_int_eq(back->grace_ms, 1000);
        attempt_spec_free(back);
        ck_assert_int_eq(attempt_claims_list(&dirs, &ids, &n, &e), 0);
        ck_assert_uint_eq(n, 1);
        ck_assert_str_eq(ids[0], id);
        free(ids);
    }
END_TEST

START_TEST(folder_without_claim_is_none)
    {
        struct err e = {0};
        char(*ids)[ATTEMPT_ID_BYTES];
        char path[ATTEMPT_PATH_BYTES];
        size_t n;
        claim();
        attempt_path(&dirs, "aother", "", path);
        ck_assert_int_eq(mkdir(path, 0700), 0);
        ck_assert_int_eq(attempt_claims_list(&dirs, &ids, &n, &e), 0);
        ck_assert_uint_eq(n, 1);
        free(ids);
    }
END_TEST

START_TEST(damaged_claim_is_told)
    {
        struct err e = {0};
        struct attempt_spec *back;
        claim();
        write_out("claim.json", "{\"id\":");
        ck_assert_int_eq(attempt_claim_read(&dirs, id, &back, &e), -EPROTO);
        ck_assert_ptr_nonnull(strstr(e.text, id));
    }
END_TEST

// As a crash of the machine can leave it: then nothing was started either.
START_TEST(claim_cut_short_is_none)
    {
        struct err e = {0};
        char(*ids)[ATTEMPT_ID_BYTES];
        size_t n;
        claim();
        write_out("claim.json", "");
        ck_assert_int_eq(attempt_claims_list(&dirs, &ids, &n, &e), 0);
        ck_assert_uint_eq(n, 0);
        free(ids);
        write_out("claim.json", "{\"id\": \"a");
        ck_assert_int_eq(attempt_claims_list(&dirs, &ids, &n, &e), 0);
        ck_assert_uint_eq(n, 0);
        free(ids);
    }
END_TEST

START_TEST(remove_takes_both_folders)
    {
        struct err e = {0};
        char path[ATTEMPT_PATH_BYTES];
        claim();
        ck_assert_int_eq(attempt_lease_write(&dirs, id, "boot", 5, 60000, &e), 0);
        ck_assert_int_eq(attempt_remove(&dirs, id, &e), 0);
        attempt_path(&dirs, id, "", path);
        ck_assert_int_eq(access(path, F_OK), -1);
        attempt_run_path(&dirs, id, "", path);
        ck_assert_int_eq(access(path, F_OK), -1);
        ck_assert_int_eq(attempt_remove(&dirs, id, &e), 0);
        ck_assert_int_eq(attempt_remove(&dirs, "../x", &e), -EINVAL);
        ck_assert_int_eq(attempt_remove(&dirs, "", &e), -EINVAL);
    }
END_TEST

START_TEST(exit_record)
    {
        struct err e = {0};
        struct exit_record r;
        claim();
        ck_assert_int_eq(attempt_exit_read(&dirs, id, &r, &e), -ENOENT);
        write_out("out/exit", "137 9 stopped 1000 2000 some text\n");
        ck_assert_int_eq(attempt_exit_read(&dirs, id, &r, &e), 0);
        ck_assert_int_eq(r.code, 137);
        ck_assert_int_eq(r.signal, 9);
        ck_assert_int_eq(r.cause, CAUSE_STOPPED);
        ck_assert_int_eq(r.started_ms, 1000);
        ck_assert_int_eq(r.ended_ms, 2000);
        ck_assert_str_eq(r.text, "some text");
        write_out("out/exit", "0 0 exit 1000 2000 \n");
        ck_assert_int_eq(attempt_exit_read(&dirs, id, &r, &e), 0);
        ck_assert_str_eq(r.text, "");
        ck_assert(!r.logs_lost);
        write_out("out/exit", "0 0 exit 1000 2000 some text\nlogs lost\n");
        ck_assert_int_eq(attempt_exit_read(&dirs, id, &r, &e), 0);
        ck_assert_str_eq(r.text, "some text");
        ck_assert(r.logs_lost);
        write_out("out/exit", "0 0 exit 1000 20");
        ck_assert_int_eq(attempt_exit_read(&dirs, id, &r, &e), -EPROTO);
        write_out("out/exit", "0 0 nonsense 1000 2000 \n");
        ck_assert_int_eq(attempt_exit_read(&dirs, id, &r, &e), -EPROTO);
        write_out("out/exit", "");
        ck_assert_int_eq(attempt_exit_read(&dirs, id, &r, &e), -EPROTO);
    }
END_TEST

// The agent's own word on an attempt whose end nobody saw, read by the next instance.
START_TEST(a_verdict_has_no_exit_code)
    {
        struct attempt_status s;
        claim();
        write_out("out/exit", "0 0 unknown 1000 2000 gone\n");
        ck_assert_int_eq(outcome_ended(&dirs, id, &s), 0);
        ck_assert_int_eq(s.cause, CAUSE_UNKNOWN);
        ck_assert(!s.has_exit);
        write_out("out/exit", "0 0 never_started 1000 2000 x\n");
        ck_assert_int_eq(outcome_ended(&dirs, id, &s), 0);
        ck_assert(!s.has_exit);
        write_out("out/exit", "0 0 exit 1000 2000 \n");
        ck_assert_int_eq(outcome_ended(&dirs, id, &s), 0);
        ck_assert(s.has_exit);
    }
END_TEST

START_TEST(started_record)
    {
        pid_t pid;
        int64_t ms;
        claim();
        ck_assert_int_eq(attempt_started_read(&dirs, id, &pid, &ms), -ENOENT);
        write_out("out/started", "12 345678901234\n");
        ck_assert_int_eq(attempt_started_read(&dirs, id, &pid, &ms), 0);
        ck_assert_int_eq(pid, 12);
        ck_assert_int_eq(ms, 345678901234);
    }
END_TEST

// What a task could leave in out/ to lead the agent elsewhere or make it wait.
START_TEST(links_and_pipes_are_not_followed)
    {
        struct err e = {0};
        struct exit_record r;
        char path[ATTEMPT_PATH_BYTES];
        pid_t pid;
        claim();
        write_out("real", "0 0 exit 1 2 \n");
        attempt_path(&dirs, id, "out/exit", path);
        ck_assert_int_eq(symlink("../real", path), 0);
        ck_assert_int_eq(attempt_exit_read(&dirs, id, &r, &e), -EPROTO);
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(mkfifo(path, 0600), 0);
        ck_assert_int_eq(attempt_exit_read(&dirs, id, &r, &e), -EPROTO);
        attempt_path(&dirs, id, "out/init.lock", path);
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_eq(mkfifo(path, 0600), 0);
        ck_assert(!attempt_init_alive(&dirs, id, &pid));
    }
END_TEST

START_TEST(lock_tells_of_a_living_init)
    {
        char path[ATTEMPT_PATH_BYTES];
        pid_t pid = 0;
        claim();
        ck_assert(!attempt_init_alive(&dirs, id, &pid));
        attempt_path(&dirs, id, "out/init.lock", path);
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
        ck_assert_int_eq(flock(fd, LOCK_EX), 0);
        ck_assert(attempt_init_alive(&dirs, id, &pid));
        ck_assert_int_eq(pid, 0);
        ck_assert_int_eq(write(fd, "77\n", 3), 3);
        ck_assert(attempt_init_alive(&dirs, id, &pid));
        ck_assert_int_eq(pid, 77);
        (void)close(fd);
        ck_assert(!attempt_init_alive(&dirs, id, &pid));
    }
END_TEST

START_TEST(a_barred_start_has_a_record_and_no_exit_code)
    {
        struct attempt_status s;
        char path[ATTEMPT_PATH_BYTES];
        claim();
        attempt_path(&dirs, id, "out/init.lock", path);
        int fd = open(path, O_RDWR | O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_eq(flock(fd, LOCK_EX), 0);
        ck_assert(!outcome_bar_start(&dirs, id, CAUSE_ENGINE, "the bus broke off")); // it lives
        ck_assert_int_eq(outcome_ended(&dirs, id, &s), -ENOENT);
        (void)close(fd);
        ck_assert(outcome_bar_start(&dirs, id, CAUSE_ENGINE, "the bus broke off"));
        ck_assert(outcome_bar_start(&dirs, id, CAUSE_UNKNOWN, "again"));
        ck_assert_int_eq(outcome_ended(&dirs, id, &s), 0);
        ck_assert_int_eq(s.cause, CAUSE_ENGINE);
        ck_assert_str_eq(s.reason, "the bus broke off");
        ck_assert(!s.has_exit);
        attempt_path(&dirs, id, "out", path);
        ck_assert_int_eq(attempt_lock(&dirs, "anothere"), -ENOENT);
        const char *const argv[] = {init_path(), "--out", path,        "--attempt",
                                    id,          "--",    "/bin/true", NULL};
        pid_t pid;
        int status;
        ck_assert_int_eq(
            posix_spawn(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ), 0);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert_int_eq(WEXITSTATUS(status), 125); // refused to begin
    }
END_TEST

START_TEST(lease_is_what_init_reads)
    {
        struct err e = {0};
        struct lease l;
        char path[ATTEMPT_PATH_BYTES];
        claim();
        attempt_run_path(&dirs, id, "", path);
        ck_assert_int_eq(attempt_lease_write(&dirs, id, "boot", 5, 60000, &e), 0);
        ck_assert_int_eq(attempt_lease_write(&dirs, id, "boot", 99, 60000, &e), 0);
        ck_assert_int_eq(lease_read(path, &l), 0);
        ck_assert_str_eq(l.attempt, id);
        ck_assert_str_eq(l.boot_id, "boot");
        ck_assert_int_eq(l.deadline_boot_ms, 99);
        ck_assert_int_eq(l.lease_ms, 60000);
        ck_assert_int_eq(attempt_lease_write(&dirs, id, "boot", 100, 60000, &e),
                         0); // over the first
        ck_assert_int_eq(lease_read(path, &l), 0);
        ck_assert_int_eq(l.deadline_boot_ms, 100);
        ck_assert_int_eq(remove_tree(path, &e), 0); // by a person
        ck_assert_int_eq(attempt_lease_write(&dirs, id, "boot", 101, 60000, &e), 0);
        ck_assert_int_eq(lease_read(path, &l), 0);
        ck_assert_int_eq(l.deadline_boot_ms, 101);
        ck_assert_int_eq(attempt_lease_write(&dirs, "anothere", "boot", 5, 60000, &e), -ENOENT);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("files");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, claims_know_their_boot);
    tcase_add_test(t, health_word_is_read);
    tcase_add_test(t, claim_is_made_once_and_read_back);
    tcase_add_test(t, folder_without_claim_is_none);
    tcase_add_test(t, damaged_claim_is_told);
    tcase_add_test(t, claim_cut_short_is_none);
    tcase_add_test(t, remove_takes_both_folders);
    tcase_add_test(t, exit_record);
    tcase_add_test(t, a_verdict_has_no_exit_code);
    tcase_add_test(t, started_record);
    tcase_add_test(t, links_and_pipes_are_not_followed);
    tcase_add_test(t, lock_tells_of_a_living_init);
    tcase_add_test(t, a_barred_start_has_a_record_and_no_exit_code);
    tcase_add_test(t, lease_is_what_init_reads);
    return run_case("attempt_dir", t);
}
