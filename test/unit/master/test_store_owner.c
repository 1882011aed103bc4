// SPDX-License-Identifier: Apache-2.0
// Who owns the store: one master at a time, on a server that keeps what it acknowledges.
#include "master/store/store.h"

#include "test/unit/master/store_box.h"
#include "test/unit/suite.h"

#include <sys/wait.h>

static struct place p;

static void setup(void)
{
    place_make(&p);
}

static void teardown(void)
{
    place_drop(&p);
}

START_TEST(a_batch_that_was_applied_is_not_applied_again)
    {
        struct box a = {0};
        char out[200];
        box_open(&a, &p);
        apply_number(&a, 1);
        run_until(&p.loop, &a.done, 1);
        // As if the answer to batch 2 had been lost: its number is there already.
        ask(&p, "HSET meadow:ctest:meta commit 2", out, sizeof(out));
        apply_number(&a, 2);
        run_until(&p.loop, &a.done, 2);
        ck_assert_int_eq(a.result, 0);
        ck_assert_int_eq(store_commit_number(a.store), 2);
        ask(&p, "EXISTS meadow:ctest:job:00000002", out, sizeof(out));
        ck_assert_str_eq(out, "0\n");
        box_close(&a);
    }
END_TEST

START_TEST(another_owner_ends_this_one)
    {
        struct box a = {0};
        char out[200];
        box_open(&a, &p);
        ask(&p, "HSET meadow:ctest:meta epoch 9", out, sizeof(out));
        apply_number(&a, 1);
        run_until(&p.loop, &a.lost, 1);
        ck_assert_ptr_nonnull(strstr(a.text, "EPOCH"));
        ck_assert_int_eq(a.done, 0);
        ask(&p, "EXISTS meadow:ctest:job:00000001", out, sizeof(out));
        ck_assert_str_eq(out, "0\n");
        box_close(&a);
        ck_assert_int_eq(a.done, 1);
        ck_assert_int_eq(a.result, -ECANCELED);
        ck_assert_int_eq(a.lost, 1);
    }
END_TEST

START_TEST(another_owner_is_noticed_at_a_reconnect)
    {
        struct box a = {0};
        char out[200];
        box_open(&a, &p);
        ask(&p, "HSET meadow:ctest:meta epoch 9", out, sizeof(out));
        kill_redis(&a, SIGKILL);
        run_until(&p.loop, &a.lost, 1);
        ck_assert_ptr_nonnull(strstr(a.text, "another owner"));
        box_close(&a);
    }
END_TEST

START_TEST(a_store_that_went_back_is_noticed)
    {
        struct box a = {0};
        char out[200];
        box_open(&a, &p);
        for (int i = 0; i < 3; i++) {
            apply_number(&a, i);
            run_until(&p.loop, &a.done, i + 1);
        }
        ask(&p, "HSET meadow:ctest:meta commit 1", out, sizeof(out));
        apply_number(&a, 3);
        run_until(&p.loop, &a.lost, 1);
        ck_assert_ptr_nonnull(strstr(a.text, "GAP"));
        box_close(&a);
    }
END_TEST

START_TEST(a_newer_schema_is_refused)
    {
        struct box a = {0}, b = {0};
        struct err e = {""};
        char out[200];
        box_open(&a, &p);
        ask(&p, "HSET meadow:ctest:meta schema 99", out, sizeof(out));
        box_close(&a);
        ck_assert_int_eq(box_try(&b, &p, &e), 0);
        run_until(&p.loop, &b.ready, 1);
        ck_assert_int_lt(b.error, 0);
        ck_assert_ptr_nonnull(strstr(b.text, "SCHEMA"));
        box_close(&b);
    }
END_TEST

START_TEST(unsafe_settings_hold_the_store_until_they_are_right)
    {
        struct box a = {.timeout_ms = 300};
        const char *reason;
        char out[200];
        box_open(&a, &p);
        ask(&p, "CONFIG SET appendfsync everysec", out, sizeof(out));
        apply_number(&a, 1);
        run_until(&p.loop, &a.down, 1);
        ck_assert(!store_ok(a.store, &reason));
        ck_assert_ptr_nonnull(strstr(reason, "appendfsync everysec, but it must be always"));
        ck_assert_int_eq(a.done, 0);
        ask(&p, "CONFIG SET appendfsync always", out, sizeof(out));
        run_until(&p.loop, &a.done, 1);
        ck_assert_int_eq(a.result, 0);
        run_until(&p.loop, &a.up, 1);
        ck_assert_int_eq(a.lost, 0);
        ck_assert_int_eq(store_commit_number(a.store), 1); // it was written once
        box_close(&a);
    }
END_TEST

// Each refusal of Redis that may pass: nothing is acknowledged, and what waits is applied once it
// is over. Health doesn't flap meanwhile.
START_TEST(a_refusal_that_passes_is_waited_out)
    {
        static const struct {
            const char *begin, *end, *shows;
        } faults[] = {
            {"CONFIG SET maxmemory 1", "CONFIG SET maxmemory 0", "OOM"},
            {"CONFIG SET maxmemory-policy allkeys-lru", "CONFIG SET maxmemory-policy noeviction",
             "allkeys-lru"},
            {"REPLICAOF 127.0.0.1 1", "REPLICAOF NO ONE", "replica"},
            {"CONFIG SET no-appendfsync-on-rewrite yes", "CONFIG SET no-appendfsync-on-rewrite no",
             "no-appendfsync-on-rewrite"},
            {"ACL SETUSER default -evalsha", "ACL SETUSER default +evalsha", "evalsha"},
        };
        struct box a = {0};
        const char *reason;
        char out[200];
        box_open(&a, &p);
        for (int i = 0; i < (int)(sizeof(faults) / sizeof(faults[0])); i++) {
            ask(&p, faults[i].begin, out, sizeof(out));
            ck_assert_str_eq(out, "OK\n");
            apply_number(&a, i);
            run_until(&p.loop, &a.down, i + 1);
            for (int turns = 0; turns < 200; turns++) { // many tries
                (void)uv_run(&p.loop, UV_RUN_ONCE);
                ck_assert(!store_ok(a.store, &reason));
            }
            ck_assert_msg(strstr(reason, faults[i].shows) != NULL, "%s: %s", faults[i].begin,
                          reason);
            ck_assert_int_eq(a.done, i);
            ask(&p, faults[i].end, out, sizeof(out));
            run_until(&p.loop, &a.done, i + 1);
            ck_assert_int_eq(a.result, 0);
            ck_assert_int_eq(a.up, i + 1);
            ck_assert_int_eq(a.down, i + 1);
            ck_assert_int_eq(store_commit_number(a.store), i + 1);
        }
        ck_assert_int_eq(a.lost, 0);
        box_close(&a);
    }
END_TEST

START_TEST(a_dead_owner_leaves_its_redis_and_the_next_waits_it_out)
    {
        struct box a = {0}, b = {0};
        struct err e = {""};
        int fds[2];
        char byte;
        pid_t old = 0;
        ck_assert_int_eq(pipe(fds), 0);
        pid_t owner = fork();
        if (owner == 0) { // a master that will be killed
            (void)uv_loop_fork(&p.loop);
            box_open(&a, &p);
            apply_number(&a, 0);
            run_until(&p.loop, &a.done, 1);
            old = store_server_pid(a.store);
            (void)!write(fds[1], &old, sizeof(old));
            (void)pause();
        }
        (void)close(fds[1]);
        ck_assert_int_eq(read(fds[0], &old, sizeof(old)), sizeof(old));
        ck_assert_int_eq(box_try(&b, &p, &e), -EWOULDBLOCK); // it still owns the folder
        ck_assert_ptr_nonnull(strstr(e.text, "another master"));
        (void)uv_run(&p.loop, UV_RUN_NOWAIT);
        ck_assert_int_eq(kill(owner, SIGKILL), 0);
        ck_assert_int_eq(waitpid(owner, NULL, 0), owner);
        ck_assert_int_eq(read(fds[0], &byte, 1), 0);
        (void)close(fds[0]);
        box_open(&b, &p);
        ck_assert(!process_lives(old));
        ck_assert_int_eq(b.records, 1);
        ck_assert_int_eq(store_epoch(b.store), 2);
        box_close(&b);
    }
END_TEST

START_TEST(closing_at_any_moment_leaves_nothing)
    {
        struct err e = {""};
        for (int turns = 0; turns < 12; turns++) {
            struct box a = {0};
            ck_assert_int_eq(box_try(&a, &p, &e), 0);
            for (int i = 0; i < turns * 3 && !a.ready; i++)
                (void)uv_run(&p.loop, UV_RUN_ONCE);
            box_close(&a);
        }
    }
END_TEST

START_TEST(bad_places_are_refused)
    {
        struct box a = {0};
        struct err e = {""};
        char deep[200];
        (void)snprintf(deep, sizeof(deep), "%s/%0100d", p.dir, 0);
        struct store_options o = {
            .loop = &p.loop, .data_dir = p.data, .run_dir = deep, .cluster_id = "c"};
        ck_assert_int_eq(store_open(&o, &a.store, &e), -ENAMETOOLONG);
        o.run_dir = p.run;
        o.cluster_id = "c*";
        ck_assert_int_eq(store_open(&o, &a.store, &e), -EINVAL);
    }
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 90);
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_test(all, a_batch_that_was_applied_is_not_applied_again);
    tcase_add_test(all, another_owner_ends_this_one);
    tcase_add_test(all, another_owner_is_noticed_at_a_reconnect);
    tcase_add_test(all, a_store_that_went_back_is_noticed);
    tcase_add_test(all, a_newer_schema_is_refused);
    tcase_add_test(all, unsafe_settings_hold_the_store_until_they_are_right);
    tcase_add_test(all, a_refusal_that_passes_is_waited_out);
    tcase_add_test(all, a_dead_owner_leaves_its_redis_and_the_next_waits_it_out);
    tcase_add_test(all, closing_at_any_moment_leaves_nothing);
    tcase_add_test(all, bad_places_are_refused);
    return run_case("store_owner", all);
}
