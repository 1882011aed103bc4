// SPDX-License-Identifier: Apache-2.0
// Listening: socket files that are stale, taken or wrong; addresses; and accepting without
// descriptors.
#include "test/unit/common/http_util.h"
#include "test/unit/common/raw_util.h"

#include <sys/resource.h>
#include <sys/stat.h>

static struct site site;
static struct reply reply;

static int listen_again(struct site *x, const char *path, struct err *e)
{
    return http_server_listen_unix(x->server, path, 0600, (gid_t)-1, e);
}

START_TEST(socket_files)
    {
        struct site *x = &site;
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        struct stat st;
        char path[512], long_path[128];
        struct err e;

        site_start(x, site_defaults);
        ck_assert_int_eq(stat(x->path, &st), 0);
        ck_assert(S_ISSOCK(st.st_mode));
        ck_assert_uint_eq(st.st_mode & 0777, 0600);
        ck_assert_int_eq(listen_again(x, x->path, &e), -EADDRINUSE); // somebody answers: we do
        get(x, x->local, "/", &reply);
        ck_assert_int_eq(reply.status, 200);
        (void)snprintf(path, sizeof(path), "%s/stale", x->dir);
        (void)snprintf(un.sun_path, sizeof(un.sun_path), "%.90s", path);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ck_assert_int_eq(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
        ck_assert_int_eq(listen(fd, 1), 0);
        ck_assert_int_eq(listen_again(x, path, &e), -EADDRINUSE);
        (void)close(fd); // its file stays, and nobody answers
        must(listen_again(x, path, &e), &e);
        (void)snprintf(path, sizeof(path), "%s/file", x->dir);
        must(atomic_file_write(path, "x", 1, 0600, &e), &e);
        ck_assert_int_eq(listen_again(x, path, &e), -EADDRINUSE);
        ck_assert_int_eq(access(path, F_OK), 0);
        memset(long_path, 'x', sizeof(long_path) - 1);
        long_path[0] = '/';
        long_path[100] = '\0';
        ck_assert_int_eq(listen_again(x, long_path, &e), -ENAMETOOLONG);
        (void)snprintf(path, sizeof(path), "%s/none/sock", x->dir);
        ck_assert_int_eq(listen_again(x, path, &e), -ENOENT);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(addresses)
    {
        struct site *x = &site;
        struct err e;
        uint16_t port;

        site_start(x, site_defaults);
        const struct tls_server_options tls = {x->server_id.cert, x->server_id.key, x->ca.cert,
                                               false};
        ck_assert_int_eq(http_server_listen_tls(x->server, "nowhere", 0, &tls, &port, &e), -EINVAL);
        ck_assert_int_eq(http_server_listen_tls(x->server, "127.0.0.1", x->port, &tls, &port, &e),
                         -EADDRINUSE);
        ck_assert_int_eq(http_server_listen_tls(x->server, "203.0.113.1", 0, &tls, &port, &e),
                         -EADDRNOTAVAIL);
        must(http_server_listen_tls(x->server, "0.0.0.0", 0, &tls, &port, &e), &e);
        ck_assert_uint_ne(port, 0);
        ck_assert_uint_ne(port, x->port);
        get(x, x->tls, "/", &reply);
        ck_assert_int_eq(reply.status, 200);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(without_descriptors_it_rests)
    {
        struct site *x = &site;
        struct raw waiting_one, first;
        struct rlimit old, low;

        site_start(x, site_defaults);
        raw_open(x, &first, false);
        raw_send(&first, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        await(x, &first.some);
        raw_open(x, &waiting_one, false);
        raw_send(&waiting_one, "GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
        low = old;
        low.rlim_cur = 3; // whatever is open stays; nothing more can be
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
        run_for(x, 50);
        x->turns = 0;
        run_for(x, 300);
        ck_assert_uint_lt(x->turns, 5);
        ck_assert(!waiting_one.some);
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
        raw_end(x, &first); // its end wakes the listener
        await(x, &waiting_one.some);
        ck_assert_ptr_nonnull(strstr(waiting_one.got.body, " 200 "));
        raw_end(x, &waiting_one);
        site_stop(x);
    }
END_TEST

RUN_SUITE("http_listen", 60, socket_files, addresses, without_descriptors_it_rests)
