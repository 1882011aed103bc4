// SPDX-License-Identifier: Apache-2.0
// Reading logs: the last lines, one stream of two, following what is written, and standing still
// while the oldest parts go.
#include "test/unit/master/log_util.h"
#include "test/unit/suite.h"

#define OUT LOG_STDOUT
#define ERR LOG_STDERR
#define ALL LOG_ALL_CHANNELS

START_TEST(test_tail)
    {
        put("t", OUT, 0, "1\n2\n3\n");
        put("t", ERR, 0, "a\nb\n");
        put("t", OUT, 6, "4\n5\n");
        expect_tail("t", ALL, 1, "o:5\n");
        expect_tail("t", ALL, 3, "e:b\no:4\n5\n");
        expect_tail("t", ALL, 5, "o:3\ne:a\nb\no:4\n5\n");
        expect_tail("t", ALL, 7, "o:1\n2\n3\ne:a\nb\no:4\n5\n");
        expect_tail("t", ALL, 1000, "o:1\n2\n3\ne:a\nb\no:4\n5\n");
        expect_tail("t", ALL, 0, "");
        expect_tail("t", 1u << OUT, 3, "o:3\n4\n5\n");
        expect_tail("t", 1u << ERR, 1, "e:b\n");
        expect_tail("never", ALL, 5, "");
    }
END_TEST

START_TEST(test_tail_of_unfinished_lines)
    {
        put("t", OUT, 0, "1\n2");
        expect_tail("t", ALL, 1, "o:2");
        expect_tail("t", ALL, 2, "o:1\n2");
        put("t", ERR, 0, "x\ny");
        expect_tail("t", ALL, 1, "o:2e:y");
        expect_tail("t", ALL, 2, "o:2e:y");
        expect_tail("t", ALL, 3, "o:2e:x\ny");
    }
END_TEST

// A line that another stream's line came in the middle of is still one.
START_TEST(test_tail_of_mixed_lines)
    {
        put("t", OUT, 0, "old\nab");
        put("t", ERR, 0, "E1\nE2\n");
        put("t", OUT, 6, "cd\n");
        expect_tail("t", ALL, 1, "o:abcd\n");
        expect_tail("t", ALL, 2, "o:abe:E2\no:cd\n");
        expect_tail("t", ALL, 3, "o:abe:E1\nE2\no:cd\n");
    }
END_TEST

START_TEST(test_tail_counts_gaps)
    {
        put("t", OUT, 0, "1\n");
        put("t", OUT, 12, "2\n");
        expect_tail("t", ALL, 1, "o:2\n");
        expect_tail("t", ALL, 2, "[o-10]o:2\n");
        expect_tail("t", ALL, 3, "o:1\n[o-10]o:2\n");
    }
END_TEST

// --- the last lines of random logs, against what a plain look at the whole log says ---

#define MODEL_BYTES 40000
static unsigned state;
static unsigned pick(unsigned n)
{
    state = state * 1103515245u + 12345u;
    return (state >> 12) % n;
}

struct model {
    char text[LOG_CHANNELS][MODEL_BYTES];
    uint64_t len[LOG_CHANNELS];
    struct end {
        enum log_channel c;
        uint64_t behind;
    } ends[MODEL_BYTES];
    size_t n;
};
static struct model model;

static void model_put(enum log_channel c, size_t len, unsigned line)
{
    char *at = model.text[c] + model.len[c];
    uint64_t next;
    for (size_t i = 0; i < len; i++) {
        at[i] = pick(line) == 0 ? '\n' : (char)('a' + pick(26));
        if (at[i] == '\n')
            model.ends[model.n++] = (struct end){c, model.len[c] + i + 1};
    }
    ck_assert_int_eq(log_store_append(store, "t", c, model.len[c], 1, at, len, &next), 0);
    model.len[c] = next;
}

static void model_starts(unsigned channels, uint64_t lines, uint64_t *start)
{
    uint64_t wanted = lines;
    for (int c = 0; c < LOG_CHANNELS; c++) {
        bool open = model.len[c] && model.text[c][model.len[c] - 1] != '\n';
        wanted -= (channels >> c & 1) && open && wanted > 0;
        start[c] = lines == 0 || !(channels >> c & 1) ? model.len[c] : 0;
    }
    if (lines == 0)
        return;
    size_t i = model.n;
    for (; i > 0 && wanted > 0; i--)
        wanted -= channels >> model.ends[i - 1].c & 1;
    for (size_t k = 0; k < i; k++)
        if (channels >> model.ends[k].c & 1)
            start[model.ends[k].c] = model.ends[k].behind;
}

static void check_tail(unsigned channels, uint64_t lines)
{
    struct log_reader *r;
    struct log_chunk k;
    uint64_t at[LOG_CHANNELS];
    int e;
    model_starts(channels, lines, at);
    ck_assert_int_eq(log_reader_open(store, "t", channels, (int64_t)lines, &r), 0);
    while ((e = log_reader_next(r, &k)) != LOG_NEXT_END) {
        if (e == LOG_NEXT_AGAIN)
            continue;
        ck_assert_int_eq(e, LOG_NEXT_CHUNK);
        ck_assert_uint_eq(k.gap, 0);
        ck_assert_uint_eq(k.offset, at[k.channel]);
        ck_assert_mem_eq(k.data, model.text[k.channel] + k.offset, k.len);
        at[k.channel] += k.len;
    }
    for (int c = 0; c < LOG_CHANNELS; c++)
        ck_assert_uint_eq(at[c], model.len[c]);
    log_reader_close(r);
}

START_TEST(test_tail_of_random_logs)
    {
        for (unsigned seed = 0; seed < 60; seed++) {
            state = seed * 7919 + 1;
            memset(&model, 0, sizeof(model));
            reopen(32 * 1024); // segments of 4 KiB
            log_store_delete(store, "t");
            unsigned line = seed % 3 == 0 ? 9000 : seed % 3 == 1 ? 40 : 700;
            size_t most = 1 + (size_t)pick(3000);
            // Frames count too: nothing may be rotated away.
            for (size_t frames = 0; model.len[OUT] + model.len[ERR] + frames * 32 < 18000; frames++)
                model_put(pick(3) ? OUT : ERR, 1 + pick((unsigned)most), line);
            if (seed % 2)
                reopen(32 * 1024);
            for (int i = 0; i < 30; i++)
                check_tail(1 + pick(3), pick(4) ? pick(12) : pick(600));
        }
    }
END_TEST

// --- following ---

START_TEST(test_follow)
    {
        struct log_reader *r;
        ck_assert_int_eq(log_reader_open(store, "f", ALL, LOG_TAIL_ALL, &r), 0);
        for (int i = 0; i < 300; i++) {
            char line[32], expected[40];
            (void)snprintf(line, sizeof(line), "line %05d\n", i);
            (void)snprintf(expected, sizeof(expected), "o:%s", line);
            put("f", OUT, (uint64_t)i * 11, line);
            cleanup_free char *got = drain(r);
            ck_assert_str_eq(got, expected);
            cleanup_free char *nothing = drain(r);
            ck_assert_str_eq(nothing, "");
        }
        log_reader_close(r);
    }
END_TEST

// The reader stands while what it would have read next is rotated away.
START_TEST(test_rotated_under_a_reader)
    {
        struct log_reader *r;
        struct log_chunk k;
        uint64_t offset = 0, at = 0, lost = 0;
        char line[101];
        int e;
        reopen(32 * 1024);
        memset(line, 'x', 99);
        line[99] = '\n';
        line[100] = '\0';
        for (int i = 0; i < 50; i++)
            offset = put("r", OUT, offset, line);
        ck_assert_int_eq(log_reader_open(store, "r", ALL, LOG_TAIL_ALL, &r), 0);
        ck_assert_int_eq(log_reader_next(r, &k), LOG_NEXT_CHUNK);
        at = k.len;
        for (int i = 0; i < 1000; i++)
            offset = put("r", OUT, offset, line);
        while ((e = log_reader_next(r, &k)) != LOG_NEXT_END) {
            ck_assert_int_ge(e, 0);
            if (e != LOG_NEXT_CHUNK)
                continue;
            ck_assert_uint_eq(k.offset, at);
            at += k.len + k.gap;
            lost += k.gap;
        }
        ck_assert_uint_eq(at, offset);
        ck_assert_uint_gt(lost, 50000);
        log_reader_close(r);
    }
END_TEST

// --- watches ---

struct heard {
    struct log_watch w;
    int changes, ends;
    struct log_watch *removes; // at its first change
};

static void on_change(struct log_watch *w, bool finished)
{
    struct heard *h = w->userdata;
    if (finished)
        h->ends++;
    else
        h->changes++;
    if (h->removes)
        log_watch_remove(store, h->removes);
    h->removes = NULL;
}

static void watch(struct heard *h, const char *attempt)
{
    h->w.changed = on_change;
    h->w.userdata = h;
    ck_assert_int_eq(log_watch_add(store, attempt, &h->w), 0);
}

START_TEST(test_watch)
    {
        struct heard a = {0}, b = {0}, other = {0};
        watch(&a, "w");
        watch(&b, "w");
        watch(&other, "else");
        put("w", OUT, 0, "x");
        put("w", OUT, 0, "x"); // nothing new
        put("w", ERR, 5, "");  // a gap is
        ck_assert_int_eq(a.changes, 2);
        log_watch_remove(store, &b.w);
        ck_assert_int_eq(log_store_finish(store, "w"), 0);
        log_store_delete(store, "w");
        ck_assert_int_eq(a.ends, 2);
        ck_assert_int_eq(b.changes, 2);
        ck_assert_int_eq(b.ends, 0);
        ck_assert_int_eq(other.changes + other.ends, 0);
        put("w", OUT, 0, "again");
        ck_assert_int_eq(a.changes, 3);
        log_watch_remove(store, &a.w);
        log_watch_remove(store, &a.w);
        log_watch_remove(store, &other.w);
    }
END_TEST

START_TEST(test_watch_removed_while_called)
    {
        struct heard a = {0}, b = {0}, c = {0};
        watch(&a, "w");
        watch(&b, "w");
        watch(&c, "w");
        a.removes = &a.w;
        b.removes = &c.w;
        put("w", OUT, 0, "x");
        put("w", OUT, 1, "y");
        ck_assert_int_eq(a.changes, 1);
        ck_assert_int_eq(b.changes, 2);
        ck_assert_int_eq(c.changes, 0);
        b.removes = &b.w;
        ck_assert_int_eq(log_store_finish(store, "w"), 0); // the last one goes within the call
        ck_assert_int_eq(b.ends, 1);
    }
END_TEST

START_TEST(test_watch_before_anything_is_written)
    {
        struct heard a = {0};
        watch(&a, "silent");
        ck_assert_int_eq(log_store_finish(store, "silent"), 0);
        ck_assert_int_eq(a.ends, 1);
        log_watch_remove(store, &a.w);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("reader");
    tcase_add_checked_fixture(t, begin, end);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, test_tail);
    tcase_add_test(t, test_tail_of_unfinished_lines);
    tcase_add_test(t, test_tail_of_mixed_lines);
    tcase_add_test(t, test_tail_counts_gaps);
    tcase_add_test(t, test_tail_of_random_logs);
    tcase_add_test(t, test_follow);
    tcase_add_test(t, test_rotated_under_a_reader);
    tcase_add_test(t, test_watch);
    tcase_add_test(t, test_watch_removed_while_called);
    tcase_add_test(t, test_watch_before_anything_is_written);
    return run_case("log_reader", t);
}
