// SPDX-License-Identifier: Apache-2.0
// The log store: what goes in comes out byte by byte, whatever is repeated, lost, torn or rotated
// away.
#include "test/unit/master/log_util.h"
#include "test/unit/suite.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define OUT LOG_STDOUT
#define ERR LOG_STDERR

START_TEST(test_both_streams_in_order)
    {
        put("a1", OUT, 0, "one\n");
        put("a1", ERR, 0, "bad");
        put("a1", OUT, 4, "two\n");
        put("a1", ERR, 3, " thing\n");
        expect("a1", "o:one\ne:bado:two\ne: thing\n");
        expect_tail("a1", 1u << ERR, LOG_TAIL_ALL, "e:bad thing\n");
        reopen(1 << 20);
        expect("a1", "o:one\ne:bado:two\ne: thing\n");
        ck_assert_uint_eq(next_of("a1", OUT), 8);
        ck_assert_uint_eq(next_of("a1", ERR), 10);
    }
END_TEST

START_TEST(test_repeats_are_harmless)
    {
        ck_assert_uint_eq(put("a", OUT, 0, "abcdef"), 6);
        ck_assert_uint_eq(put("a", OUT, 0, "abcdef"), 6);
        ck_assert_uint_eq(put("a", OUT, 2, "cd"), 6);
        ck_assert_uint_eq(put("a", OUT, 4, "efgh"), 8);
        ck_assert_uint_eq(put("a", OUT, 3, ""), 8);
        expect("a", "o:abcdefgh");
    }
END_TEST

START_TEST(test_gaps_are_told)
    {
        put("a", OUT, 0, "abc\n");
        ck_assert_uint_eq(put("a", OUT, 10, "klm\n"), 14);
        put("a", ERR, 100, "x\n");
        ck_assert_uint_eq(put("a", OUT, 20, ""), 20);
        expect("a", "o:abc\n[o-6]o:klm\n[e-100]e:x\n[o-6]");
        reopen(1 << 20);
        expect("a", "o:abc\n[o-6]o:klm\n[e-100]e:x\n[o-6]");
        ck_assert_uint_eq(next_of("a", OUT), 20);
    }
END_TEST

START_TEST(test_bad_ids_and_offsets)
    {
        static const char *const bad[] = {
            "",
            ".",
            "..",
            "a/b",
            "a b",
            "\xff",
            "0123456789012345678901234567890123456789012345678901234567890123456789"};
        uint64_t next = 5;
        struct log_reader *r;
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
            ck_assert_int_eq(log_store_append(store, bad[i], OUT, 0, 0, "x", 1, &next), -EINVAL);
            ck_assert_int_eq(log_store_finish(store, bad[i]), -EINVAL);
            ck_assert_int_eq(log_reader_open(store, bad[i], LOG_ALL_CHANNELS, -1, &r), -EINVAL);
            log_store_delete(store, bad[i]);
        }
        ck_assert_int_eq(log_store_append(store, "a", OUT, UINT64_MAX, 0, "x", 1, &next), -EINVAL);
        ck_assert_int_eq(log_store_append(store, "a", OUT, INT64_MAX, 0, "x", 1, &next), -EINVAL);
        ck_assert_uint_eq(next, 5);
        ck_assert_uint_eq(next_of("a", OUT), 0);
    }
END_TEST

START_TEST(test_binary_bytes)
    {
        char all[1024], got[1024];
        uint64_t next;
        struct log_reader *r;
        struct log_chunk k;
        for (size_t i = 0; i < sizeof(all); i++)
            all[i] = (char)(i * 7);
        memcpy(all + 100, "\x4c\x4d\x01\x00", 4); // as a frame begins
        ck_assert_int_eq(log_store_append(store, "b", OUT, 0, 5, all, sizeof(all), &next), 0);
        reopen(1 << 20);
        ck_assert_int_eq(log_reader_open(store, "b", LOG_ALL_CHANNELS, LOG_TAIL_ALL, &r), 0);
        size_t len = 0;
        while (log_reader_next(r, &k) == LOG_NEXT_CHUNK) {
            ck_assert_uint_eq(k.offset, len);
            ck_assert_int_eq(k.time_ms, 5);
            memcpy(got + len, k.data, k.len);
            len += k.len;
        }
        log_reader_close(r);
        ck_assert_uint_eq(len, sizeof(all));
        ck_assert_mem_eq(got, all, sizeof(all));
    }
END_TEST

static void only_segment(const char *attempt, char *out, size_t size)
{
    (void)snprintf(out, size, "%s/%s/00000001", dir, attempt);
}

// Cut anywhere, the log is a beginning of what was written, and takes on from there.
START_TEST(test_torn_at_every_byte)
    {
        static const char whole[] = "first\nsecond line\n";
        char path[128];
        struct stat st;
        put("t", OUT, 0, "first\n");
        put("t", ERR, 0, "E\n");
        put("t", OUT, 6, "second line\n");
        put("t", ERR, 9, "F\n");
        ck_assert_int_eq(log_store_finish(store, "t"), 0);
        only_segment("t", path, sizeof(path));
        ck_assert_int_eq(stat(path, &st), 0);
        for (off_t size = st.st_size; size >= 0; size--) {
            log_store_close(store);
            store = NULL;
            ck_assert_int_eq(truncate(path, size), 0);
            reopen(1 << 20);
            uint64_t out = next_of("t", OUT), err = next_of("t", ERR);
            ck_assert_uint_le(out, sizeof(whole) - 1);
            put("t", OUT, out, whole + out);
            if (err < 2)
                put("t", ERR, 0, "E\n");
            put("t", ERR, 9, "F\n");
            cleanup_free char *o = read_tail("t", 1u << OUT, LOG_TAIL_ALL);
            cleanup_free char *e = read_tail("t", 1u << ERR, LOG_TAIL_ALL);
            ck_assert_str_eq(o, "o:first\nsecond line\n");
            ck_assert_str_eq(e, "e:E\n[e-7]e:F\n");
            // Back to how it was, for the next cut.
            log_store_delete(store, "t");
            put("t", OUT, 0, "first\n");
            put("t", ERR, 0, "E\n");
            put("t", OUT, 6, "second line\n");
            put("t", ERR, 9, "F\n");
            ck_assert_int_eq(log_store_finish(store, "t"), 0);
        }
    }
END_TEST

// Whatever a byte is changed to, nothing crashes and the log is usable.
START_TEST(test_damaged_at_every_byte)
    {
        char path[128];
        struct stat st;
        put("d", OUT, 0, "first\n");
        put("d", ERR, 7, "E\n");
        only_segment("d", path, sizeof(path));
        ck_assert_int_eq(stat(path, &st), 0);
        cleanup_free char *good = NULL;
        size_t len;
        ck_assert_int_eq(atomic_file_read(path, 4096, &good, &len, NULL), 0);
        for (size_t at = 0; at < len; at++) {
            log_store_close(store);
            store = NULL;
            char was = good[at];
            good[at] = (char)(was ^ 0x41);
            ck_assert_int_eq(atomic_file_write(path, good, len, 0600, NULL), 0);
            good[at] = was;
            reopen(1 << 20);
            free(read_tail("d", LOG_ALL_CHANNELS, 1));
            uint64_t out = next_of("d", OUT);
            put("d", OUT, out, "more\n");
            ck_assert_uint_eq(next_of("d", OUT), out + 5);
            cleanup_free char *after = read_tail("d", 1u << OUT, 1);
            ck_assert(strlen(after) >= 5 && strcmp(after + strlen(after) - 5, "more\n") == 0);
            log_store_delete(store, "d");
            put("d", OUT, 0, "x"); // the folder again
            log_store_close(store);
            store = NULL;
        }
    }
END_TEST

START_TEST(test_finish)
    {
        struct log_reader *r;
        ck_assert_int_eq(log_store_finish(store, "never-wrote"), 0);
        put("f", OUT, 0, "x\n");
        ck_assert_int_eq(log_reader_open(store, "f", LOG_ALL_CHANNELS, LOG_TAIL_ALL, &r), 0);
        cleanup_free char *first = drain(r);
        ck_assert_int_eq(log_store_finish(store, "f"), 0);
        ck_assert_int_eq(log_store_finish(store, "f"), 0);
        cleanup_free char *second = drain(r);
        put("f", OUT, 2, "late\n");
        cleanup_free char *third = drain(r);
        ck_assert_str_eq(first, "o:x\n");
        ck_assert_str_eq(second, "");
        ck_assert_str_eq(third, "o:late\n");
        log_reader_close(r);
        ck_assert_int_eq(log_store_finish(store, "f"), 0);
        reopen(1 << 20);
        ck_assert_int_eq(log_reader_open(store, "f", LOG_ALL_CHANNELS, LOG_TAIL_ALL, &r), 0);
        cleanup_free char *all = drain(r);
        ck_assert_str_eq(all, "o:x\nlate\n");
        log_reader_close(r);
    }
END_TEST

START_TEST(test_delete)
    {
        put("x", OUT, 0, "abc");
        put("y", OUT, 0, "def");
        struct log_reader *r;
        ck_assert_int_eq(log_reader_open(store, "x", LOG_ALL_CHANNELS, LOG_TAIL_ALL, &r), 0);
        log_store_delete(store, "x");
        log_store_delete(store, "x");
        log_store_delete(store, "never");
        cleanup_free char *nothing = drain(r);
        ck_assert_str_eq(nothing, "");
        log_reader_close(r);
        expect("x", "");
        ck_assert_uint_eq(next_of("x", OUT), 0);
        expect("y", "o:def");
    }
END_TEST

static int descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d))
        n++;
    (void)closedir(d);
    return n;
}

START_TEST(test_many_attempts_few_descriptors)
    {
        int before = descriptors();
        for (uint64_t round = 0; round < 3; round++)
            for (int i = 0; i < 500; i++) {
                char id[16];
                (void)snprintf(id, sizeof(id), "m%d", i);
                put(id, OUT, round * 2, "x\n");
            }
        ck_assert_int_le(descriptors() - before, 64);
        expect("m0", "o:x\nx\nx\n");
        expect("m499", "o:x\nx\nx\n");
        for (int i = 0; i < 500; i++) {
            char id[16];
            (void)snprintf(id, sizeof(id), "m%d", i);
            ck_assert_int_eq(log_store_finish(store, id), 0);
        }
        ck_assert_int_eq(descriptors(), before);
    }
END_TEST

// A limit on the size of files stands for a full disk: a write stops half-way, then fails.
START_TEST(test_no_more_room)
    {
        char big[3000];
        uint64_t next = 0;
        memset(big, 'x', sizeof(big) - 1);
        big[sizeof(big) - 1] = '\n';
        (void)signal(SIGXFSZ, SIG_IGN);
        put("n", OUT, 0, "before\n");
        struct rlimit small = {2000, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
        ck_assert_int_eq(log_store_append(store, "n", OUT, 7, 1, big, sizeof(big), &next), -ENOSPC);
        ck_assert_uint_eq(next, 0);
        expect("n", "o:before\n");
        ck_assert_uint_eq(put("n", OUT, 7, "small\n"), 13);
        expect("n", "o:before\nsmall\n");
        ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
        ck_assert_int_eq(log_store_append(store, "n", OUT, 13, 1, big, sizeof(big), &next), 0);
        ck_assert_uint_eq(next, 13 + sizeof(big));
        reopen(1 << 20);
        cleanup_free char *all = read_tail("n", LOG_ALL_CHANNELS, LOG_TAIL_ALL);
        ck_assert_uint_eq(strlen(all), 2 + 13 + sizeof(big));
    }
END_TEST

static bool write_text(const char *path, const char *text)
{
    cleanup_close int fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

// Root in a namespace of its own, to be allowed to mount.
static bool become_root(void)
{
    char users[32], groups[32];
    if (geteuid() == 0)
        return true;
    (void)snprintf(users, sizeof(users), "0 %u 1", (unsigned)geteuid());
    (void)snprintf(groups, sizeof(groups), "0 %u 1", (unsigned)getegid());
    return unshare(CLONE_NEWUSER) == 0 && write_text("/proc/self/uid_map", users) &&
           write_text("/proc/self/setgroups", "deny") && write_text("/proc/self/gid_map", groups);
}

static bool small_disk(void)
{
    if (!become_root())
        return false;
    if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        return false;
    return mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=700") == 0;
}

// On a file system that is really full, where this process may make one.
START_TEST(test_disk_full)
    {
        uint64_t next = 0, sent = 0;
        char block[1000];
        int r = 0;
        log_store_close(store);
        store = NULL;
        if (!small_disk()) {
            reopen(1 << 20);
            return;
        }
        reopen(1 << 20);
        memset(block, 'y', sizeof(block) - 1);
        block[sizeof(block) - 1] = '\n';
        put("other", OUT, 0, "o\n");
        while (r == 0 && sent < (1 << 20)) {
            r = log_store_append(store, "big", OUT, sent, 1, block, sizeof(block), &next);
            sent += r == 0 ? sizeof(block) : 0;
        }
        ck_assert_int_eq(r, -ENOSPC);
        ck_assert_uint_eq(next, sent);
        uint64_t known = next_of("big", OUT);
        ck_assert_uint_eq(known, sent);
        ck_assert_int_eq(log_store_append(store, "new", OUT, 0, 1, "x", 1, &next), -ENOSPC);
        cleanup_free char *all = read_tail("big", LOG_ALL_CHANNELS, LOG_TAIL_ALL);
        ck_assert_uint_eq(strlen(all), 2 + sent);
        log_store_delete(store, "other");
        log_store_delete(store, "big");
        ck_assert_uint_eq(put("new", OUT, 0, "now\n"), 4);
        expect("new", "o:now\n");
        log_store_close(store);
        store = NULL;
        (void)umount2(dir, MNT_DETACH);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("store");
    tcase_add_checked_fixture(t, begin, end);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_both_streams_in_order);
    tcase_add_test(t, test_repeats_are_harmless);
    tcase_add_test(t, test_gaps_are_told);
    tcase_add_test(t, test_bad_ids_and_offsets);
    tcase_add_test(t, test_binary_bytes);
    tcase_add_test(t, test_torn_at_every_byte);
    tcase_add_test(t, test_damaged_at_every_byte);
    tcase_add_test(t, test_finish);
    tcase_add_test(t, test_delete);
    tcase_add_test(t, test_many_attempts_few_descriptors);
    tcase_add_test(t, test_no_more_room);
    tcase_add_test(t, test_disk_full);
    return run_case("log_store", t);
}
