// SPDX-License-Identifier: Apache-2.0
// The shipper against a scripted master: live bytes, offsets, gaps, resumption, the bound, and a
// master that comes and goes.
#include "node-agent/log_ship.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/strbuf.h"
#include "test/unit/suite.h"

#include <check.h>
#include <endian.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

// --- the master's side ---------------------------------------------------------------------------

struct answer { // given from a timer, as an answer never comes from inside the send
    uv_timer_t timer;
    struct log_stream_ship *call;
    int status;
    uint64_t next;
};

static uv_loop_t loop;
static struct log_ship *ship;
static struct attempt_dirs dirs;
static char top[] = "/tmp/meadow-ship-XXXXXX";
static struct strbuf got[LOG_STREAMS]; // bytes in order
static uint64_t master_next[LOG_STREAMS];
static uint64_t last_time;
static unsigned gaps, posts, under_way, most_under_way;
static int fail_with; // status instead of 200
static enum logs_state settled_state;
static unsigned settled_count;
static size_t want_bytes; // stop the loop when stdout has so many
static bool stop_when_settled;

static void take(const struct log_post *post)
{
    const char *at = post->body;
    const char *end = at + post->len;
    uint64_t offset = post->offset;

    if (post->len && offset > master_next[post->stream])
        gaps++;
    while (at < end) {
        uint64_t time_ms;
        uint32_t len;
        memcpy(&time_ms, at, 8);
        memcpy(&len, at + 8, 4);
        last_time = le64toh(time_ms);
        len = le32toh(len);
        at += 12;
        ck_assert_uint_gt(len, 0);
        ck_assert(len <= (size_t)(end - at));
        if (offset >= master_next[post->stream])
            strbuf_append(&got[post->stream], at, len);
        at += len;
        offset += len;
    }
    if (offset > master_next[post->stream])
        master_next[post->stream] = offset;
}

static void free_answer(uv_handle_t *handle)
{
    free(handle->data);
}

static void answer_cb(uv_timer_t *timer)
{
    struct answer *a = timer->data;
    struct log_stream_ship *call = a->call;
    int status = a->status;
    uint64_t next = a->next;

    uv_close((uv_handle_t *)timer, free_answer);
    under_way--;
    log_ship_sent(call, status < 0 ? status : 0, status, next);
    if (want_bytes && got[LOG_STDOUT].len >= want_bytes)
        uv_stop(&loop);
}

static int send_post(const struct log_post *post, struct log_stream_ship *call, void *userdata)
{
    struct answer *a = calloc(1, sizeof(*a));

    (void)userdata;
    ck_assert_ptr_nonnull(a);
    posts++;
    if (++under_way > most_under_way)
        most_under_way = under_way;
    a->call = call;
    a->status = fail_with ? fail_with : 200;
    if (!fail_with)
        take(post);
    a->next = master_next[post->stream];
    (void)uv_timer_init(&loop, &a->timer);
    a->timer.data = a;
    (void)uv_timer_start(&a->timer, answer_cb, 0, 0);
    return 0;
}

static void settled(const char *id, enum logs_state state, void *userdata)
{
    (void)id;
    (void)userdata;
    settled_state = state;
    settled_count++;
    if (stop_when_settled)
        uv_stop(&loop);
}

// --- harness -------------------------------------------------------------------------------------

static void bound_cb(uv_timer_t *timer)
{
    (void)timer;
    ck_abort_msg("the event did not come");
}

static void run_until(size_t bytes, bool settle)
{
    uv_timer_t bound;

    want_bytes = bytes;
    stop_when_settled = settle;
    (void)uv_timer_init(&loop, &bound);
    (void)uv_timer_start(&bound, bound_cb, 20000, 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&bound, NULL);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
    want_bytes = 0;
    stop_when_settled = false;
}

static void start(unsigned bound_ms)
{
    struct err e;
    struct log_ship_options o = {
        .loop = &loop, .dirs = dirs, .send = send_post, .settled = settled, .bound_ms = bound_ms};
    ck_assert_msg(log_ship_new(&o, &ship, &e) == 0, "%s", e.text);
}

static void setup(void)
{
    char path[ATTEMPT_PATH_BYTES];
    struct err e;

    ck_assert_ptr_nonnull(mkdtemp(top));
    (void)snprintf(dirs.state, sizeof(dirs.state), "%s", top);
    (void)snprintf(dirs.run, sizeof(dirs.run), "%s", top);
    attempt_path(&dirs, "a1", "out", path);
    ck_assert_int_eq(make_dirs(path, 0700, &e), 0);
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    start(0);
}

static void stop(void)
{
    log_ship_close(ship, NULL, NULL);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0)
        ;
}

static void teardown(void)
{
    struct err e;
    stop();
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    ck_assert_int_eq(remove_tree(top, &e), 0);
    for (int i = 0; i < LOG_STREAMS; i++)
        strbuf_reset(&got[i]);
}

static void append(const char *leaf, const void *data, size_t len)
{
    char name[64];
    char path[ATTEMPT_PATH_BYTES];

    (void)snprintf(name, sizeof(name), "out/%s", leaf);
    attempt_path(&dirs, "a1", name, path);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, data, len), (ssize_t)len);
    (void)close(fd);
}

static void append_time(const char *leaf, uint64_t offset, uint64_t ms)
{
    uint64_t record[2] = {htole64(offset), htole64(ms)};
    append(leaf, record, sizeof(record));
}

#define FIRST "stdout.00000000000000000000"

// --- tests ---------------------------------------------------------------------------------------

START_TEST(ships_as_it_appears)
    {
        log_ship_online(ship, true);
        log_ship_open(ship, "a1", false);
        append_time("stdout.times", 0, 1111);
        append(FIRST, "hello\n", 6);
        run_until(6, false);
        ck_assert_str_eq(got[LOG_STDOUT].data, "hello\n");
        ck_assert_uint_eq(last_time, 1111);
        append_time("stdout.times", 6, 2222);
        append(FIRST, "w\0rld", 5);
        run_until(11, false);
        ck_assert_mem_eq(got[LOG_STDOUT].data + 6, "w\0rld", 5);
        ck_assert_uint_eq(last_time, 2222);
        append("stderr.00000000000000000000", "bad", 3);
        log_ship_end(ship, "a1");
        run_until(0, true);
        ck_assert_str_eq(got[LOG_STDERR].data, "bad");
        ck_assert_int_eq(settled_state, LOGS_COMPLETE);
        ck_assert_uint_eq(settled_count, 1);
        log_ship_forget(ship, "a1");
    }
END_TEST

START_TEST(several_segments_and_much_data)
    {
        size_t size = 3u << 20;
        char *data = malloc(size);
        ck_assert_ptr_nonnull(data);
        for (size_t i = 0; i < size; i++)
            data[i] = (char)(i * 7 + i / 251);
        append(FIRST, data, 1000000);
        append("stdout.00000000000001000000", data + 1000000, size - 1000000);
        for (uint64_t i = 0; i < 1000; i++)
            append_time("stdout.times", i * 3000, 5000 + i);
        log_ship_open(ship, "a1", false);
        log_ship_end(ship, "a1");
        log_ship_online(ship, true);
        run_until(0, true);
        ck_assert_uint_eq(got[LOG_STDOUT].len, size);
        ck_assert_mem_eq(got[LOG_STDOUT].data, data, size);
        ck_assert_uint_eq(last_time, 5999);
        ck_assert_uint_eq(gaps, 0);
        ck_assert_uint_le(most_under_way, LOG_POSTS_MAX);
        free(data);
    }
END_TEST

START_TEST(resumes_where_the_master_is)
    {
        append(FIRST, "0123456789", 10);
        master_next[LOG_STDOUT] = 7;
        log_ship_open(ship, "a1", true);
        log_ship_end(ship, "a1");
        log_ship_online(ship, true);
        run_until(0, true);
        ck_assert_str_eq(got[LOG_STDOUT].data, "789");
        ck_assert_int_eq(settled_state, LOGS_COMPLETE);
    }
END_TEST

START_TEST(rotated_away_is_a_gap)
    {
        append("stdout.00000000000000000500", "tail", 4);
        log_ship_online(ship, true);
        log_ship_open(ship, "a1", false);
        run_until(4, false);
        ck_assert_uint_eq(gaps, 1);
        ck_assert_uint_eq(master_next[LOG_STDOUT], 504);
    }
END_TEST

START_TEST(no_logs_at_all_is_complete)
    {
        log_ship_online(ship, true);
        log_ship_open(ship, "a1", false);
        log_ship_end(ship, "a1");
        ck_assert_uint_eq(settled_count, 1);
        ck_assert_int_eq(settled_state, LOGS_COMPLETE);
        ck_assert_uint_eq(posts, 0);
    }
END_TEST

START_TEST(late_is_incomplete_then_complete)
    {
        stop();
        start(50);
        append(FIRST, "x", 1);
        log_ship_open(ship, "a1", false); // the master does not answer
        log_ship_end(ship, "a1");
        run_until(0, true);
        ck_assert_int_eq(settled_state, LOGS_INCOMPLETE);
        log_ship_online(ship, true);
        run_until(0, true);
        ck_assert_int_eq(settled_state, LOGS_COMPLETE);
        ck_assert_str_eq(got[LOG_STDOUT].data, "x");
    }
END_TEST

START_TEST(failed_posts_are_tried_again)
    {
        append(FIRST, "x", 1);
        log_ship_online(ship, true);
        fail_with = 503;
        log_ship_open(ship, "a1", false);
        (void)uv_run(&loop, UV_RUN_ONCE);
        ck_assert_uint_ge(posts, 1);
        fail_with = 0;
        run_until(1, false);
        ck_assert_str_eq(got[LOG_STDOUT].data, "x");
    }
END_TEST

START_TEST(unwanted_logs_end_incomplete)
    {
        append(FIRST, "x", 1);
        log_ship_online(ship, true);
        fail_with = 404;
        log_ship_open(ship, "a1", false);
        log_ship_end(ship, "a1");
        run_until(0, true);
        ck_assert_int_eq(settled_state, LOGS_INCOMPLETE);
        fail_with = 0;
    }
END_TEST

START_TEST(forgetting_with_a_post_under_way)
    {
        append(FIRST, "x", 1);
        log_ship_online(ship, true);
        log_ship_open(ship, "a1", false);
        ck_assert_uint_eq(under_way, 1);
        log_ship_forget(ship, "a1");
        (void)uv_run(&loop, UV_RUN_ONCE);
        ck_assert_uint_eq(under_way, 0);
        ck_assert_uint_eq(settled_count, 0);
    }
END_TEST

START_TEST(a_pipe_in_place_of_a_log_harms_nobody)
    {
        char path[ATTEMPT_PATH_BYTES];
        attempt_path(&dirs, "a1", "out/" FIRST, path);
        ck_assert_int_eq(mkfifo(path, 0600), 0);
        attempt_path(&dirs, "a1", "out/stdout.99999999999999999999", path);
        ck_assert_int_eq(symlink("/etc/passwd", path), 0);
        log_ship_online(ship, true);
        log_ship_open(ship, "a1", false);
        log_ship_end(ship, "a1");
        ck_assert_uint_eq(settled_count, 1);
        ck_assert_uint_eq(posts, 0);
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("log_ship");
    tcase_set_timeout(tc, 30);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, ships_as_it_appears);
    tcase_add_test(tc, several_segments_and_much_data);
    tcase_add_test(tc, resumes_where_the_master_is);
    tcase_add_test(tc, rotated_away_is_a_gap);
    tcase_add_test(tc, no_logs_at_all_is_complete);
    tcase_add_test(tc, late_is_incomplete_then_complete);
    tcase_add_test(tc, failed_posts_are_tried_again);
    tcase_add_test(tc, unwanted_logs_end_incomplete);
    tcase_add_test(tc, forgetting_with_a_post_under_way);
    tcase_add_test(tc, a_pipe_in_place_of_a_log_harms_nobody);
    return run_case("log_ship", tc);
}
