// SPDX-License-Identifier: Apache-2.0
// Log sinks: stderr with a UTC timestamp, or the systemd journal. Chosen once at start.
#include "common/log.h"

#include "common/clock.h"
#include "common/log_file.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SD_JOURNAL_SUPPRESS_LOCATION
#include <systemd/sd-journal.h>

#define LINE_BYTES 2048

static const char *const level_names[LOG_LEVEL_MAX] = {"error", "warn", "info", "debug"};
static const int syslog_priority[LOG_LEVEL_MAX] = {3, 4, 6, 7};

static struct {
    const char *ident;
    enum log_level level;
    bool journal;
    int64_t room; // in the file behind stderr
} sink = {"meadow", LOG_LEVEL_INFO, false, INT64_MAX};

// True when stderr is connected to the journal, as sd-daemon(3) describes $JOURNAL_STREAM.
static bool stderr_is_journal(void)
{
    const char *stream = getenv("JOURNAL_STREAM");
    struct stat st;
    unsigned long long dev = 0;
    unsigned long long ino = 0;

    if (!stream || sscanf(stream, "%llu:%llu", &dev, &ino) != 2 || fstat(STDERR_FILENO, &st) < 0)
        return false;
    return st.st_dev == dev && st.st_ino == ino;
}

void log_setup(const char *ident, enum log_level level)
{
    sink.ident = ident;
    sink.level = level;
    sink.journal = stderr_is_journal();
    sink.room = log_file_room(STDERR_FILENO);
}

void log_set_level(enum log_level level)
{
    sink.level = level;
}

int log_level_from_string(const char *text, enum log_level *ret_level)
{
    for (int i = 0; i < LOG_LEVEL_MAX; i++)
        if (strcmp(text, level_names[i]) == 0) {
            *ret_level = (enum log_level)i;
            return 0;
        }
    return -EINVAL;
}

bool log_enabled(enum log_level level)
{
    return level <= sink.level;
}

bool log_to_journal(void)
{
    return sink.journal;
}

void log_write(enum log_level level, const char *token, const char *fmt, ...)
{
    char text[LINE_BYTES];
    va_list ap;

    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    // One event is one line, whatever a peer put into its text.
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = ' ';
    if (sink.journal) {
        (void)sd_journal_send("MESSAGE=%s: %s", token, text, "PRIORITY=%d", syslog_priority[level],
                              "SYSLOG_IDENTIFIER=%s", sink.ident, "MEADOW_MODULE=%s", token, NULL);
        return;
    }
    char when[CLOCK_TEXT_BYTES];
    clock_format_ms(clock_real_ms(), when);
    n = fprintf(stderr, "%s %-5s %s: %s\n", when, level_names[level], token, text);
    if (sink.room == INT64_MAX || (sink.room -= n) > 0)
        return;
    (void)log_file_turn(STDERR_FILENO); // else it is tried again a file later
    sink.room = LOG_FILE_BYTES;
}
