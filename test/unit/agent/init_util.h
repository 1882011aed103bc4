// SPDX-License-Identifier: Apache-2.0
// For tests with a real meadow-init: where it is, a folder per test, running it, waiting for its
// records. Waits block on the event itself; Check's time limit per test is the bound.
#pragma once

#include "common/cleanup.h"

#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#define UNUSED __attribute__((unused))

UNUSED static const char *init_path(void)
{
    static char path[PATH_MAX];
    const char *file = getenv("MEADOW_INIT"), *folder = getenv("MEADOW_BIN");
    (void)snprintf(path, sizeof(path), "%s%s",
                   file     ? file
                   : folder ? folder
                            : "build/bin",
                   file ? "" : "/meadow-init");
    char *full = realpath(path, NULL);
    ck_assert_msg(full != NULL, "no meadow-init at %s (make it first, or set MEADOW_INIT)", path);
    (void)snprintf(path, sizeof(path), "%s", full);
    free(full);
    return path;
}

UNUSED static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

UNUSED static void remove_folder(const char *path)
{
    (void)nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

UNUSED static void make_folder(char path[64])
{
    (void)snprintf(path, 64, "%s", "/tmp/meadow-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(path));
    ck_assert_int_eq(chmod(path, 0755), 0);
}

struct init_run {
    char dir[64];
    pid_t pid;
};

// `options` are words separated by blanks; signals as the process driver sets them.
UNUSED static void init_start(struct init_run *r, const char *options, char *const command[])
{
    char words[512], *argv[64], *save;
    size_t n = 0;
    posix_spawnattr_t attr;
    sigset_t all;
    make_folder(r->dir);
    (void)snprintf(words, sizeof(words), "%s", options);
    argv[n++] = (char *)(uintptr_t)init_path();
    argv[n++] = (char *)(uintptr_t) "--out";
    argv[n++] = r->dir;
    argv[n++] = (char *)(uintptr_t) "--attempt";
    argv[n++] = (char *)(uintptr_t) "a1";
    for (char *w = strtok_r(words, " ", &save); w; w = strtok_r(NULL, " ", &save))
        argv[n++] = w;
    argv[n++] = (char *)(uintptr_t) "--";
    for (size_t i = 0; command[i]; i++)
        argv[n++] = command[i];
    argv[n] = NULL;
    (void)sigfillset(&all);
    (void)posix_spawnattr_init(&attr);
    (void)posix_spawnattr_setsigmask(&attr, &all);
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSID);
    ck_assert_int_eq(posix_spawn(&r->pid, argv[0], NULL, &attr, argv, environ), 0);
    (void)posix_spawnattr_destroy(&attr);
}

UNUSED static void init_start_sh(struct init_run *r, const char *options, const char *script)
{
    char *command[] = {(char *)(uintptr_t) "/bin/sh", (char *)(uintptr_t) "-c",
                       (char *)(uintptr_t)script, NULL};
    init_start(r, options, command);
}

// Waits for the end of init itself; its exit code, or 128 + signal.
UNUSED static int init_wait(const struct init_run *r)
{
    int status;
    ck_assert_int_eq(waitpid(r->pid, &status, 0), r->pid);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Waits until the file is there.
UNUSED static void wait_for_file(const char *dir, const char *name)
{
    char path[PATH_MAX], events[4096];
    cleanup_close int fd = inotify_init1(IN_CLOEXEC);
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    ck_assert_int_ge(inotify_add_watch(fd, dir, IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE), 0);
    while (access(path, F_OK) < 0)
        ck_assert_int_gt(read(fd, events, sizeof(events)), 0);
}

// The whole file, NUL-terminated; NULL when it is not there.
UNUSED static char *slurp(const char *dir, const char *name, size_t *ret_len)
{
    char path[PATH_MAX];
    ck_assert_int_lt(snprintf(path, sizeof(path), "%s/%s", dir, name), (int)sizeof(path));
    cleanup_fclose FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    (void)fseek(f, 0, SEEK_END);
    size_t len = (size_t)ftell(f);
    rewind(f);
    char *text = calloc(1, len + 1);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(fread(text, 1, len, f), len);
    if (ret_len)
        *ret_len = len;
    return text;
}

UNUSED static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

// Names of the segments of a stream in order; returns how many.
UNUSED static size_t segments(const char *dir, const char *stream, char names[64][64])
{
    size_t n = 0, prefix = strlen(stream);
    DIR *d = opendir(dir);
    ck_assert_ptr_nonnull(d);
    for (const struct dirent *e; (e = readdir(d));)
        if (strncmp(e->d_name, stream, prefix) == 0 && strlen(e->d_name) == prefix + 21 && n < 64)
            (void)snprintf(names[n++], 64, "%.63s", e->d_name);
    (void)closedir(d);
    qsort(names, n, 64, by_name);
    return n;
}

// All bytes of a stream; checks that the segments follow on each other from `*ret_offset` on.
UNUSED static char *read_stream(const char *dir, const char *stream, size_t *ret_len,
                                uint64_t *ret_offset)
{
    char names[64][64], *all = calloc(1, 1);
    size_t n = segments(dir, stream, names), len = 0;
    *ret_offset = n ? strtoull(names[0] + strlen(stream) + 1, NULL, 10) : 0;
    for (size_t i = 0; i < n; i++) {
        size_t part = 0;
        cleanup_free char *text = slurp(dir, names[i], &part);
        ck_assert_uint_eq(strtoull(names[i] + strlen(stream) + 1, NULL, 10), *ret_offset + len);
        char *more = realloc(all, len + part + 1);
        ck_assert_ptr_nonnull(more);
        all = more;
        memcpy(all + len, text, part + 1);
        len += part;
    }
    *ret_len = len;
    return all;
}
