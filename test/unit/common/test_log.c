// SPDX-License-Identifier: Apache-2.0
// Log lines on stderr: format, level, and that one event stays one line.
#include "common/log.h"

#include "test/unit/suite.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static char text[8192];

// Runs fn with stderr in a pipe and leaves what it wrote in `text`.
static void capture(void (*fn)(void))
{
    int ends[2];
    int saved = dup(STDERR_FILENO);

    ck_assert_int_eq(pipe(ends), 0);
    ck_assert_int_ge(dup2(ends[1], STDERR_FILENO), 0);
    fn();
    ck_assert_int_ge(dup2(saved, STDERR_FILENO), 0);
    (void)close(saved);
    (void)close(ends[1]);
    ssize_t n = read(ends[0], text, sizeof(text) - 1);
    (void)close(ends[0]);
    text[n > 0 ? n : 0] = '\0';
}

static void write_lines(void)
{
    log_error("store", "lost %d", 3);
    log_info("store", "not at this level");
    log_debug("store", "nor this");
    log_warn("sync", "two\nlines\x1b[1m");
}

START_TEST(lines)
    {
        (void)unsetenv("JOURNAL_STREAM");
        log_setup("test", LOG_LEVEL_WARN);
        capture(write_lines);
        char *second = strchr(text, '\n');
        ck_assert_ptr_nonnull(second);
        *second++ = '\0';
        ck_assert_str_eq(text + strlen("2026-01-02T03:04:05.678Z"), " error store: lost 3");
        ck_assert_str_eq(second + strlen("2026-01-02T03:04:05.678Z"),
                         " warn  sync: two lines [1m\n");
    }
END_TEST

static void write_long(void)
{
    char big[4000];

    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    log_error("store", "%s", big);
}

START_TEST(long_lines_are_cut)
    {
        log_setup("test", LOG_LEVEL_ERROR);
        capture(write_long);
        ck_assert_uint_gt(strlen(text), 2000);
        ck_assert_uint_lt(strlen(text), 2200);
        ck_assert_ptr_eq(strchr(text, '\n'), text + strlen(text) - 1);
    }
END_TEST

START_TEST(levels)
    {
        enum log_level level = LOG_LEVEL_ERROR;

        ck_assert_int_eq(log_level_from_string("debug", &level), 0);
        ck_assert_int_eq(level, LOG_LEVEL_DEBUG);
        ck_assert_int_eq(log_level_from_string("loud", &level), -EINVAL);
        ck_assert_int_eq(level, LOG_LEVEL_DEBUG);
        log_set_level(LOG_LEVEL_INFO);
        ck_assert(log_enabled(LOG_LEVEL_WARN));
        ck_assert(log_enabled(LOG_LEVEL_INFO));
        ck_assert(!log_enabled(LOG_LEVEL_DEBUG));
    }
END_TEST

RUN_SUITE("log", 10, lines, long_lines_are_cut, levels)
