// SPDX-License-Identifier: Apache-2.0
// Requests to the master, against a peer on a unix socket that follows a script: it answers,
// streams, or hangs up.
#include "cli/api.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define STEPS_MAX 4
#define HANG_UP NULL

static char folder[64], path[100];
static const char *script[STEPS_MAX]; // per connection: the answer, or HANG_UP
static size_t steps;
static char seen[STEPS_MAX][4096]; // per connection: the request
static int listener = -1;
static pthread_t peer;
static struct err e;

// The whole request: to the blank line, and as many bytes as it announces.
static void read_request(int fd, char *out, size_t size)
{
    size_t n = 0;
    for (;;) {
        ssize_t r = read(fd, out + n, size - 1 - n);
        if (r <= 0)
            return;
        n += (size_t)r;
        out[n] = '\0';
        const char *body = strstr(out, "\r\n\r\n");
        const char *length = strcasestr(out, "content-length:");
        if (body && n >= (size_t)(body + 4 - out) + (length ? strtoul(length + 15, NULL, 10) : 0))
            return;
    }
}

static void *serve(void *unused)
{
    (void)unused;
    for (size_t i = 0; i < steps; i++) {
        int fd = accept(listener, NULL, NULL);
        read_request(fd, seen[i], sizeof(seen[i]));
        if (script[i]) {
            ck_assert_int_eq(write(fd, script[i], strlen(script[i])), (ssize_t)strlen(script[i]));
            if (strstr(script[i], "chunked")) // stays open: the client goes first
                read_request(fd, (char[64]){0}, 64);
        }
        (void)close(fd);
    }
    return NULL;
}

static struct api *begin(const char *first, const char *second, size_t n)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct api *api = NULL;

    (void)strcpy(folder, "/tmp/mw-api-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    (void)snprintf(path, sizeof(path), "%s/s", folder);
    (void)strcpy(a.sun_path, path);
    listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
    ck_assert_int_eq(listen(listener, 5), 0);
    script[0] = first;
    script[1] = second;
    steps = n;
    ck_assert_int_eq(pthread_create(&peer, NULL, serve, NULL), 0);
    struct api_target t = {.url = path, .unix_socket = path, .token = (char[]){"mtok_secret"}};
    ck_assert_int_eq(api_open(&t, &api, &e), 0);
    return api;
}

static void finish(struct api *api)
{
    api_close(api);
    (void)pthread_join(peer, NULL);
    (void)close(listener);
    (void)unlink(path);
    (void)rmdir(folder);
}

static void header(const char *request, const char *name, char out[128])
{
    const char *at = strstr(request, name);
    out[0] = '\0';
    if (at)
        (void)snprintf(out, 128, "%.*s", (int)strcspn(at, "\r\n"), at);
}

#define OK                                                                                         \
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\nConnection: "       \
    "close\r\n\r\n{}"
#define CONFLICT "HTTP/1.1 409 Conflict\r\nContent-Length: 4\r\nConnection: close\r\n\r\nbusy"
#define STREAM                                                                                     \
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: "                           \
    "chunked\r\n\r\n5\r\nhello\r\n"

START_TEST(a_change_is_repeated_with_the_same_key)
    {
        char first[128], second[128];
        struct api_answer answer = {0};
        struct api *api = begin(HANG_UP, OK, 2);
        const struct api_request req = {.method = "POST",
                                        .path = "/v1/jobs?name=x",
                                        .content_type = "application/yaml",
                                        .body = "name: x",
                                        .body_len = 7};

        ck_assert_msg(api_call(api, &req, &answer, &e) == 0, "%s", e.text);
        ck_assert_int_eq(answer.status, 200);
        ck_assert_str_eq(answer.body, "{}");
        ck_assert_str_eq(answer.content_type, "application/json");
        api_answer_free(&answer);
        finish(api);
        header(seen[0], "Idempotency-Key: ", first);
        header(seen[1], "Idempotency-Key: ", second);
        ck_assert_uint_eq(strlen(first), strlen("Idempotency-Key: ") + 24);
        ck_assert_str_eq(first, second);
        ck_assert_ptr_nonnull(strstr(seen[1], "POST /v1/jobs?name=x HTTP/1.1\r\n"));
        ck_assert_ptr_nonnull(strstr(seen[1], "Authorization: Bearer mtok_secret\r\n"));
        ck_assert_ptr_nonnull(strstr(seen[1], "Content-Type: application/yaml\r\n"));
        ck_assert_ptr_nonnull(strstr(seen[1], "\r\n\r\nname: x"));
    }
END_TEST

START_TEST(a_read_has_no_key_and_any_status_is_an_answer)
    {
        struct api_answer answer = {0};
        struct api *api = begin(CONFLICT, NULL, 1);
        const struct api_request req = {.method = "GET", .path = "/v1/jobs"};

        ck_assert_int_eq(api_call(api, &req, &answer, &e), 0);
        ck_assert_int_eq(answer.status, 409);
        ck_assert_str_eq(answer.body, "busy");
        api_answer_free(&answer);
        finish(api);
        ck_assert_ptr_null(strstr(seen[0], "Idempotency-Key"));
    }
END_TEST

START_TEST(a_second_break_is_told)
    {
        struct api_answer answer = {0};
        struct api *api = begin(HANG_UP, HANG_UP, 2);
        const struct api_request req = {.method = "GET", .path = "/"};

        ck_assert_int_eq(api_call(api, &req, &answer, &e), -EIO);
        ck_assert(e.text[0] != '\0');
        finish(api);
    }
END_TEST

START_TEST(nobody_listens)
    {
        struct api_answer answer = {0};
        struct api *api = NULL;
        struct api_target t = {.unix_socket = (char[]){"/tmp/mw-no-such-socket"}};
        const struct api_request req = {.method = "GET", .path = "/"};

        ck_assert_int_eq(api_open(&t, &api, &e), 0);
        ck_assert_int_eq(api_call(api, &req, &answer, &e), -ECONNREFUSED);
        api_close(api);
    }
END_TEST

static int take(const char *data, size_t len, void *userdata)
{
    ck_assert_int_eq(strncmp(data, "hello", len), 0);
    return *(int *)userdata;
}

static int interrupt(const char *data, size_t len, void *userdata)
{
    (void)data;
    (void)len;
    (void)userdata;
    return raise(SIGINT);
}

START_TEST(a_stream_can_be_refused)
    {
        int refuse = -1;
        struct api_answer answer = {0};
        struct api *api = begin(STREAM, NULL, 1);
        const struct api_request req = {.method = "GET",
                                        .path = "/",
                                        .timeout_ms = API_NO_TIMEOUT,
                                        .chunk = take,
                                        .userdata = &refuse};

        ck_assert_int_eq(api_call(api, &req, &answer, &e), -ECANCELED);
        finish(api);
    }
END_TEST

START_TEST(an_interrupt_ends_a_stream)
    {
        struct api_answer answer = {0};
        struct api *api = begin(STREAM, NULL, 1);
        const struct api_request req = {
            .method = "GET", .path = "/", .timeout_ms = API_NO_TIMEOUT, .chunk = interrupt};

        ck_assert_int_eq(api_catch_interrupt(api), 0);
        ck_assert_int_eq(api_call(api, &req, &answer, &e), -EINTR);
        finish(api);
    }
END_TEST

START_TEST(a_file_is_uploaded_again_from_its_beginning)
    {
        struct api_answer answer = {0};
        struct api *api = begin(HANG_UP, OK, 2);
        FILE *f = tmpfile();
        ck_assert_ptr_nonnull(f);
        ck_assert_int_ge(fputs("file's bytes", f), 0);
        ck_assert_int_eq(fflush(f), 0);
        ck_assert_int_eq(lseek(fileno(f), 0, SEEK_SET), 0);
        const struct api_request req = {.method = "PUT",
                                        .path = "/v1/data/x",
                                        .upload = true,
                                        .fd = fileno(f),
                                        .file_len = 12,
                                        .headers = {"X-Meadow-Mode: 0644"}};

        ck_assert_msg(api_call(api, &req, &answer, &e) == 0, "%s", e.text);
        api_answer_free(&answer);
        finish(api);
        (void)fclose(f);
        ck_assert_ptr_nonnull(strstr(seen[1], "X-Meadow-Mode: 0644\r\n"));
        ck_assert_ptr_nonnull(strstr(seen[1], "\r\n\r\nfile's bytes"));
    }
END_TEST

START_TEST(paths_are_encoded)
    {
        cleanup_strbuf struct strbuf b = {0};
        api_encode(&b, "a b/c?\xc3\xa4.x~", false);
        ck_assert_str_eq(b.data, "a%20b%2Fc%3F%C3%A4.x~");
        strbuf_reset(&b);
        api_encode(&b, "a/b c", true);
        ck_assert_str_eq(b.data, "a/b%20c");
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("api");
    tcase_add_test(t, a_change_is_repeated_with_the_same_key);
    tcase_add_test(t, a_read_has_no_key_and_any_status_is_an_answer);
    tcase_add_test(t, a_second_break_is_told);
    tcase_add_test(t, nobody_listens);
    tcase_add_test(t, a_stream_can_be_refused);
    tcase_add_test(t, an_interrupt_ends_a_stream);
    tcase_add_test(t, a_file_is_uploaded_again_from_its_beginning);
    tcase_add_test(t, paths_are_encoded);
    return run_case("api", t);
}
