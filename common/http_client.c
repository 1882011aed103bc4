// SPDX-License-Identifier: Apache-2.0
// libcurl's multi interface in a libuv loop: one poll handle for each socket libcurl names, one
// timer.
//
// libcurl forbids adding and removing transfers from inside its callbacks, while our callers may
// start, cancel and close from anywhere, the chunk callback included. So while libcurl runs
// (`inside`), new calls wait in `pending` and finished ones in `dead`; both lists are emptied when
// it returns.
#include "common/http_client_internal.h"

#include "common/cleanup.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct watch {
    uv_poll_t poll;
    struct http_client *client;
    curl_socket_t fd;
    int events; // armed
};

// --- completion ----------------------------------------------------------------------------------

static void call_release(struct http_call *call)
{
    if (call->added)
        (void)curl_multi_remove_handle(call->client->multi, call->easy);
    http_call_free(call);
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
            http_call_error(call, code, &result);
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
    if (events & UV_READABLE)
        flags |= CURL_CSELECT_IN;
    if (events & UV_WRITABLE)
        flags |= CURL_CSELECT_OUT;
    // A socket in error may still hold an answer, sent before the peer closed: libcurl shall read,
    // and meets the error itself. CURL_CSELECT_ERR would make it give up.
    if (status < 0)
        flags = CURL_CSELECT_IN | CURL_CSELECT_OUT;
    drive(w->client, w->fd, flags);
    if (status < 0 && !uv_is_closing((uv_handle_t *)&w->poll)) // libuv has stopped it
        (void)uv_poll_start(&w->poll, w->events, on_poll);
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
    w->events = (what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);
    return uv_poll_start(&w->poll, w->events, on_poll) < 0 ? -1 : 0;
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
    c->no_verify = o->no_verify;
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

int http_client_set_certs(struct http_client *c, const char *ca_pem, const char *cert_pem,
                          struct err *e)
{
    char *ca = NULL, *cert = NULL;
    if (!copy_text(ca_pem, &ca) || !copy_text(cert_pem, &cert)) {
        free(ca);
        return err_set(e, -ENOMEM, "out of memory");
    }
    if (ca) {
        free(c->ca_pem);
        c->ca_pem = ca;
    }
    if (cert) {
        free(c->cert_pem);
        c->cert_pem = cert;
    }
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

int http_call_start(struct http_client *c, const struct http_call_options *o,
                    struct http_call **ret, struct err *e)
{
    if (c->closing)
        return err_set(e, -ECANCELED, "the client is closed");
    struct http_call *call = calloc(1, sizeof(*call));
    if (!call)
        return err_set(e, -ENOMEM, "out of memory");
    call->client = c;
    if (!http_call_setup(call, o)) {
        http_call_free(call);
        return err_set(e, -ENOMEM, "out of memory");
    }
    if (!c->inside) {
        CURLMcode code = curl_multi_add_handle(c->multi, call->easy);
        if (code != CURLM_OK) {
            http_call_free(call);
            return err_set(e, -ENOMEM, "libcurl: %s", curl_multi_strerror(code));
        }
        call->added = true;
    }
    DL_APPEND(c->calls, call);
    if (ret)
        *ret = call;
    return 0;
}
