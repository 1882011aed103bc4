// SPDX-License-Identifier: Apache-2.0
// Daemon helper: notifications arrive at a real socket, signals call back once, the pid file is
// exclusive and removed.
#include "common/daemon.h"
#include "test/unit/suite.h"

#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static char dir[] = "/tmp/meadow-daemon-XXXXXX";
static int notify_fd = -1;

static void setup(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};

    ck_assert_ptr_nonnull(mkdtemp(dir));
    (void)snprintf(address.sun_path, sizeof(address.sun_path), "%s/notify", dir);
    notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(notify_fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(setenv("NOTIFY_SOCKET", address.sun_path, 1), 0);
}

static void teardown(void)
{
    char path[128];

    (void)close(notify_fd);
    (void)snprintf(path, sizeof(path), "%s/notify", dir);
    (void)unlink(path);
    (void)rmdir(dir);
    (void)unsetenv("WATCHDOG_USEC");
}

static void expect_message(const char *part)
{
    char text[512];
    ssize_t n = recv(notify_fd, text, sizeof(text) - 1, 0);

    ck_assert_int_gt(n, 0);
    text[n] = '\0';
    ck_assert_msg(strstr(text, part) != NULL, "%s not in %s", part, text);
}

struct counts {
    int stops;
    int reloads;
    struct daemon *daemon;
    uv_loop_t *loop;
};

static void on_stop(void *userdata)
{
    struct counts *c = userdata;
    c->stops++;
    uv_stop(c->loop);
}

static void on_reload(void *userdata)
{
    struct counts *c = userdata;
    c->reloads++;
    (void)raise(SIGTERM);
    (void)raise(SIGINT);
}

static void keep_cb(uv_timer_t *timer)
{
    (void)timer;
}

static void drain(uv_loop_t *loop)
{
    while (uv_run(loop, UV_RUN_DEFAULT) != 0)
        ;
    ck_assert_int_eq(uv_loop_close(loop), 0);
}

START_TEST(signals_and_notifications)
    {
        uv_loop_t loop;
        struct counts counts = {.loop = &loop};
        struct err e;

        ck_assert_int_eq(setenv("WATCHDOG_USEC", "20000", 1), 0);
        ck_assert_int_eq(uv_loop_init(&loop), 0);
        struct daemon_options o = {
            .loop = &loop, .stop = on_stop, .reload = on_reload, .userdata = &counts};
        ck_assert_msg(daemon_new(&o, &counts.daemon, &e) == 0, "%s", e.text);
        daemon_ready(counts.daemon, "up");
        expect_message("READY=1");
        daemon_status(counts.daemon, "up"); // the same: nothing is sent
        daemon_status(counts.daemon, "two\nlines %d", 1);
        expect_message("STATUS=two lines 1");
        uv_timer_t keep;
        ck_assert_int_eq(uv_timer_init(&loop, &keep), 0);
        ck_assert_int_eq(uv_timer_start(&keep, keep_cb, 10000, 0), 0);
        (void)raise(SIGHUP);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        ck_assert_int_eq(counts.reloads, 1);
        ck_assert_int_eq(counts.stops, 1);
        while (uv_run(&loop, UV_RUN_ONCE) && recv(notify_fd, (char[64]){0}, 64, MSG_DONTWAIT) < 0)
            ; // the watchdog message
        daemon_close(counts.daemon);
        uv_close((uv_handle_t *)&keep, NULL);
        drain(&loop);
        ck_assert_int_eq(counts.stops, 1);
    }
END_TEST

START_TEST(pid_file_is_exclusive)
    {
        uv_loop_t loop;
        struct counts counts = {.loop = &loop};
        struct daemon *second = NULL;
        char path[128];
        char text[32] = "";
        struct err e;

        (void)snprintf(path, sizeof(path), "%s/pid", dir);
        ck_assert_int_eq(uv_loop_init(&loop), 0);
        struct daemon_options o = {
            .loop = &loop, .pid_file = path, .stop = on_stop, .userdata = &counts};
        ck_assert_msg(daemon_new(&o, &counts.daemon, &e) == 0, "%s", e.text);
        FILE *f = fopen(path, "re");
        ck_assert_ptr_nonnull(fgets(text, sizeof(text), f));
        (void)fclose(f);
        ck_assert_int_eq(atoi(text), getpid());
        ck_assert_int_eq(daemon_new(&o, &second, &e), -EWOULDBLOCK);
        daemon_close(counts.daemon);
        drain(&loop);
        ck_assert_int_ne(access(path, F_OK), 0);
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("daemon");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, signals_and_notifications);
    tcase_add_test(tc, pid_file_is_exclusive);
    return run_case("daemon", tc);
}
