// SPDX-License-Identifier: Apache-2.0
// Log files are bounded, and no line is lost or torn when one is full.
#include "common/log.h"
#include "common/log_file.h"

#include "test/unit/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[64], path[96], old[96];

static void begin(void)
{
    (void)snprintf(dir, sizeof(dir), "/tmp/meadow-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    (void)snprintf(path, sizeof(path), "%s/x.log", dir);
    (void)snprintf(old, sizeof(old), "%s/x.log.1", dir);
}

static void end(void)
{
    (void)unlink(path);
    (void)unlink(old);
    (void)rmdir(dir);
}

static int64_t size_of(const char *name)
{
    struct stat st;
    return stat(name, &st) == 0 ? st.st_size : -1;
}

// Numbered lines of a test's log: the first and the last, and that none is missing between.
static void lines_of(const char *name, long *ret_first, long *ret_last)
{
    char line[4096];
    FILE *f = fopen(name, "re");
    ck_assert_ptr_nonnull(f);
    *ret_first = *ret_last = -1;
    while (fgets(line, sizeof(line), f)) {
        const char *at = strstr(line, "line ");
        ck_assert_ptr_nonnull(at);
        ck_assert_ptr_nonnull(strchr(line, '\n'));
        long n = strtol(at + 5, NULL, 10);
        ck_assert(*ret_last < 0 || n == *ret_last + 1);
        *ret_first = *ret_first < 0 ? n : *ret_first;
        *ret_last = n;
    }
    (void)fclose(f);
}

static void write_lines(long first, long count)
{
    char much[1500];
    memset(much, 'x', sizeof(much) - 1);
    much[sizeof(much) - 1] = '\0';
    for (long i = first; i < first + count; i++)
        log_error("test", "line %ld %s", i, much);
}

START_TEST(a_full_file_is_turned)
    {
        const long count = 3 * LOG_FILE_BYTES / 1500 - 1000; // into the third file
        int saved = dup(STDERR_FILENO), fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0640);
        long first, last, older, before;
        ck_assert_int_ge(fd, 0);
        ck_assert_int_ge(dup2(fd, STDERR_FILENO), 0);
        (void)close(fd);
        (void)unsetenv("JOURNAL_STREAM");
        log_setup("test", LOG_LEVEL_ERROR);
        write_lines(0, count);
        ck_assert_int_ge(dup2(saved, STDERR_FILENO), 0);
        (void)close(saved);
        lines_of(path, &first, &last);
        lines_of(old, &older, &before);
        ck_assert_int_eq(last, count - 1);
        ck_assert_int_eq(before, first - 1);
        ck_assert_int_gt(older, 0); // one before it is gone
        ck_assert_int_le(size_of(path), LOG_FILE_BYTES + 4096);
        ck_assert_int_le(size_of(old), LOG_FILE_BYTES + 4096);
        struct stat st;
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_int_eq(st.st_mode & 0777, 0640);
    }
END_TEST

START_TEST(what_is_no_such_file)
    {
        int ends[2], fd = open(path, O_RDWR | O_CREAT, 0600);
        ck_assert_int_eq(pipe(ends), 0);
        ck_assert(log_file_room(fd) == INT64_MAX); // not appended to
        ck_assert(log_file_room(ends[1]) == INT64_MAX);
        ck_assert(log_file_room(-1) == INT64_MAX);
        ck_assert_int_lt(log_file_turn(ends[1]), 0);
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_int_lt(log_file_turn(fd), 0); // deleted
        (void)close(fd);
        fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
        ck_assert_int_eq(log_file_room(fd), LOG_FILE_BYTES);
        ck_assert_int_eq(rename(path, old), 0);
        ck_assert_int_eq(close(open(path, O_WRONLY | O_CREAT, 0600)), 0);
        ck_assert_int_eq(log_file_turn(fd), 0); // found under its new name
        ck_assert_int_eq(size_of(path), 0);
        (void)close(fd);
        (void)close(ends[0]);
        (void)close(ends[1]);
        char third[100];
        (void)snprintf(third, sizeof(third), "%s.1", old);
        ck_assert_int_eq(unlink(third), 0);
    }
END_TEST

START_TEST(before_it_is_opened)
    {
        int fd = open(path, O_WRONLY | O_CREAT, 0600);
        ck_assert_int_eq(ftruncate(fd, LOG_FILE_BYTES - 1), 0);
        log_file_bound(path);
        ck_assert_int_eq(size_of(old), -1);
        ck_assert_int_eq(ftruncate(fd, LOG_FILE_BYTES), 0);
        log_file_bound(path);
        log_file_bound(path); // not there
        ck_assert_int_eq(size_of(path), -1);
        ck_assert_int_eq(size_of(old), LOG_FILE_BYTES);
        (void)close(fd);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("bounds");
    tcase_add_checked_fixture(t, begin, end);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_full_file_is_turned);
    tcase_add_test(t, what_is_no_such_file);
    tcase_add_test(t, before_it_is_opened);
    return run_case("log_file", t);
}
