// SPDX-License-Identifier: Apache-2.0
// The connection against a server that says what the test wants: loading, stalling, dying, odd
// answers.
#include "master/store/redis_conn.h"
#include "master/store/redis_reply.h"

#include "test/unit/master/store_fixture.h"
#include "test/unit/suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sys/socket.h>

struct fake { // a server that answers each read of a client with the next of its texts
    uv_pipe_t listener;
    uv_pipe_t *client;
    const char *const *script; // "" = say nothing, "!" = hang up; the last one is repeated
    int accepted, reads;
};

struct watch {
    int up, down, failed, refused, replies, unknown, closed;
    char reason[200];
    char last[200];
    int64_t number;
};

static void on_client_closed(uv_handle_t *handle)
{
    free(handle);
}

static void hang_up(struct fake *f)
{
    if (f->client)
        uv_close((uv_handle_t *)f->client, on_client_closed);
    f->client = NULL;
}

static void give_buffer(uv_handle_t *handle, size_t size, uv_buf_t *buf)
{
    static char space[65536];
    (void)handle;
    (void)size;
    *buf = uv_buf_init(space, sizeof(space));
}

static void on_request(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
    struct fake *f = stream->data;
    (void)buf;
    if (n <= 0) {
        hang_up(f);
        return;
    }
    const char *answer = f->script[f->reads];
    if (f->script[f->reads + 1])
        f->reads++;
    if (strcmp(answer, "!") == 0) {
        hang_up(f);
        return;
    }
    uv_buf_t out = uv_buf_init((char *)(uintptr_t)answer, (unsigned)strlen(answer));
    if (out.len > 0)
        ck_assert_int_eq(uv_try_write(stream, &out, 1), (int)out.len);
}

static void on_accept(uv_stream_t *listener, int status)
{
    struct fake *f = listener->data;
    ck_assert_int_eq(status, 0);
    hang_up(f);
    f->client = calloc(1, sizeof(*f->client));
    ck_assert_int_eq(uv_pipe_init(listener->loop, f->client, 0), 0);
    f->client->data = f;
    ck_assert_int_eq(uv_accept(listener, (uv_stream_t *)f->client), 0);
    ck_assert_int_eq(uv_read_start((uv_stream_t *)f->client, give_buffer, on_request), 0);
    f->accepted++;
}

static struct place p;
static struct fake f;
static struct watch w;

static void setup(void)
{
    place_make(&p);
}

static void teardown(void)
{
    hang_up(&f);
    if (f.script)
        uv_close((uv_handle_t *)&f.listener, NULL);
    place_drop(&p);
}

static void fake_start(const char *const *script)
{
    f = (struct fake){.script = script};
    ck_assert_int_eq(uv_pipe_init(&p.loop, &f.listener, 0), 0);
    f.listener.data = &f;
    ck_assert_int_eq(uv_pipe_bind(&f.listener, p.socket), 0);
    ck_assert_int_eq(uv_listen((uv_stream_t *)&f.listener, 8, on_accept), 0);
}

static void on_up(void *userdata)
{
    (void)userdata;
    w.up++;
}

static void on_down(const char *reason, void *userdata)
{
    (void)userdata;
    w.down++;
    (void)snprintf(w.reason, sizeof(w.reason), "%s", reason);
}

static void on_failed(const char *reason, bool refused, void *userdata)
{
    (void)userdata;
    w.failed++;
    w.refused += refused;
    (void)snprintf(w.reason, sizeof(w.reason), "%s", reason);
}

static void on_reply(const struct redisReply *r, void *userdata)
{
    (void)userdata;
    if (!r) {
        w.unknown++;
        return;
    }
    w.replies++;
    (void)snprintf(w.last, sizeof(w.last), "%s", reply_text(r, NULL));
    w.number = -1;
    if (reply_integer(r, &w.number) < 0)
        w.number = -1;
}

static struct redis_conn *conn_to(const struct redis_address *address)
{
    const struct redis_conn_options o = {.loop = &p.loop,
                                         .address = *address,
                                         .timeout_ms = 150,
                                         .up = on_up,
                                         .down = on_down,
                                         .failed = on_failed};
    struct redis_conn *c;
    ck_assert_int_eq(redis_conn_new(&o, &c, NULL), 0);
    return c;
}

// To a server that answers so; it is up.
static struct redis_conn *connected(const char *const *script)
{
    fake_start(script);
    struct redis_conn *c = conn_to(&(const struct redis_address){.path = p.socket});
    redis_conn_start(c);
    run_until(&p.loop, &w.up, 1);
    return c;
}

static int say(struct redis_conn *c)
{
    return redis_conn_call(c, on_reply, NULL, "SAY", "x", (const char *)NULL);
}

static void end(struct redis_conn *c)
{
    redis_conn_close(c, count, &w.closed);
    run_until(&p.loop, &w.closed, 1);
}

START_TEST(up_only_when_the_server_has_loaded)
    {
        static const char *const script[] = {"-LOADING Redis is loading\r\n",
                                             "-LOADING Redis is loading\r\n",
                                             "+PONG\r\n",
                                             ":42\r\n",
                                             "$2\r\n17\r\n",
                                             "-ERR no\r\n",
                                             NULL};
        fake_start(script);
        struct redis_conn *c = conn_to(&(const struct redis_address){.path = p.socket});
        ck_assert_int_eq(say(c), -ENOTCONN);
        redis_conn_start(c);
        redis_conn_start(c);
        run_until(&p.loop, &w.up, 1);
        ck_assert_int_eq(f.accepted, 1);
        for (int i = 1; i <= 3; i++) {
            ck_assert_int_eq(say(c), 0);
            run_until(&p.loop, &w.replies, i);
            ck_assert_int_eq(w.number, i == 1 ? 42 : i == 2 ? 17 : -1);
        }
        ck_assert_str_eq(w.last, "ERR no");
        end(c);
        ck_assert_int_eq(w.down, 0); // closing is no event
    }
END_TEST

START_TEST(waits_for_a_server_to_appear)
    {
        static const char *const script[] = {"+PONG\r\n", NULL};
        struct redis_conn *c = conn_to(&(const struct redis_address){.path = p.socket});
        redis_conn_start(c);
        for (int i = 0; i < 4; i++)
            (void)uv_run(&p.loop, UV_RUN_ONCE);
        ck_assert_int_eq(w.up, 0);
        ck_assert_ptr_nonnull(strstr(redis_conn_reason(c), "No such file"));
        fake_start(script);
        run_until(&p.loop, &w.up, 1);
        end(c);
    }
END_TEST

START_TEST(a_stall_ends_the_connection_and_every_command)
    {
        static const char *const script[] = {"+PONG\r\n", "", NULL};
        static const char *const again[] = {"+PONG\r\n", NULL};
        struct redis_conn *c = connected(script);
        for (int i = 0; i < 5; i++)
            ck_assert_int_eq(say(c), 0);
        run_until(&p.loop, &w.down, 1);
        ck_assert_int_eq(w.unknown, 5);
        ck_assert_ptr_nonnull(strstr(w.reason, "150 ms"));
        ck_assert(!redis_conn_is_up(c));
        f.script = again;
        f.reads = 0;
        run_until(&p.loop, &w.up, 2);
        ck_assert_int_eq(say(c), 0);
        run_until(&p.loop, &w.replies, 1);
        end(c);
    }
END_TEST

START_TEST(a_hang_up_ends_every_command)
    {
        static const char *const script[] = {"+PONG\r\n", "!", NULL};
        struct redis_conn *c = connected(script);
        ck_assert_int_eq(say(c), 0);
        ck_assert_int_eq(say(c), 0);
        run_until(&p.loop, &w.down, 1);
        ck_assert_int_eq(w.unknown, 2);
        redis_conn_stop(c);
        ck_assert_int_eq(w.down, 1); // it was down already
        end(c);
    }
END_TEST

// Drops the connection from inside a reply, with others pending.
static void on_drop(const struct redisReply *r, void *userdata)
{
    struct redis_conn *c = userdata;
    if (r)
        redis_conn_drop(c, "enough");
}

START_TEST(dropped_from_inside_a_reply)
    {
        static const char *const script[] = {"+PONG\r\n", "+A\r\n+B\r\n+C\r\n", NULL};
        struct redis_conn *c = connected(script);
        ck_assert_int_eq(redis_conn_call(c, on_drop, c, "X", (const char *)NULL), 0);
        ck_assert_int_eq(say(c), 0);
        ck_assert_int_eq(say(c), 0);
        run_until(&p.loop, &w.down, 1);
        ck_assert_int_eq(w.unknown, 2);
        ck_assert_int_eq(w.replies, 0);
        ck_assert_str_eq(w.reason, "enough");
        redis_conn_stop(c);
        end(c);
    }
END_TEST

START_TEST(closed_with_commands_pending)
    {
        static const char *const script[] = {"+PONG\r\n", "", NULL};
        struct redis_conn *c = connected(script);
        ck_assert_int_eq(say(c), 0);
        end(c);
        ck_assert_int_eq(w.unknown, 1);
        ck_assert_int_eq(w.down, 0);
    }
END_TEST

START_TEST(a_wrong_password_is_told_as_a_refusal)
    {
        static const char *const script[] = {"-WRONGPASS invalid\r\n", NULL};
        static const char *const again[] = {"+OK\r\n+OK\r\n+PONG\r\n", NULL};
        fake_start(script);
        char password[] = "pw";
        struct redis_address a = {.path = p.socket, .password = password, .database = "2"};
        struct redis_conn *c = conn_to(&a);
        redis_conn_start(c);
        run_until(&p.loop, &w.failed, 2);
        ck_assert_int_eq(w.refused, w.failed);
        ck_assert_str_eq(w.reason, "WRONGPASS invalid");
        ck_assert_int_eq(w.up, 0);
        f.script = again;
        run_until(&p.loop, &w.up, 1);
        ck_assert_int_eq(w.down, 0);
        end(c);
    }
END_TEST

// A listener that accepts nothing, with its queue full: to the next one it is a peer that is gone.
static uint16_t full_listener(int fds[3])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof(a);
    for (int i = 0; i < 3; i++)
        fds[i] = socket(AF_INET, SOCK_STREAM | (i ? SOCK_NONBLOCK : 0), 0);
    ck_assert_int_eq(bind(fds[0], (struct sockaddr *)&a, len), 0);
    ck_assert_int_eq(listen(fds[0], 0), 0);
    ck_assert_int_eq(getsockname(fds[0], (struct sockaddr *)&a, &len), 0);
    for (int i = 1; i < 3; i++)
        (void)!connect(fds[i], (struct sockaddr *)&a, len);
    return ntohs(a.sin_port);
}

START_TEST(connecting_has_a_bound_and_can_be_cut_short)
    {
        int fds[3];
        char host[] = "127.0.0.1";
        struct redis_address a = {.host = host, .port = full_listener(fds)};
        struct redis_conn *c = conn_to(&a);
        redis_conn_start(c);
        run_until(&p.loop, &w.failed, 2);
        ck_assert_str_eq(w.reason, "no connection within 150 ms");
        ck_assert_int_eq(w.refused, 0);
        for (int i = 0; i < 3; i++)
            (void)close(fds[i]);
        redis_conn_stop(c);
        redis_conn_start(c); // nobody listens any more
        int before = w.failed;
        run_until(&p.loop, &w.failed, before + 1);
        ck_assert_str_eq(w.reason, "Connection refused");
        redis_conn_stop(c);
        redis_conn_start(c); // while the name is looked up
        end(c);
        ck_assert_int_eq(w.up, 0);
    }
END_TEST

START_TEST(a_path_that_is_too_long)
    {
        char path[200];
        struct redis_conn *c;
        struct err e = {""};
        memset(path, 'x', sizeof(path) - 1);
        path[sizeof(path) - 1] = '\0';
        const struct redis_conn_options o = {
            .loop = uv_default_loop(), .address = {.path = path}, .up = on_up, .down = on_down};
        ck_assert_int_eq(redis_conn_new(&o, &c, &e), -ENAMETOOLONG);
    }
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 30);
    tcase_add_checked_fixture(all, setup, teardown);
    tcase_add_test(all, up_only_when_the_server_has_loaded);
    tcase_add_test(all, waits_for_a_server_to_appear);
    tcase_add_test(all, a_stall_ends_the_connection_and_every_command);
    tcase_add_test(all, a_hang_up_ends_every_command);
    tcase_add_test(all, dropped_from_inside_a_reply);
    tcase_add_test(all, closed_with_commands_pending);
    tcase_add_test(all, a_wrong_password_is_told_as_a_refusal);
    tcase_add_test(all, connecting_has_a_bound_and_can_be_cut_short);
    tcase_add_test(all, a_path_that_is_too_long);
    return run_case("redis_conn", all);
}
