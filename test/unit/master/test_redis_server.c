// SPDX-License-Identifier: Apache-2.0
// Supervision of a real redis-server: start, restart, old servers, damage, and nothing left behind.
#include "master/store/redis_old.h"
#include "master/store/redis_server.h"

#include "test/unit/master/store_fixture.h"
#include "test/unit/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

struct watch {
    struct place *place;
    struct redis_server *server;
    int started, ended, failed, closed;
    int error;
    pid_t pid_when_ended;
    char text[600];
    bool close_when_failed;
};

static void on_started(void *userdata)
{
    ((struct watch *)userdata)->started++;
}

static void on_ended(const char *reason, void *userdata)
{
    struct watch *w = userdata;
    w->ended++;
    w->pid_when_ended = redis_server_pid(w->server);
    (void)snprintf(w->text, sizeof(w->text), "%s", reason);
}

static void on_failed(int error, const struct err *e, void *userdata)
{
    struct watch *w = userdata;
    w->failed++;
    w->error = error;
    (void)snprintf(w->text, sizeof(w->text), "%s", e->text);
    if (w->close_when_failed)
        redis_server_close(w->server, count, &w->closed);
}

static int watch_try(struct watch *w, struct place *p, const char *program, struct err *e)
{
    const struct redis_server_options o = {.loop = &p->loop,
                                           .dir = p->redis,
                                           .socket = p->socket,
                                           .log_path = p->log,
                                           .pid_path = p->pid,
                                           .program = program,
                                           .patience_ms = 1000,
                                           .started = on_started,
                                           .ended = on_ended,
                                           .failed = on_failed,
                                           .userdata = w};
    w->place = p;
    return redis_server_new(&o, &w->server, e);
}

static void watch_open(struct watch *w, struct place *p)
{
    struct err e = {""};
    ck_assert_msg(watch_try(w, p, NULL, &e) == 0, "%s", e.text);
}

static void watch_close(struct watch *w)
{
    pid_t pid = redis_server_pid(w->server);
    redis_server_close(w->server, count, &w->closed);
    run_until(&w->place->loop, &w->closed, 1);
    ck_assert(pid == 0 || !process_lives(pid));
}

static struct place p;

static void setup(void)
{
    place_make(&p);
}

static void teardown(void)
{
    place_drop(&p);
}

START_TEST(restarts_after_a_kill)
    {
        struct watch w = {0};
        char *text;
        size_t len;
        watch_open(&w, &p);
        for (int i = 1; i <= 3; i++) {
            run_until(&p.loop, &w.started, i);
            pid_t pid = redis_server_pid(w.server);
            ck_assert_int_eq(atomic_file_read(p.pid, 100, &text, &len, NULL), 0);
            ck_assert_int_eq(atoi(text), pid);
            free(text);
            w.pid_when_ended = pid;
            ck_assert_int_eq(kill(pid, SIGKILL), 0);
            run_until(&p.loop, &w.ended, i);
            ck_assert_ptr_nonnull(strstr(w.text, "signal 9"));
            ck_assert_int_eq(w.pid_when_ended, 0);
        }
        run_until(&p.loop, &w.started, 4);
        watch_close(&w);
        ck_assert_int_ne(access(p.pid, F_OK), 0);
        ck_assert_int_eq(w.failed, 0);
    }
END_TEST

START_TEST(one_owner_per_folder)
    {
        struct watch a = {0}, b = {0};
        struct err e = {""};
        watch_open(&a, &p);
        ck_assert_int_eq(watch_try(&b, &p, NULL, &e), -EWOULDBLOCK);
        ck_assert_ptr_nonnull(strstr(e.text, "another master"));
        watch_close(&a);
        watch_open(&b, &p);
        run_until(&p.loop, &b.started, 1);
        watch_close(&b);
    }
END_TEST

// A redis-server that somebody started by hand on our folder and socket, without our lock.
static pid_t start_by_hand(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        (void)dup2(null, STDOUT_FILENO);
        (void)execlp("redis-server", "redis-server", "--port", "0", "--unixsocket", p.socket,
                     "--dir", p.redis, "--appendonly", "yes", "--hz", "1", "--save", "",
                     (char *)NULL);
        _exit(127);
    }
    ck_assert_int_gt(pid, 0);
    return pid;
}

static bool can_connect(const char *path)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
    int r = connect(fd, (struct sockaddr *)&a, sizeof(a));
    (void)close(fd);
    return r == 0;
}

static void on_look(uv_timer_t *timer)
{
    struct watch *w = timer->data;
    w->started = can_connect(w->place->socket);
}

// Bounded by run_until; the server tells nobody else when its socket is there.
static void wait_for_socket(void)
{
    struct watch w = {.place = &p};
    uv_timer_t timer;
    (void)uv_timer_init(&p.loop, &timer);
    timer.data = &w;
    (void)uv_timer_start(&timer, on_look, 0, 5);
    run_until(&p.loop, &w.started, 1);
    uv_close((uv_handle_t *)&timer, NULL);
    (void)uv_run(&p.loop, UV_RUN_NOWAIT);
}

START_TEST(an_old_server_on_the_socket_is_waited_out)
    {
        struct watch w = {0};
        pid_t old = start_by_hand();
        wait_for_socket();
        watch_open(&w, &p);
        run_until(&p.loop, &w.started, 1);
        ck_assert(!process_lives(old)); // gone before ours was started
        ck_assert_int_ne(redis_server_pid(w.server), old);
        watch_close(&w);
    }
END_TEST

START_TEST(an_old_server_that_is_stuck_is_killed)
    {
        struct watch w = {0};
        pid_t old = start_by_hand();
        wait_for_socket();
        ck_assert_int_eq(kill(old, SIGSTOP), 0);
        watch_open(&w, &p);
        run_until(&p.loop, &w.started, 1);
        ck_assert(!process_lives(old));
        watch_close(&w);
    }
END_TEST

// Holds the lock as an old server does before it has a socket.
static pid_t hold_lock(const char *dir)
{
    int ready[2];
    char byte;
    char path[200];
    (void)snprintf(path, sizeof(path), "%s/server.lock", p.redis);
    ck_assert_int_eq(pipe(ready), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        (void)signal(SIGTERM, SIG_DFL); // Check has a handler of its own
        (void)!chdir(dir);
        if (flock(fd, LOCK_EX) == 0)
            redis_old_note(fd, getpid());
        (void)!write(ready[1], "x", 1);
        for (;;)
            (void)pause();
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    (void)close(ready[0]);
    (void)close(ready[1]);
    return pid;
}

START_TEST(an_old_server_without_a_socket_is_found_by_its_lock)
    {
        struct watch w = {0};
        pid_t old = hold_lock(p.redis);
        watch_open(&w, &p);
        run_until(&p.loop, &w.started, 1);
        ck_assert(!process_lives(old));
        watch_close(&w);
    }
END_TEST

START_TEST(who_is_not_ours_is_left_alone)
    {
        struct watch w = {.close_when_failed = true}, v = {.close_when_failed = true};
        pid_t stranger = hold_lock("/");
        watch_open(&w, &p);
        run_until(&p.loop, &w.closed, 1);
        ck_assert_int_eq(w.error, -EBUSY);
        ck_assert_int_eq(w.started, 0);
        ck_assert(process_lives(stranger));
        ck_assert_int_eq(kill(stranger, SIGKILL), 0);
        ck_assert_int_eq(waitpid(stranger, NULL, 0), stranger);

        struct sockaddr_un a = {.sun_family = AF_UNIX};
        (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", p.socket);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
        ck_assert_int_eq(listen(fd, 8), 0);
        watch_open(&v, &p);
        run_until(&p.loop, &v.closed, 1);
        ck_assert_int_eq(v.error, -EADDRINUSE);
        (void)close(fd);
    }
END_TEST

START_TEST(closing_while_an_old_server_is_waited_for)
    {
        struct watch w = {0};
        pid_t old = start_by_hand();
        wait_for_socket();
        ck_assert_int_eq(kill(old, SIGSTOP), 0);
        watch_open(&w, &p);
        for (int i = 0; i < 3; i++)
            (void)uv_run(&p.loop, UV_RUN_NOWAIT);
        watch_close(&w);
        ck_assert_int_eq(w.started, 0);
        ck_assert_int_eq(kill(old, SIGKILL), 0);
        ck_assert_int_eq(waitpid(old, NULL, 0), old);
    }
END_TEST

START_TEST(a_damaged_file_is_named_with_what_to_do)
    {
        struct watch w = {.close_when_failed = true};
        char path[200];
        static const char manifest[] = "file appendonly.aof.1.incr.aof seq 1 type i\n";
        static const char damage[] = "*3\r\n$3\r\nSET\r\nthis is no command\r\n$1\r\nx\r\n*1\r\n";
        (void)snprintf(path, sizeof(path), "%s/appendonlydir", p.redis);
        ck_assert_int_eq(make_dirs(path, 0700, NULL), 0);
        (void)snprintf(path, sizeof(path), "%s/appendonlydir/appendonly.aof.manifest", p.redis);
        ck_assert_int_eq(atomic_file_write(path, manifest, strlen(manifest), 0600, NULL), 0);
        (void)snprintf(path, sizeof(path), "%s/appendonlydir/appendonly.aof.1.incr.aof", p.redis);
        ck_assert_int_eq(atomic_file_write(path, damage, strlen(damage), 0600, NULL), 0);
        watch_open(&w, &p);
        run_until(&p.loop, &w.closed, 1);
        ck_assert_int_eq(w.error, -EIO);
        ck_assert_int_eq(w.ended, 3);
        ck_assert_ptr_nonnull(strstr(w.text, "redis-check-aof"));
        ck_assert_ptr_nonnull(strstr(w.text, "appendonly.aof.1.incr.aof"));
        ck_assert_ptr_nonnull(strstr(w.text, p.redis));
    }
END_TEST

START_TEST(a_program_that_is_not_there)
    {
        struct watch w = {.close_when_failed = true};
        struct err e = {""};
        ck_assert_int_eq(watch_try(&w, &p, "/nowhere/redis-server", &e), 0);
        run_until(&p.loop, &w.closed, 1);
        ck_assert_int_eq(w.error, -ENOENT);
        ck_assert_ptr_nonnull(strstr(w.text, "/nowhere/redis-server"));
    }
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_test(all, restarts_after_a_kill);
    tcase_add_test(all, one_owner_per_folder);
    tcase_add_test(all, an_old_server_on_the_socket_is_waited_out);
    tcase_add_test(all, an_old_server_that_is_stuck_is_killed);
    tcase_add_test(all, an_old_server_without_a_socket_is_found_by_its_lock);
    tcase_add_test(all, who_is_not_ours_is_left_alone);
    tcase_add_test(all, closing_while_an_old_server_is_waited_for);
    tcase_add_test(all, a_damaged_file_is_named_with_what_to_do);
    tcase_add_test(all, a_program_that_is_not_there);
    return run_case("redis_server", all);
}
