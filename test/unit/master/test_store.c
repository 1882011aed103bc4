// SPDX-License-Identifier: Apache-2.0
// The store on a real redis-server: what is acknowledged survives its death, comes back at the next
// start, and streams can be read.
#include "master/store/store.h"

#include "test/unit/master/store_box.h"
#include "test/unit/suite.h"

#include <sched.h>
#include <sys/mount.h>

static struct place p;

static void setup(void)
{
    place_make(&p);
}

static void teardown(void)
{
    place_drop(&p);
}

START_TEST(records_are_there_after_a_restart)
    {
        struct box a = {0}, b = {0};
        char out[200];
        box_open(&a, &p);
        ck_assert_int_eq(store_epoch(a.store), 1);
        ck_assert_int_eq(store_commit_number(a.store), 0);
        struct store_op ops[] = {set_op("task:t/a/0", "{}"),
                                 set_op("job:j1", "{\"a\":1}"),
                                 set_op("job:j2", "{}"),
                                 {.kind = STORE_DEL, .key = strdup("job:j2")},
                                 set_op("idem:k", "{}")};
        ops[4].ttl_ms = 60000;
        apply_wait(&a, ops, 5);
        ck_assert_int_eq(store_commit_number(a.store), 1);
        ask(&p, "PTTL meadow:ctest:idem:k", out, sizeof(out));
        ck_assert_int_gt(atoi(out), 50000);
        box_close(&a);

        box_open(&b, &p);
        ck_assert_int_eq(b.records, 3);
        ck_assert(b.in_order);
        ck_assert_int_eq(store_epoch(b.store), 2);
        ck_assert_int_eq(store_commit_number(b.store), 1);
        box_close(&b);
    }
END_TEST

static int highest;

static void keep_highest(struct box *box, const char *key, const char *json)
{
    int n = atoi(key + 4);
    ck_assert_int_eq(atoi(json + 5), n);
    ck_assert_int_eq(n, box->records - 1); // none is missing
    highest = n;
}

START_TEST(nothing_acknowledged_is_lost_when_redis_is_killed)
    {
        struct box a = {0}, b = {.on_record = keep_highest};
        int sent = 0;
        box_open(&a, &p);
        for (int kills = 0; kills < 10; kills++) {
            int stop = sent + 20 + kills * 7;
            for (; sent < stop; sent++) {
                apply_number(&a, sent);
                if (sent == stop - 10)
                    kill_redis(&a, SIGKILL); // with a batch on its way
                run_until(&p.loop, &a.done, sent + 1);
                ck_assert_int_eq(a.result, 0);
                ck_assert_int_eq(store_commit_number(a.store),
                                 sent + 1); // once each, also those that were sent twice
            }
        }
        ck_assert_int_eq(a.down, 10);
        ck_assert_int_eq(a.up, 10);
        ck_assert_int_eq(a.lost, 0);
        kill_redis(&a, SIGKILL);
        box_close(&a);
        box_open(&b, &p);
        ck_assert_int_eq(highest, sent - 1);
        box_close(&b);
    }
END_TEST

START_TEST(scripts_that_were_flushed_are_loaded_again)
    {
        struct box a = {0};
        char out[200];
        box_open(&a, &p);
        ask(&p, "SCRIPT FLUSH", out, sizeof(out));
        apply_number(&a, 1);
        run_until(&p.loop, &a.done, 1);
        ck_assert_int_eq(a.result, 0);
        ck_assert_int_eq(a.down, 0);
        box_close(&a);
    }
END_TEST

START_TEST(a_stalled_redis_is_reported_and_the_batch_applied_once)
    {
        struct box a = {.timeout_ms = 200};
        const char *reason;
        char out[200];
        box_open(&a, &p);
        kill_redis(&a, SIGSTOP);
        struct store_op op = {.kind = STORE_APPEND,
                              .key = strdup("events"),
                              .json = strdup("{}"),
                              .id = 1,
                              .max_len = 100};
        apply(&a, &op, 1);
        run_until(&p.loop, &a.down, 1);
        ck_assert(!store_ok(a.store, &reason));
        ck_assert_ptr_nonnull(strstr(reason, "no answer"));
        kill_redis(&a, SIGCONT);
        run_until(&p.loop, &a.done,
                  1); // the first copy was in Redis's buffer: one of the two is a repeat
        ck_assert_int_eq(a.result, 0);
        run_until(&p.loop, &a.up, 1);
        ask(&p, "XLEN meadow:ctest:events", out, sizeof(out));
        ck_assert_str_eq(out, "1\n");
        box_close(&a);
    }
END_TEST

#define MANY 10000

START_TEST(ten_thousand_records_go_out_in_pieces_and_come_back)
    {
        struct box a = {0}, b = {.on_record = keep_highest};
        box_open(&a, &p);
        struct store_op *ops = calloc(MANY, sizeof(*ops));
        for (int i = 0; i < MANY; i++) {
            char key[32], json[64];
            (void)snprintf(key, sizeof(key), "job:%08d", i);
            (void)snprintf(json, sizeof(json), "{\"n\":%d}", i);
            ops[i] = set_op(key, json);
        }
        apply_wait(&a, ops, MANY);
        ck_assert_int_eq(a.done, 1);
        ck_assert_int_eq(store_commit_number(a.store), MANY / 1000);
        free(ops);
        box_close(&a);
        box_open(&b, &p);
        ck_assert_int_eq(b.records, MANY);
        ck_assert(b.in_order);
        box_close(&b);
    }
END_TEST

static void kill_once(struct box *box, const char *key, const char *json)
{
    (void)key;
    (void)json;
    if (box->records == 5000)
        kill_redis(box, SIGKILL);
}

START_TEST(redis_dies_while_records_are_loaded)
    {
        struct box a = {0}, b = {.on_record = kill_once};
        box_open(&a, &p);
        struct store_op *ops = calloc(MANY, sizeof(*ops));
        for (int i = 0; i < MANY; i++) {
            char key[32];
            (void)snprintf(key, sizeof(key), "job:%08d", i);
            ops[i] = set_op(key, "{}");
        }
        apply_wait(&a, ops, MANY);
        free(ops);
        box_close(&a);
        box_open(&b, &p);
        ck_assert_int_eq(b.records, MANY); // none twice
        ck_assert(b.in_order);
        ck_assert_int_eq(b.ready, 1);
        ck_assert_int_eq(b.down, 0); // it wasn't up yet
        box_close(&b);
    }
END_TEST

START_TEST(a_value_larger_than_a_batch_goes_alone)
    {
        struct box a = {0}, b = {0};
        box_open(&a, &p);
        size_t len = (size_t)5 << 20;
        char *big = malloc(len + 1);
        memset(big, 'x', len);
        big[len] = '\0';
        struct store_op ops[] = {set_op("a", "{}"),
                                 {.kind = STORE_SET, .key = strdup("b"), .json = big},
                                 set_op("c", "{}")};
        apply_wait(&a, ops, 3);
        ck_assert_int_eq(store_commit_number(a.store), 3);
        box_close(&a);
        box_open(&b, &p);
        ck_assert_int_eq(b.records, 3);
        box_close(&b);
    }
END_TEST

struct page {
    int entries, done, result;
    int64_t last;
};

static void on_entry(int64_t id, const char *json, size_t len, void *userdata)
{
    struct page *page = userdata;
    ck_assert_int_gt(id, page->last);
    ck_assert_uint_eq(strlen(json), len);
    ck_assert_int_eq(atoi(json + 5), (int)id);
    page->last = id;
    page->entries++;
}

static void on_page(int result, void *userdata)
{
    struct page *page = userdata;
    page->done++;
    page->result = result;
}

static void append(struct box *box, int from, int to, int64_t max_len)
{
    struct store_op *ops = calloc((size_t)(to - from + 1), sizeof(*ops));
    for (int i = from; i <= to; i++) {
        char json[64];
        (void)snprintf(json, sizeof(json), "{\"n\":%d}", i);
        ops[i - from] = (struct store_op){.kind = STORE_APPEND,
                                          .key = strdup("events"),
                                          .json = strdup(json),
                                          .id = i,
                                          .max_len = max_len};
    }
    apply_wait(box, ops, (size_t)(to - from + 1));
    free(ops);
}

START_TEST(streams_are_read_in_pages_and_capped)
    {
        struct box a = {0}, b = {0};
        struct page page = {0}, none = {0};
        box_open(&a, &p);
        append(&a, 1, 250, 10000);
        box_close(&a);
        box_open(&b, &p);
        ck_assert_int_eq(b.records, 0); // streams are not loaded
        for (int i = 1; i <= 3; i++) {
            ck_assert_int_eq(
                store_read(b.store, "events", page.last, 100, on_entry, on_page, &page), 0);
            run_until(&p.loop, &page.done, i);
            ck_assert_int_eq(page.entries, i < 3 ? i * 100 : 250);
        }
        ck_assert_int_eq(store_read(b.store, "nothing", 0, 10, on_entry, on_page, &none), 0);
        run_until(&p.loop, &none.done, 1);
        ck_assert_int_eq(none.result, 0);
        ck_assert_int_eq(none.entries, 0);
        append(&b, 251, 2000, 500);
        struct page rest = {0};
        ck_assert_int_eq(store_read(b.store, "events", 0, 5000, on_entry, on_page, &rest), 0);
        run_until(&p.loop, &rest.done, 1);
        ck_assert_int_eq(rest.last, 2000);
        ck_assert_int_lt(rest.entries, 1000); // the cap is approximate
        ck_assert_int_ge(rest.entries, 500);
        box_close(&b);
    }
END_TEST

START_TEST(a_read_survives_the_death_of_redis_and_ends_at_close)
    {
        struct box a = {.timeout_ms = 60000};
        struct page page = {0}, cut = {0};
        box_open(&a, &p);
        append(&a, 1, 10, 1000);
        kill_redis(&a, SIGSTOP);
        ck_assert_int_eq(store_read(a.store, "events", 0, 100, on_entry, on_page, &page), 0);
        kill_redis(&a, SIGKILL);
        run_until(&p.loop, &page.done, 1);
        ck_assert_int_eq(page.result, 0);
        ck_assert_int_eq(page.entries, 10);
        kill_redis(&a, SIGKILL);
        ck_assert_int_eq(store_read(a.store, "events", 0, 100, on_entry, on_page, &cut), 0);
        box_close(&a);
        ck_assert_int_eq(cut.done, 1);
        ck_assert_int_eq(cut.result, -ECANCELED);
    }
END_TEST

// Root alone may make a small file system; others skip this.
static bool mount_small(void)
{
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", p.redis, "tmpfs", 0, "size=1m") == 0;
}

START_TEST(a_full_disk_is_borne_until_there_is_room)
    {
        struct box a = {0}, b = {0};
        if (!mount_small()) {
            return;
        }
        box_open(&a, &p);
        char *big = malloc(100001);
        memset(big, 'x', 100000);
        big[100000] = '\0';
        int sent = 0;
        while (a.down == 0) {
            char key[32];
            (void)snprintf(key, sizeof(key), "job:%08d", sent++);
            const struct store_op op = set_op(key, big);
            apply(&a, &op, 1);
            while (a.done < sent && a.down == 0)
                (void)uv_run(&p.loop, UV_RUN_ONCE);
            ck_assert_int_lt(sent, 20);
        }
        pid_t last = store_server_pid(a.store);
        for (int tries = 0; tries < 4;) { // in vain
            (void)uv_run(&p.loop, UV_RUN_ONCE);
            pid_t pid = store_server_pid(a.store);
            tries += pid && pid != last;
            last = pid ? pid : last;
        }
        ck_assert_int_eq(a.down, 1);
        ck_assert_int_eq(a.up, 0);
        ck_assert_int_eq(a.done, sent - 1);
        ck_assert_int_eq(a.lost, 0);
        ck_assert_int_eq(mount(NULL, p.redis, NULL, MS_REMOUNT, "size=64m"), 0);
        run_until(&p.loop, &a.done, sent);
        ck_assert_int_eq(a.result, 0);
        free(big);
        box_close(&a);
        box_open(&b, &p);
        ck_assert_int_eq(b.records, sent);
        box_close(&b);
        ck_assert_int_eq(umount(p.redis), 0);
    }
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 90);
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_test(all, records_are_there_after_a_restart);
    tcase_add_test(all, nothing_acknowledged_is_lost_when_redis_is_killed);
    tcase_add_test(all, scripts_that_were_flushed_are_loaded_again);
    tcase_add_test(all, a_stalled_redis_is_reported_and_the_batch_applied_once);
    tcase_add_test(all, ten_thousand_records_go_out_in_pieces_and_come_back);
    tcase_add_test(all, redis_dies_while_records_are_loaded);
    tcase_add_test(all, a_value_larger_than_a_batch_goes_alone);
    tcase_add_test(all, streams_are_read_in_pages_and_capped);
    tcase_add_test(all, a_read_survives_the_death_of_redis_and_ends_at_close);
    tcase_add_test(all, a_full_disk_is_borne_until_there_is_room);
    return run_case("store", all);
}
