// SPDX-License-Identifier: Apache-2.0
// libcurl's multi interface in a libuv loop: one poll handle for each socket libcurl names, one
// timer.
//
// libcurl forbids adding and removing transfers from inside its callbacks, while our callers may
// start, cancel and close from anywhere, the chunk callback included. So while libcurl runs
// (`inside`), new calls wait in `pending` and finished ones in `dead`; both lists are emptied when
// it returns.
#include "common/http_client.h"

#include "common/cleanup.h"
#include "common/strbuf.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define BODY_LIMIT_DEFAULT ((size_t)64 << 20)
#define BUFFER_BYTES 16384L // libcurl's per-transfer buffer
#define KEEPALIVE_IDLE_S 30L
#define KEEPALIVE_INTERVAL_S 10L

struct http_client {
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    char *base_url;
    char *unix_socket;
    char *ca_pem, *cert_pem, *key_pem;
    unsigned connect_timeout_ms;
    struct http_call *calls; // owner list: added and pending ones
    struct http_call *dead;  // completed while libcurl ran
    bool inside, closing;
    unsigned polls; // open poll handles
    bool timer_closed;
    void (*closed)(void *userdata);
    void *userdata;
};

struct http_call {
    struct http_call *prev, *next;
    struct http_client *client;
    CURL *easy;
    struct curl_slist *headers;
    bool added; // to the multi handle
    bool too_large, aborted;
    struct strbuf body;
    size_t body_limit;
    int upload_fd;
    off_t upload_start; // -1: not seekable
    uint64_t upload_len, upload_done;
    int (*chunk)(const char *data, size_t len, void *userdata);
    void (*done)(const struct http_result *result, void *userdata);
    void *userdata;
    char error[CURL_ERROR_SIZE];
};

struct watch {
    uv_poll_t poll;
    struct http_client *client;
    curl_socket_t fd;
};

// --- completion ----------------------------------------------------------------------------------

static void call_free(struct http_call *call)
{
    curl_easy_cleanup(call->easy);
    curl_slist_free_all(call->headers);
    strbuf_reset(&call->body);
    free(call);
}

static void call_release(struct http_call *call)
{
    if (call->added)
        (void)curl_multi_remove_handle(call->client->multi, call->easy);
    call_free(call);
}

// Takes the call off the list, tells its owner, frees it (later when libcurl is running).
static void call_complete(struct http_call *call, struct http_result *result)
{
    struct http_client *c = call->client;
    DL_DELETE(c->calls, call);
    if (c->inside)
        LL_PREPEND(c->dead, call);
    if (result->error == 0) {
        result->body = call->body.data ? call->body.data : "";
        result->len = call->body.len;
    } else {
        result->body = "";
    }
    if (call->done)
        call->done(result, call->userdata);
    if (!c->inside)
        call_release(call);
}

void http_call_cancel(struct http_call *call)
{
    struct http_result result = {.error = -ECANCELED};
    (void)err_set(&result.err, 0, "cancelled");
    call->aborted = true;
    call_complete(call, &result);
}

static int connect_error(CURL *easy)
{
    long code = 0;
    (void)curl_easy_getinfo(easy, CURLINFO_OS_ERRNO, &code);
    if (code == EHOSTUNREACH || code == ENETUNREACH || code == EADDRNOTAVAIL)
        return -EHOSTUNREACH;
    if (code == ETIMEDOUT)
        return -ETIMEDOUT;
    return code == EACCES || code == EPERM ? -EACCES : -ECONNREFUSED;
}

// With TLS 1.3 the server judges our certificate after our side of the handshake is done, so its
// refusal comes as an alert on the first read; only libcurl's text tells.
static bool is_certificate_alert(const char *text)
{
    return strstr(text, "alert") && (strstr(text, "certificate") || strstr(text, "unknown ca") ||
                                     strstr(text, "decrypt error"));
}

static int map_error(const struct http_call *call, CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_CONNECT:
        return connect_error(call->easy);
    case CURLE_COULDNT_RESOLVE_HOST:
        return -EHOSTUNREACH;
    case CURLE_OPERATION_TIMEDOUT:
        return -ETIMEDOUT;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CERTPROBLEM:
        return -EACCES;
    case CURLE_SSL_CONNECT_ERROR:
        return is_certificate_alert(call->error) ? -EACCES : -EPROTO;
    case CURLE_GOT_NOTHING:
    case CURLE_RECV_ERROR:
    case CURLE_SEND_ERROR:
        return is_certificate_alert(call->error) ? -EACCES : -EIO;
    case CURLE_PARTIAL_FILE:
    case CURLE_READ_ERROR:
    case CURLE_ABORTED_BY_CALLBACK:
    case CURLE_SEND_FAIL_REWIND:
        return -EIO;
    case CURLE_OUT_OF_MEMORY:
        return -ENOMEM;
    default:
        return -EPROTO;
    }
}

static void set_error(struct http_call *call, CURLcode code, struct http_result *result)
{
    const char *text = call->error[0] ? call->error : curl_easy_strerror(code);
    const char *base = call->client->base_url;
    if (code == CURLE_WRITE_ERROR && call->too_large)
        result->error = err_set(&result->err, -EPROTO, "%s: the answer is larger than %zu bytes",
                                base, call->body_limit);
    else if (code == CURLE_WRITE_ERROR && call->body.failed)
        result->error = err_set(&result->err, -ENOMEM, "%s: out of memory", base);
    else if (code == CURLE_WRITE_ERROR)
        result->error = err_set(&result->err, -ECANCELED, "%s: stopped by the reader", base);
    else if (code == CURLE_PEER_FAILED_VERIFICATION)
        result->error =
            err_set(&result->err, -EACCES,
                    "%s: the server's certificate does not match the CA (%s)", base, text);
    else
        result->error = err_set(&result->err, map_error(call, code), "%s: %s", base, text);
}

static void reap(struct http_client *c)
{
    CURLMsg *msg;
    int left;
    while ((msg = curl_multi_info_read(c->multi, &left))) {
        struct http_result result = {0};
        struct http_call *call = NULL;
        long status = 0;
        char *type = NULL;
        if (msg->msg != CURLMSG_DONE)
            continue;
        CURLcode code = msg->data.result;
        (void)curl_easy_getinfo(msg->easy_handle, CURLINFO_PRIVATE, (char **)&call);
        (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
        (void)curl_easy_getinfo(call->easy, CURLINFO_CONTENT_TYPE, &type);
        if (code == CURLE_OK) {
            result.status = (int)status;
            result.content_type = type;
        } else {
            set_error(call, code, &result);
        }
        call_complete(call, &result);
    }
}

// --- the loop ------------------------------------------------------------------------------------

static void add_to_multi(struct http_call *call)
{
    CURLMcode code = curl_multi_add_handle(call->client->multi, call->easy);
    call->added = code == CURLM_OK;
    if (call->added)
        return;
    struct http_result result = {0};
    result.error = err_set(&result.err, -ENOMEM, "libcurl: %s", curl_multi_strerror(code));
    call_complete(call, &result);
}

// Adding may fail and complete a call, whose owner may start or cancel others: look again from the
// front.
static void add_pending(struct http_client *c)
{
    struct http_call *call;
    do {
        DL_FOREACH (c->calls, call)
            if (!call->added)
                break;
        if (call)
            add_to_multi(call);
    } while (call);
}

static void drive(struct http_client *c, curl_socket_t fd, int flags)
{
    int running;
    if (c->closing)
        return;
    c->inside = true;
    (void)curl_multi_socket_action(c->multi, fd, flags, &running);
    c->inside = false;
    while (c->dead) {
        struct http_call *call = c->dead;
        LL_DELETE(c->dead, call);
        call_release(call);
    }
    if (!c->closing)
        reap(c);
    if (!c->closing)
        add_pending(c);
}

static void client_free_if_closed(struct http_client *c)
{
    if (c->polls > 0 || !c->timer_closed)
        return;
    void (*closed)(void *) = c->closed;
    void *userdata = c->userdata;
    free(c->base_url);
    free(c->unix_socket);
    free(c->ca_pem);
    free(c->cert_pem);
    if (c->key_pem)
        explicit_bzero(c->key_pem, strlen(c->key_pem));
    free(c->key_pem);
    free(c);
    curl_global_cleanup();
    if (closed)
        closed(userdata);
}

static void on_poll_closed(uv_handle_t *h)
{
    struct watch *w = container_of(h, struct watch, poll);
    struct http_client *c = w->client;
    free(w);
    c->polls--;
    client_free_if_closed(c);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct watch *w = container_of(poll, struct watch, poll);
    int flags = 0;
    if (status < 0)
        flags = CURL_CSELECT_ERR;
    if (events & UV_READABLE)
        flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    drive(w->client, w->fd, flags);
}

static void on_timer(uv_timer_t *timer)
{
    drive(container_of(timer, struct http_client, timer), CURL_SOCKET_TIMEOUT, 0);
}

static struct watch *watch_new(struct http_client *c, curl_socket_t fd)
{
    struct watch *w = calloc(1, sizeof(*w));
    if (!w || uv_poll_init(c->loop, &w->poll, fd) < 0) {
        free(w);
        return NULL;
    }
    w->client = c;
    w->fd = fd;
    c->polls++;
    (void)curl_multi_assign(c->multi, fd, w);
    return w;
}

static int socket_changed(CURL *easy, curl_socket_t fd, int what, void *userdata, void *assigned)
{
    struct http_client *c = userdata;
    struct watch *w = assigned;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (w) {
            (void)curl_multi_assign(c->multi, fd, NULL);
            uv_close((uv_handle_t *)&w->poll, on_poll_closed);
        }
        return 0;
    }
    if (!w && !(w = watch_new(c, fd)))
        return -1;
    int events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    return uv_poll_start(&w->poll, events, on_poll) < 0 ? -1 : 0;
}

static int timer_changed(CURLM *multi, long ms, void *userdata)
{
    struct http_client *c = userdata;
    (void)multi;
    if (c->closing)
        return 0;
    if (ms < 0)
        return uv_timer_stop(&c->timer);
    return uv_timer_start(&c->timer, on_timer, (uint64_t)ms, 0);
}

// --- the client ----------------------------------------------------------------------------------

static bool copy_text(const char *text, char **ret)
{
    return !text || (*ret = strdup(text)) != NULL;
}

static bool multi_setup(struct http_client *c, unsigned max_connections)
{
    c->multi = curl_multi_init();
    if (!c->multi)
        return false;
    (void)curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, socket_changed);
    (void)curl_multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c);
    (void)curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, timer_changed);
    (void)curl_multi_setopt(c->multi, CURLMOPT_TIMERDATA, c);
    (void)curl_multi_setopt(c->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING);
    if (max_connections) {
        (void)curl_multi_setopt(c->multi, CURLMOPT_MAX_TOTAL_CONNECTIONS, (long)max_connections);
        (void)curl_multi_setopt(c->multi, CURLMOPT_MAXCONNECTS, (long)max_connections);
    }
    return true;
}

int http_client_new(const struct http_client_options *o, struct http_client **ret, struct err *e)
{
    struct http_client *c = calloc(1, sizeof(*c));
    if (!c)
        return err_set(e, -ENOMEM, "out of memory");
    if (curl_global_init(CURL_GLOBAL_DEFAULT) != 0) {
        free(c);
        return err_set(e, -ENOMEM, "libcurl does not start");
    }
    c->loop = o->loop;
    c->connect_timeout_ms = o->connect_timeout_ms;
    c->timer_closed = true;
    bool ok = copy_text(o->base_url, &c->base_url) && copy_text(o->unix_socket, &c->unix_socket) &&
              copy_text(o->ca_pem, &c->ca_pem) && copy_text(o->cert_pem, &c->cert_pem) &&
              copy_text(o->key_pem, &c->key_pem) && multi_setup(c, o->max_connections);
    if (!ok || uv_timer_init(c->loop, &c->timer) < 0) {
        client_free_if_closed(c);
        return err_set(e, -ENOMEM, "out of memory");
    }
    c->timer_closed = false;
    *ret = c;
    return 0;
}

// Runs in the loop's closing phase: libcurl is not on the stack.
static void on_timer_closed(uv_handle_t *h)
{
    struct http_client *c = container_of((uv_timer_t *)h, struct http_client, timer);
    (void)curl_multi_cleanup(c->multi);
    c->timer_closed = true;
    client_free_if_closed(c);
}

void http_client_close(struct http_client *c, void (*closed)(void *userdata), void *userdata)
{
    if (c->closing)
        return;
    c->closing = true;
    c->closed = closed;
    c->userdata = userdata;
    while (c->calls)
        http_call_cancel(c->calls);
    uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}

// --- one call ------------------------------------------------------------------------------------

static size_t on_body(char *data, size_t one, size_t len, void *userdata)
{
    struct http_call *call = userdata;
    long status = 0;
    (void)one;
    if (call->aborted)
        return 0;
    (void)curl_easy_getinfo(call->easy, CURLINFO_RESPONSE_CODE, &status);
    if (call->chunk && status >= 200 && status < 300) {
        if (call->chunk(data, len, call->userdata) < 0)
            call->aborted = true;
        return call->aborted ? 0 : len;
    }
    if (call->body.len + len > call->body_limit)
        call->too_large = true;
    else
        strbuf_append(&call->body, data, len);
    return call->too_large || call->body.failed ? 0 : len;
}

static size_t on_upload(char *out, size_t one, size_t n, void *userdata)
{
    struct http_call *call = userdata;
    uint64_t left = call->upload_len - call->upload_done;
    size_t want = one * n < left ? one * n : (size_t)left;
    if (call->aborted)
        return CURL_READFUNC_ABORT;
    if (want == 0)
        return 0;
    ssize_t got = call->upload_start < 0 ? read(call->upload_fd, out, want)
                                         : pread(call->upload_fd, out, want,
                                                 call->upload_start + (off_t)call->upload_done);
    if (got <= 0) {
        (void)snprintf(call->error, sizeof(call->error), "reading the file to send: %s",
                       got < 0 ? strerror(errno) : "it is shorter than it was");
        return CURL_READFUNC_ABORT;
    }
    call->upload_done += (uint64_t)got;
    return (size_t)got;
}

// libcurl rewinds before it sends again on a fresh connection.
static int on_seek(void *userdata, curl_off_t offset, int origin)
{
    struct http_call *call = userdata;
    if (call->upload_start < 0 || origin != SEEK_SET)
        return CURL_SEEKFUNC_CANTSEEK;
    call->upload_done = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

static bool add_header(struct http_call *call, const char *line)
{
    struct curl_slist *more = curl_slist_append(call->headers, line);
    if (more)
        call->headers = more;
    return more != NULL;
}

static bool set_headers(struct http_call *call, const char *const *headers)
{
    bool typed = false, ok = true;
    for (; ok && headers && *headers; headers++) {
        typed = typed || strncasecmp(*headers, "Content-Type:", 13) == 0;
        ok = add_header(call, *headers);
    }
    if (ok && !typed) // else libcurl calls every body a form
        ok = add_header(call, "Content-Type:");
    (void)curl_easy_setopt(call->easy, CURLOPT_HTTPHEADER, call->headers);
    return ok;
}

static void set_pem(CURL *easy, CURLoption option, char *pem)
{
    struct curl_blob blob = {.data = pem, .len = pem ? strlen(pem) : 0, .flags = CURL_BLOB_NOCOPY};
    if (pem)
        (void)curl_easy_setopt(easy, option, &blob);
}

// CAPATH is set to nothing because libcurl trusts the system's folder beside the blob otherwise.
static void set_transport(struct http_client *c, CURL *easy)
{
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    (void)curl_easy_setopt(easy, CURLOPT_USERAGENT, "meadow");
    if (c->connect_timeout_ms)
        (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)c->connect_timeout_ms);
    if (c->unix_socket)
        (void)curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, c->unix_socket);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
    (void)curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_3);
    (void)curl_easy_setopt(easy, CURLOPT_SSL_SESSIONID_CACHE, 0L);
    (void)curl_easy_setopt(easy, CURLOPT_CAPATH, NULL);
    (void)curl_easy_setopt(easy, CURLOPT_CAINFO, NULL);
    set_pem(easy, CURLOPT_CAINFO_BLOB, c->ca_pem);
    set_pem(easy, CURLOPT_SSLCERT_BLOB, c->cert_pem);
    set_pem(easy, CURLOPT_SSLKEY_BLOB, c->key_pem);
}

static void set_upload(struct http_call *call, const struct http_call_options *o)
{
    call->upload_fd = o->body_fd;
    call->upload_len = o->body_fd_len;
    call->upload_start = lseek(o->body_fd, 0, SEEK_CUR);
    (void)curl_easy_setopt(call->easy, CURLOPT_UPLOAD, 1L);
    (void)curl_easy_setopt(call->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)o->body_fd_len);
    (void)curl_easy_setopt(call->easy, CURLOPT_READFUNCTION, on_upload);
    (void)curl_easy_setopt(call->easy, CURLOPT_READDATA, call);
    (void)curl_easy_setopt(call->easy, CURLOPT_SEEKFUNCTION, on_seek);
    (void)curl_easy_setopt(call->easy, CURLOPT_SEEKDATA, call);
}

static bool set_body(struct http_call *call, const struct http_call_options *o)
{
    CURLcode code = CURLE_OK;
    bool sends = strcmp(o->method, "POST") == 0 || strcmp(o->method, "PUT") == 0 ||
                 strcmp(o->method, "PATCH") == 0;
    if (o->upload_from_fd) {
        set_upload(call, o);
    } else if (o->body || sends) {
        (void)curl_easy_setopt(call->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)o->body_len);
        code = curl_easy_setopt(call->easy, CURLOPT_COPYPOSTFIELDS, o->body ? o->body : "");
    } else if (strcmp(o->method, "HEAD") == 0) {
        (void)curl_easy_setopt(call->easy, CURLOPT_NOBODY, 1L);
    }
    return code == CURLE_OK &&
           curl_easy_setopt(call->easy, CURLOPT_CUSTOMREQUEST, o->method) == CURLE_OK;
}

static bool set_options(struct http_call *call, const struct http_call_options *o)
{
    CURL *easy = call->easy;
    cleanup_free char *url = NULL;
    if (asprintf(&url, "%s%s", call->client->base_url, o->path) < 0) {
        url = NULL;
        return false;
    }
    set_transport(call->client, easy);
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, call);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, call->error);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, call);
    if (o->timeout_ms)
        (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)o->timeout_ms);
    if (o->idle_timeout_ms) {
        (void)curl_easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
        (void)curl_easy_setopt(easy, CURLOPT_LOW_SPEED_TIME,
                               (long)((o->idle_timeout_ms + 999) / 1000));
    }
    return curl_easy_setopt(easy, CURLOPT_URL, url) == CURLE_OK && set_headers(call, o->headers) &&
           set_body(call, o);
}

int http_call_start(struct http_client *c, const struct http_call_options *o,
                    struct http_call **ret, struct err *e)
{
    if (c->closing)
        return err_set(e, -ECANCELED, "the client is closed");
    struct http_call *call = calloc(1, sizeof(*call));
    if (!call)
        return err_set(e, -ENOMEM, "out of memory");
    call->client = c;
    call->chunk = o->chunk;
    call->done = o->done;
    call->userdata = o->userdata;
    call->body_limit = o->body_limit ? o->body_limit : BODY_LIMIT_DEFAULT;
    call->easy = curl_easy_init();
    if (!call->easy || !set_options(call, o)) {
        call_free(call);
        return err_set(e, -ENOMEM, "out of memory");
    }
    if (!c->inside) {
        CURLMcode code = curl_multi_add_handle(c->multi, call->easy);
        if (code != CURLM_OK) {
            call_free(call);
            return err_set(e, -ENOMEM, "libcurl: %s", curl_multi_strerror(code));
        }
        call->added = true;
    }
    DL_APPEND(c->calls, call);
    if (ret)
        *ret = call;
    return 0;
}
