// SPDX-License-Identifier: Apache-2.0
// The bound on an attempt's log: never more on disk, the oldest goes first and at line ends, and
// what went is told.
#include "test/unit/master/log_util.h"
#include "test/unit/suite.h"

#include <dirent.h>
#include <sys/stat.h>

#define OUT LOG_STDOUT
#define ERR LOG_STDERR

static char byte_at(uint64_t offset, enum log_channel c, unsigned line)
{
    return offset % line == line - 1
               ? '\n'
               : (char)('a' + (offset * 31 + offset / 97 + (unsigned)c * 5) % 26);
}

// Reads all and checks every byte against its offset; returns how much was lost, and how often in
// the middle of a line.
static uint64_t verify(const char *attempt, const unsigned *line, const uint64_t *total,
                       int *ret_cut)
{
    struct log_reader *r;
    struct log_chunk k;
    uint64_t at[LOG_CHANNELS] = {0}, lost = 0;
    int e;
    *ret_cut = 0;
    ck_assert_int_eq(log_reader_open(store, attempt, LOG_ALL_CHANNELS, LOG_TAIL_ALL, &r), 0);
    while ((e = log_reader_next(r, &k)) != LOG_NEXT_END) {
        ck_assert_int_eq(e, LOG_NEXT_CHUNK);
        ck_assert_uint_eq(k.offset, at[k.channel]);
        for (size_t i = 0; i < k.len; i++)
            ck_assert_int_eq(k.data[i], byte_at(k.offset + i, k.channel, line[k.channel]));
        at[k.channel] += k.len + k.gap;
        lost += k.gap;
        if (k.gap && at[k.channel] % line[k.channel] != 0)
            (*ret_cut)++;
    }
    log_reader_close(r);
    for (int c = 0; c < LOG_CHANNELS; c++)
        ck_assert_uint_eq(at[c], total[c]);
    return lost;
}

static uint64_t disk_use(const char *attempt)
{
    char path[128];
    uint64_t sum = 0;
    (void)snprintf(path, sizeof(path), "%s/%s", dir, attempt);
    DIR *d = opendir(path);
    ck_assert_ptr_nonnull(d);
    for (struct dirent *e; (e = readdir(d));) {
        struct stat st;
        ck_assert_int_eq(fstatat(dirfd(d), e->d_name, &st, 0), 0);
        sum += S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
    }
    (void)closedir(d);
    return sum;
}

static void put_pattern(const char *attempt, enum log_channel c, unsigned line, uint64_t *offset,
                        size_t len)
{
    cleanup_free char *data = malloc(len + 1);
    for (size_t i = 0; i < len; i++)
        data[i] = byte_at(*offset + i, c, line);
    ck_assert_int_eq(log_store_append(store, attempt, c, *offset, 1, data, len, offset), 0);
}

START_TEST(test_rotation_at_line_ends)
    {
        const uint64_t cap = 64 * 1024;
        const unsigned line[LOG_CHANNELS] = {80, 33};
        uint64_t total[LOG_CHANNELS] = {0};
        int cut;
        reopen(cap);
        for (int i = 0; i < 3000; i++) {
            enum log_channel c = i % 3 ? OUT : ERR;
            put_pattern("r", c, line[c], &total[c], line[c] * (size_t)(1 + i % 7));
            ck_assert_uint_le(disk_use("r"), cap);
            if (i % 1000 == 500)
                reopen(cap);
        }
        uint64_t lost = verify("r", line, total, &cut);
        ck_assert_uint_gt(lost, 0);
        ck_assert_int_eq(cut, 0);
        ck_assert_uint_gt(disk_use("r"), cap / 2);
    }
END_TEST

// Pieces of any length, both streams mid-line most of the time.
START_TEST(test_rotation_with_any_pieces)
    {
        const uint64_t cap = 32 * 1024;
        const unsigned line[LOG_CHANNELS] = {100, 100000};
        uint64_t total[LOG_CHANNELS] = {0};
        unsigned state = 3;
        int cut;
        reopen(cap);
        for (int i = 0; i < 1500; i++) {
            state = state * 1103515245u + 12345u;
            enum log_channel c = state >> 20 & 1 ? OUT : ERR;
            put_pattern("p", c, line[c], &total[c], 1 + (state >> 8) % 900);
            ck_assert_uint_le(disk_use("p"), cap);
        }
        (void)verify("p", line, total, &cut);
        reopen(cap);
        (void)verify("p", line, total, &cut);
    }
END_TEST

START_TEST(test_a_line_of_one_mebibyte)
    {
        const unsigned line[LOG_CHANNELS] = {1 << 20, 10};
        uint64_t total[LOG_CHANNELS] = {0};
        int cut;
        reopen(8 << 20);
        put_pattern("l", OUT, line[OUT], &total[OUT], 1 << 20);
        put_pattern("l", ERR, line[ERR], &total[ERR], 10);
        put_pattern("l", OUT, line[OUT], &total[OUT], 1 << 20);
        ck_assert_uint_eq(verify("l", line, total, &cut), 0);
        cleanup_free char *last = read_tail("l", 1u << OUT, 1);
        ck_assert_uint_eq(strlen(last), 2 + (1 << 20));
        cleanup_free char *both = read_tail("l", LOG_ALL_CHANNELS, 2);
        ck_assert_uint_eq(strlen(both), 4 + (1 << 20) + 10);
    }
END_TEST

static uint64_t counted(void)
{
    return (uint64_t)log_store_bytes(store);
}

static struct kept_log *found;
static size_t n_found;

static void on_found(struct kept_log *logs, size_t n, void *userdata)
{
    ck_assert_ptr_eq(userdata, &n_found);
    free(found);
    found = logs;
    n_found = n;
}

static void count(void)
{
    uv_loop_t loop;
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(log_store_count(store, &loop, on_found, &n_found), 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

// A store that is closed meanwhile leaves nothing behind.
START_TEST(test_closed_while_counting)
    {
        uv_loop_t loop;
        (void)put("a", OUT, 0, "one\n");
        ck_assert_int_eq(uv_loop_init(&loop), 0);
        ck_assert_int_eq(log_store_count(store, &loop, on_found, &n_found), 0);
        reopen(32 * 1024);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        ck_assert_int_eq(uv_loop_close(&loop), 0);
        ck_assert_uint_eq(counted(), 0);
    }
END_TEST

// The count of all bytes is what is on the disk, over rotation, deletion and restarts.
START_TEST(test_bytes_are_counted)
    {
        const uint64_t cap = 32 * 1024;
        uint64_t total[2] = {0};
        reopen(cap);
        ck_assert_uint_eq(counted(), 0);
        for (int i = 0; i < 800; i++) {
            put_pattern("a", i % 2 ? OUT : ERR, 80, &total[i % 2], 240);
            if (i % 100 == 0)
                (void)put("b", OUT, next_of("b", OUT), "one more\n");
            ck_assert_uint_eq(counted(), disk_use("a") + disk_use("b"));
            if (i % 300 == 299) {
                reopen(cap);
                count();
            }
        }
        ck_assert_int_eq(log_store_finish(store, "b"), 0);
        ck_assert_uint_eq(counted(), disk_use("a") + disk_use("b"));
        log_store_delete(store, "a");
        log_store_delete(store, "none");
        ck_assert_uint_eq(counted(), disk_use("b"));
        reopen(cap);
        ck_assert_uint_eq(counted(), 0); // not looked at yet
        count();
        ck_assert_uint_eq(counted(), disk_use("b"));
        log_store_delete(store, "b");
        ck_assert_uint_eq(counted(), 0);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("rotation");
    tcase_add_checked_fixture(t, begin, end);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_rotation_at_line_ends);
    tcase_add_test(t, test_rotation_with_any_pieces);
    tcase_add_test(t, test_a_line_of_one_mebibyte);
    tcase_add_test(t, test_closed_while_counting);
    tcase_add_test(t, test_bytes_are_counted);
    return run_case("log_rotation", t);
}
