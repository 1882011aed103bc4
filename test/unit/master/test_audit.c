// SPDX-License-Identifier: Apache-2.0
// The audit: lines stay, are numbered on, rotate and are bounded; the secret part of a token is
// masked; waiters are called once the lines are on disk.
#include "master/api/audit.h"
#include "master/api/audit_file.h"

#include "common/atomic_file.h"
#include "test/unit/suite.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static uv_loop_t loop;
static char dir[] = "/tmp/meadow-audit-XXXXXX";
static char folder[64];
static struct err e;
static char seen[20000];

static void setup(void)
{
    (void)strcpy(dir, "/tmp/meadow-audit-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    (void)snprintf(folder, sizeof(folder), "%s/audit", dir);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    seen[0] = '\0';
}

static void teardown(void)
{
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    ck_assert_int_eq(remove_tree(dir, &e), 0);
}

static struct audit_file *file_open(size_t bytes, unsigned keep)
{
    struct audit_file *f = NULL;
    ck_assert_msg(audit_file_open(&loop, folder, bytes, keep, &f, &e) == 0, "%s", e.text);
    return f;
}

static void append(struct audit_file *f, const char *line)
{
    ck_assert_int_eq(audit_file_append(f, line, strlen(line)), 0);
}

static bool collect(char *line, size_t len, void *userdata)
{
    size_t *limit = userdata;
    ck_assert_uint_eq(strlen(line), len);
    strcat(strcat(seen, line), "|");
    return --*limit > 0;
}

static void expect(unsigned keep, size_t limit, const char *text)
{
    seen[0] = '\0';
    ck_assert_msg(audit_file_scan(folder, keep, collect, &limit, &e) == 0, "%s", e.text);
    ck_assert_str_eq(seen, text);
}

START_TEST(test_newest_first_over_files)
    {
        struct audit_file *f = file_open(20, 3);
        for (char c = 'a'; c <= 'f'; c++) {
            char line[] = "1234567X";
            line[7] = c;
            append(f, line);
        }
        expect(3, 100, "1234567f|1234567e|1234567d|1234567c|1234567b|1234567a|");
        expect(3, 2, "1234567f|1234567e|");
        append(f, "g");
        append(f, "0123456789012345678901234567890"); // more than a file: gets one alone
        append(f, "i");
        audit_file_close(f);
        // Three files at most: the oldest are gone.
        expect(3, 100, "i|0123456789012345678901234567890|g|1234567f|1234567e|");
    }
END_TEST

START_TEST(test_lines_longer_than_a_block)
    {
        struct audit_file *f = file_open(1 << 20, 2);
        char *line = malloc(200001);
        memset(line, 'x', 200000);
        line[200000] = '\0';
        append(f, "first");
        append(f, line);
        append(f, "last");
        size_t n = 1;
        audit_file_close(f);
        free(line);
        ck_assert_int_eq(audit_file_scan(folder, 2, collect, &n, &e), 0);
        ck_assert_str_eq(seen, "last|");
    }
END_TEST

START_TEST(test_a_torn_line_is_ended)
    {
        struct stat st;
        char path[80];
        ck_assert_int_eq(make_dirs(folder, 0700, &e), 0);
        (void)snprintf(path, sizeof(path), "%s/audit.log", folder);
        ck_assert_int_eq(atomic_file_write(path, "a\nb", 3, 0600, &e), 0);
        struct audit_file *f = file_open(1000, 2);
        append(f, "c");
        audit_file_close(f);
        expect(2, 100, "c|b|a|");
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_int_eq(st.st_mode & 07777, 0600);
        ck_assert_int_eq(stat(folder, &st), 0);
        ck_assert_int_eq(st.st_mode & 07777, 0700);
    }
END_TEST

struct told {
    struct audit_file *file;
    int calls;
};

static void on_synced(int result, void *userdata)
{
    struct told *t = userdata;
    ck_assert_int_eq(result, 0);
    t->calls++;
    if (t->calls == 1)
        append(t->file, "from inside");
    if (t->calls == 2)
        audit_file_close(t->file);
}

START_TEST(test_waiters_are_called_when_it_is_on_disk)
    {
        struct told t = {file_open(1000, 2), 0};
        append(t.file, "a");
        ck_assert(!audit_file_synced(t.file));
        ck_assert_int_eq(audit_file_then(t.file, on_synced, &t), 0);
        append(t.file, "b");
        ck_assert_int_eq(audit_file_then(t.file, on_synced, &t), 0);
        ck_assert_int_eq(t.calls, 0); // never from inside
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        ck_assert_int_eq(t.calls, 2);
        expect(2, 100, "from inside|b|a|");
    }
END_TEST

START_TEST(test_a_full_disk_leaves_no_half_line)
    {
        struct rlimit small = {8, RLIM_INFINITY}, before;
        ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
        (void)signal(SIGXFSZ, SIG_IGN);
        struct audit_file *f = file_open(1000, 2);
        append(f, "good");
        small.rlim_max = before.rlim_max;
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
        ck_assert_int_eq(audit_file_append(f, "too long", 8), -EFBIG);
        ck_assert(!audit_file_ok(f));
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
        append(f, "again");
        ck_assert(audit_file_ok(f));
        audit_file_close(f);
        expect(2, 100, "again|good|");
    }
END_TEST

START_TEST(test_tokens_are_masked)
    {
        char text[] = "x mtok_tabcdefghijkl_secretsecret y mjoin_0123456789abcdef_k234 mtok_ z";
        audit_mask(text);
        ck_assert_str_eq(text,
                         "x mtok_tabcdefghijkl************* y mjoin_0123456789abc******** mtok_ z");
    }
END_TEST

START_TEST(test_opens_again)
    {
        struct audit *a = NULL;
        struct audit_options o = {.loop = &loop, .folder = folder};
        for (int i = 0; i < 2; i++) {
            unsigned files;
            ck_assert_int_eq(audit_open(&o, &a, &e), 0);
            ck_assert(audit_usable(a));
            ck_assert_str_eq(audit_folder(a, &files), folder);
            audit_close(a);
            (void)uv_run(&loop, UV_RUN_DEFAULT);
        }
        audit_close(NULL);
        o.folder = "/proc/nowhere";
        ck_assert_int_lt(audit_open(&o, &a, &e), 0);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("audit");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, test_newest_first_over_files);
    tcase_add_test(t, test_lines_longer_than_a_block);
    tcase_add_test(t, test_a_torn_line_is_ended);
    tcase_add_test(t, test_waiters_are_called_when_it_is_on_disk);
    tcase_add_test(t, test_a_full_disk_leaves_no_half_line);
    tcase_add_test(t, test_tokens_are_masked);
    tcase_add_test(t, test_opens_again);
    return run_case("audit", t);
}
