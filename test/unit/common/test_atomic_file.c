// SPDX-License-Identifier: Apache-2.0
// Files, folders, trees and locks in a folder of its own.
#include "common/atomic_file.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static char dir[] = "/tmp/meadow-files-XXXXXX";
static char path[PATH_MAX];

static const char *in_dir(const char *name)
{
    (void)snprintf(path, sizeof(path), "%s/%s", dir, name);
    return path;
}

static size_t entries(void)
{
    size_t n = 0;
    DIR *d = opendir(dir);

    while (readdir(d))
        n++;
    (void)closedir(d);
    return n - 2;
}

static void begin(void)
{
    memcpy(dir + strlen(dir) - 6, "XXXXXX", 6);
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void finish(void)
{
    struct err e;

    ck_assert_msg(remove_tree(dir, &e) == 0, "%s", e.text);
    ck_assert_int_ne(access(dir, F_OK), 0);
}

START_TEST(write_replaces)
    {
        cleanup_free char *data = NULL;
        size_t len;
        struct stat st;
        struct err e;

        begin();
        ck_assert_int_eq(atomic_file_write(in_dir("a"), "one", 3, 0644, &e), 0);
        ck_assert_int_eq(atomic_file_write(in_dir("a"), "a\0b\n", 4, 0600, &e), 0);
        ck_assert_int_eq(atomic_file_read(in_dir("a"), 100, &data, &len, &e), 0);
        ck_assert_uint_eq(len, 4);
        ck_assert_mem_eq(data, "a\0b\n", 5);
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_uint_eq(st.st_mode & 07777, 0600);
        ck_assert_uint_eq(entries(), 1);
        ck_assert_int_eq(atomic_file_write(in_dir("no/a"), "x", 1, 0600, &e), -ENOENT);
        ck_assert_int_eq(mkdir(in_dir("d"), 0700), 0);
        ck_assert_int_eq(atomic_file_write(in_dir("d"), "x", 1, 0600, &e), -EISDIR);
        ck_assert_uint_eq(entries(), 2); // no temporary file is left
        finish();
    }
END_TEST

START_TEST(read_has_a_limit)
    {
        char *data = NULL;
        size_t len = 7;
        struct err e;

        begin();
        ck_assert_int_eq(atomic_file_read(in_dir("a"), 100, &data, &len, &e), -ENOENT);
        ck_assert_ptr_nonnull(strstr(e.text, "/a"));
        ck_assert_int_eq(atomic_file_write(in_dir("a"), "12345", 5, 0600, &e), 0);
        ck_assert_int_eq(atomic_file_read(in_dir("a"), 4, &data, &len, &e), -EFBIG);
        ck_assert_ptr_null(data);
        ck_assert_uint_eq(len, 7);
        ck_assert_int_eq(atomic_file_read(in_dir("a"), 5, &data, NULL, &e), 0);
        ck_assert_str_eq(data, "12345");
        free(data);
        ck_assert_int_eq(atomic_file_read(dir, 4, &data, &len, &e), -EINVAL);
        ck_assert_int_eq(atomic_file_write(in_dir("a"), "", 0, 0600, &e), 0);
        ck_assert_int_eq(atomic_file_read(in_dir("a"), 5, &data, &len, &e), 0);
        ck_assert_uint_eq(len, 0);
        free(data);
        ck_assert_int_eq(atomic_file_read("/proc/self/status", 65536, &data, &len, &e), 0);
        ck_assert_uint_gt(len, 100);
        free(data);
        finish();
    }
END_TEST

START_TEST(folders_are_made)
    {
        struct err e;

        begin();
        ck_assert_int_eq(make_dirs(in_dir("a/b//c/"), 0700, &e), 0);
        ck_assert_int_eq(make_dirs(in_dir("a/b/c"), 0700, &e), 0);
        ck_assert_int_eq(atomic_file_write(in_dir("f"), "", 0, 0600, &e), 0);
        ck_assert_int_eq(make_dirs(in_dir("f"), 0700, &e), -ENOTDIR);
        ck_assert_int_eq(make_dirs(in_dir("f/x"), 0700, &e), -ENOTDIR);
        ck_assert_int_eq(make_dirs("", 0700, &e), -ENAMETOOLONG);
        finish();
    }
END_TEST

START_TEST(trees_are_removed_without_following_links)
    {
        struct err e;

        begin();
        ck_assert_int_eq(make_dirs(in_dir("keep"), 0700, &e), 0);
        ck_assert_int_eq(atomic_file_write(in_dir("keep/x"), "x", 1, 0600, &e), 0);
        ck_assert_int_eq(make_dirs(in_dir("t/a/b"), 0700, &e), 0);
        ck_assert_int_eq(symlink("../keep", in_dir("t/link")), 0);
        ck_assert_int_eq(atomic_file_write(in_dir("t/a/b/f"), "x", 1, 0400, &e), 0);
        ck_assert_int_eq(remove_tree(in_dir("t"), &e), 0);
        ck_assert_int_eq(remove_tree(in_dir("t"), &e), 0);
        ck_assert_int_eq(access(in_dir("keep/x"), F_OK), 0);
        ck_assert_int_eq(symlink("keep", in_dir("link")), 0);
        ck_assert_int_eq(remove_tree(in_dir("link"), &e), 0);
        ck_assert_int_eq(access(in_dir("keep/x"), F_OK), 0);
        ck_assert_int_eq(remove_tree(in_dir("keep/x"), &e), 0); // a file
        finish();
    }
END_TEST

START_TEST(very_deep_trees_are_removed)
    {

        begin();
        int at = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (int i = 0; i < 1000; i++) {
            ck_assert_int_eq(mkdirat(at, "deeper", 0700), 0);
            int next = openat(at, "deeper", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
            ck_assert_int_ge(next, 0);
            (void)close(at);
            at = next;
        }
        (void)close(at);
        finish();
    }
END_TEST

START_TEST(lock_is_exclusive)
    {
        int first = -1, second = -1;
        struct err e;

        begin();
        ck_assert_int_eq(lock_file(in_dir("lock"), &first, &e), 0);
        ck_assert_int_eq(lock_file(in_dir("lock"), &second, &e), -EWOULDBLOCK);
        ck_assert_int_eq(second, -1);
        (void)close(first);
        ck_assert_int_eq(lock_file(in_dir("lock"), &second, &e), 0);
        (void)close(second);
        finish();
    }
END_TEST

RUN_SUITE("atomic_file", 30, write_replaces, read_has_a_limit, folders_are_made,
          trees_are_removed_without_following_links, very_deep_trees_are_removed, lock_is_exclusive)
