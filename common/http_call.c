// SPDX-License-Identifier: Apache-2.0
// One transfer of the HTTP client: options into libcurl, bytes out and in, libcurl's codes into
// ours.
#include "common/http_client_internal.h"

#include "common/cleanup.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY_LIMIT_DEFAULT ((size_t)64 << 20)
#define BUFFER_BYTES 16384L // libcurl's per-transfer buffer
#define KEEPALIVE_IDLE_S 30L
#define KEEPALIVE_INTERVAL_S 10L

void http_call_free(struct http_call *call)
{
    curl_easy_cleanup(call->easy);
    curl_slist_free_all(call->headers);
    strbuf_reset(&call->body);
    free(call);
}

// --- errors --------------------------------------------------------------------------------------

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

void http_call_error(const struct http_call *call, CURLcode code, struct http_result *result)
{
    const char *text = call->error[0] ? call->error : curl_easy_strerror(code);
    const char *base = call->client->base_url;
    if (code == CURLE_ABORTED_BY_CALLBACK && call->upload_error)
        text = call->upload_error;
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

// --- bytes ---------------------------------------------------------------------------------------

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
        call->upload_error = got < 0 ? strerror(errno) : "the file is shorter than it was";
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

// --- options -------------------------------------------------------------------------------------

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

// Copied: http_client_set_certs may replace it while this call is under way.
static void set_pem(CURL *easy, CURLoption option, char *pem)
{
    struct curl_blob blob = {.data = pem, .len = pem ? strlen(pem) : 0, .flags = CURL_BLOB_COPY};
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
    if (c->no_verify) {
        (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
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
    if (o->new_connection)
        (void)curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
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

bool http_call_setup(struct http_call *call, const struct http_call_options *o)
{
    call->chunk = o->chunk;
    call->done = o->done;
    call->userdata = o->userdata;
    call->body_limit = o->body_limit ? o->body_limit : BODY_LIMIT_DEFAULT;
    call->easy = curl_easy_init();
    return call->easy && set_options(call, o);
}
