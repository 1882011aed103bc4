// SPDX-License-Identifier: Apache-2.0
// The highest commit that was acknowledged, kept beside the store in a file of the master's own: a
// store that has less went back (the tail of its file was lost, an older copy was put in its
// place). It is written without an fsync, which costs nothing: after a crash of the machine it may
// be too low, never too high. Agents, which remember what they saw, tell then (api/echo.c).
#include "master/store/store_internal.h"

#include "common/log.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define LINE_BYTES 42 // two numbers of 20 digits

void store_mark_open(struct store *s, const char *folder)
{
    char path[PATH_MAX];
    char line[LINE_BYTES + 1] = "";
    long long epoch = 0, commit = 0;
    (void)snprintf(path, sizeof(path), "%s/commit.mark", folder);
    s->mark = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (s->mark < 0)
        log_warn("store", "%s: %s", path, strerror(errno));
    if (s->mark < 0 || pread(s->mark, line, LINE_BYTES, 0) != LINE_BYTES ||
        sscanf(line, "%20lld %20lld", &epoch, &commit) != 2)
        return; // the first start, or cut by a crash: as good as none
    s->marked_epoch = epoch;
    s->marked_commit = commit;
}

void store_mark_put(struct store *s)
{
    char line[LINE_BYTES + 1];
    (void)snprintf(line, sizeof(line), "%020lld %020lld\n", (long long)s->epoch,
                   (long long)s->commit);
    if (s->mark >= 0 && pwrite(s->mark, line, LINE_BYTES, 0) != LINE_BYTES)
        log_debug("store", "the mark: %s", strerror(errno)); // too low is safe
}

void store_mark_close(struct store *s)
{
    if (s->mark >= 0)
        (void)close(s->mark);
    s->mark = -1;
}

int64_t store_lost_commits(const struct store *s)
{
    return s->marked_commit > s->first_commit ? s->marked_commit - s->first_commit : 0;
}
