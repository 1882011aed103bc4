// SPDX-License-Identifier: Apache-2.0
// What meadow-init does with output: byte-exact, whole at the end, rotated at line ends, bounded,
// timed, echoed without waiting, and harmless when the disk is full.
#include "test/unit/agent/init_util.h"

#include "node-agent/init/streams.h"
#include "test/unit/suite.h"

#include <endian.h>
#include <sys/mount.h>
#include <sys/stat.h>

static struct init_run run;

static void teardown(void)
{
    if (run.dir[0])
        remove_folder(run.dir);
    run.dir[0] = '\0';
}

START_TEST(binary_is_exact)
    {
        size_t len, want_len;
        uint64_t offset;
        char dir[64], options[128];
        make_folder(dir);
        (void)snprintf(options, sizeof(options), "--chdir %s", dir);
        init_start_sh(&run, options, "head -c 3000001 /dev/urandom | tee copy");
        ck_assert_int_eq(init_wait(&run), 0);
        cleanup_free char *got = read_stream(run.dir, "stdout", &len, &offset);
        cleanup_free char *want = slurp(dir, "copy", &want_len);
        ck_assert_uint_eq(len, 3000001);
        ck_assert_uint_eq(want_len, len);
        ck_assert(memcmp(got, want, len) == 0);
        remove_folder(dir);
    }
END_TEST

START_TEST(long_line_is_whole)
    {
        size_t len;
        uint64_t offset;
        init_start_sh(&run, "", "head -c 1048576 /dev/zero | tr '\\0' x; echo");
        ck_assert_int_eq(init_wait(&run), 0);
        cleanup_free char *got = read_stream(run.dir, "stdout", &len, &offset);
        ck_assert_uint_eq(len, 1048577);
        ck_assert(got[1048575] == 'x' && got[1048576] == '\n');
        char names[64][64];
        ck_assert_uint_eq(segments(run.dir, "stdout", names), 1);
    }
END_TEST

START_TEST(rotation_keeps_the_newest_lines)
    {
        size_t len;
        uint64_t offset;
        char names[64][64];
        init_start_sh(&run, "--log-limit 80000",
                      "i=0; while [ $i -lt 20000 ]; do echo line-$i; i=$((i+1)); done");
        ck_assert_int_eq(init_wait(&run), 0);
        size_t n = segments(run.dir, "stdout", names);
        ck_assert_uint_ge(n, 6);
        cleanup_free char *got = read_stream(run.dir, "stdout", &len, &offset);
        ck_assert_uint_le(len, 80000);
        ck_assert_uint_ge(len, 60000);
        ck_assert_uint_gt(offset, 0);
        ck_assert(memcmp(got + len - 11, "line-19999\n", 11) == 0);
        for (size_t i = 0; i < n; i++) { // every segment holds whole lines
            size_t part;
            cleanup_free char *text = slurp(run.dir, names[i], &part);
            ck_assert(strncmp(text, "line-", 5) == 0 && text[part - 1] == '\n');
        }
    }
END_TEST

START_TEST(endless_line_is_cut)
    {
        size_t len;
        uint64_t offset;
        char names[64][64];
        init_start_sh(&run, "--log-limit 80000", "head -c 1000000 /dev/zero");
        ck_assert_int_eq(init_wait(&run), 0);
        cleanup_free char *got = read_stream(run.dir, "stdout", &len, &offset);
        ck_assert(got[len - 1] == 0);
        ck_assert_uint_eq(offset + len, 1000000);
        ck_assert_uint_le(len, 80000);
        ck_assert_uint_ge(segments(run.dir, "stdout", names), 7);
    }
END_TEST

START_TEST(times_only_grow_and_are_few)
    {
        size_t len;
        init_start_sh(&run, "", "i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i+1)); done");
        ck_assert_int_eq(init_wait(&run), 0);
        cleanup_free char *raw = slurp(run.dir, "stdout.times", &len);
        ck_assert_uint_eq(len % 16, 0);
        ck_assert_uint_ge(len, 16);
        uint64_t pair[2], last_offset = 0, last_time = 0;
        for (size_t i = 0; i < len; i += 16) {
            memcpy(pair, raw + i, 16);
            ck_assert_uint_ge(le64toh(pair[0]), last_offset);
            ck_assert(i == 0 || le64toh(pair[1]) >= last_time + 10);
            last_offset = le64toh(pair[0]);
            last_time = le64toh(pair[1]);
        }
    }
END_TEST

START_TEST(times_are_bounded)
    {
        struct stream s;
        struct stat st;
        char path[128];
        make_folder(run.dir);
        cleanup_close int dir = open(run.dir, O_RDONLY | O_DIRECTORY);
        stream_init(&s, dir, "stdout", 1 << 20, -1, 0);
        for (int64_t i = 0; i < 40000; i++)
            stream_write(&s, "0123456789abcdef0123456789abcde\n", 32, 1000000 + i * 10);
        stream_close(&s);
        (void)snprintf(path, sizeof(path), "%s/stdout.times", run.dir);
        ck_assert_int_eq(stat(path, &st), 0);
        ck_assert_int_le(st.st_size, 8192 * 16);
        char names[64][64];
        size_t len, n = segments(run.dir, "stdout", names);
        ck_assert_uint_ge(n, 2);
        // The oldest byte that is left is still covered by a record.
        cleanup_free char *raw = slurp(run.dir, "stdout.times", &len);
        uint64_t first;
        memcpy(&first, raw, 8);
        ck_assert_uint_le(le64toh(first), strtoull(names[0] + 7, NULL, 10));
    }
END_TEST

START_TEST(a_line_is_never_split_when_it_fits)
    {
        struct stream s;
        char names[64][64], line[301];
        make_folder(run.dir);
        cleanup_close int dir = open(run.dir, O_RDONLY | O_DIRECTORY);
        stream_init(&s, dir, "stderr", 8192, -1, 0); // segments of 1024
        memset(line, 'y', sizeof(line));
        for (int i = 0; i < 500; i++) { // in two pieces, so that lines are unfinished at times
            size_t n = (size_t)(i * 7 % 300);
            stream_write(&s, line, n, i);
            stream_write(&s, "zz\n", 3, i);
            ck_assert_uint_le(s.kept, 8192);
        }
        stream_close(&s);
        size_t n = segments(run.dir, "stderr", names);
        for (size_t i = 0; i < n; i++) {
            size_t part;
            cleanup_free char *text = slurp(run.dir, names[i], &part);
            ck_assert_uint_lt(part, 2048);
            ck_assert(text[part - 1] == '\n');
        }
    }
END_TEST

START_TEST(stray_holder_of_the_pipe_does_not_hang)
    {
        // A process that is none of init's descendants gets the pipe's end: opened through /proc.
        init_start_sh(&run, "", "echo kept; exec sleep 1000");
        wait_for_file(run.dir, "stdout.00000000000000000000");
        cleanup_free char *started = slurp(run.dir, "started", NULL);
        char path[64];
        (void)snprintf(path, sizeof(path), "/proc/%d/fd/1", atoi(started));
        cleanup_close int stray = open(path, O_WRONLY);
        ck_assert_int_ge(stray, 0);
        ck_assert_int_eq(kill(run.pid, SIGTERM), 0);
        ck_assert_int_eq(init_wait(&run), 143);
        size_t len;
        uint64_t offset;
        cleanup_free char *got = read_stream(run.dir, "stdout", &len, &offset);
        ck_assert_str_eq(got, "kept\n");
    }
END_TEST

START_TEST(echo_is_capped_and_never_blocks)
    {
        int fds[2];
        char small[200];
        struct stream s;
        make_folder(run.dir);
        cleanup_close int dir = open(run.dir, O_RDONLY | O_DIRECTORY);
        ck_assert_int_eq(pipe(fds), 0);
        stream_init(&s, dir, "stdout", 1 << 20, fds[1], 100);
        stream_write(&s, "hello\n", 6, 1);
        ck_assert_int_eq(read(fds[0], small, sizeof(small)), 6);
        for (int i = 0; i < 50; i++)
            stream_write(&s, "0123456789", 10, 1);
        ck_assert_int_eq(read(fds[0], small, sizeof(small)), 94);
        stream_close(&s);
        stream_init(&s, dir, "stderr", 1 << 20, fds[1], 1 << 30);
        char block[4096] = "";
        for (int i = 0; i < 100; i++) // more than the pipe takes; nobody reads
            stream_write(&s, block, sizeof(block), 1);
        ck_assert_uint_eq(s.kept, sizeof(block) * 100);
        stream_close(&s);
        (void)close(fds[0]);
        (void)close(fds[1]);
    }
END_TEST

// Needs root for a small tmpfs.
START_TEST(full_disk_is_a_gap_and_the_end_is_known)
    {
        char names[64][64], mounted[64];
        make_folder(run.dir);
        (void)snprintf(mounted, sizeof(mounted), "%s", run.dir);
        if (mount("tmpfs", mounted, "tmpfs", 0, "size=256k") < 0) {
            printf("skipped: full disk (needs root)\n");
            return;
        }
        char command[PATH_MAX + 256];
        (void)snprintf(command, sizeof(command),
                       "%s --out %s --attempt a1 -- sh -c 'head -c 1000000 /dev/zero; exit 5'",
                       init_path(), mounted);
        ck_assert_int_eq(WEXITSTATUS(system(command)), 5);
        cleanup_free char *record = slurp(mounted, "exit", NULL);
        ck_assert_ptr_nonnull(record);
        ck_assert(strncmp(record, "5 0 exit ", 9) == 0);
        ck_assert_ptr_nonnull(strstr(record, "\nlogs lost\n"));
        ck_assert_uint_ge(segments(mounted, "stdout", names), 1);
        ck_assert_int_eq(umount2(mounted, MNT_DETACH), 0);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("logs");
    tcase_add_checked_fixture(t, NULL, teardown);
    tcase_set_timeout(t, 20);
    tcase_add_test(t, binary_is_exact);
    tcase_add_test(t, long_line_is_whole);
    tcase_add_test(t, rotation_keeps_the_newest_lines);
    tcase_add_test(t, endless_line_is_cut);
    tcase_add_test(t, times_only_grow_and_are_few);
    tcase_add_test(t, times_are_bounded);
    tcase_add_test(t, a_line_is_never_split_when_it_fits);
    tcase_add_test(t, stray_holder_of_the_pipe_does_not_hang);
    tcase_add_test(t, echo_is_capped_and_never_blocks);
    tcase_add_test(t, full_disk_is_a_gap_and_the_end_is_known);
    return run_case("init_logs", t);
}
