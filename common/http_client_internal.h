// SPDX-License-Identifier: Apache-2.0
// Shared by http_client.c (the loop) and http_call.c (one transfer); nobody else includes libcurl.
#pragma once

#include "common/http_client.h"
#include "common/strbuf.h"

#include <curl/curl.h>

struct http_client {
    uv_loop_t *loop;
    CURLM *multi;
    uv_timer_t timer;
    char *base_url;
    char *unix_socket;
    char *ca_pem, *cert_pem, *key_pem;
    unsigned connect_timeout_ms;
    bool no_verify;
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
    const char *upload_error; // static text
    int (*chunk)(const char *data, size_t len, void *userdata);
    void (*done)(const struct http_result *result, void *userdata);
    void *userdata;
    char error[CURL_ERROR_SIZE];
};

// Takes the options over into a fresh easy handle; false when out of memory.
bool http_call_setup(struct http_call *call, const struct http_call_options *o) WARN_UNUSED;
// Fills error and text for a transfer that ended with `code`.
void http_call_error(const struct http_call *call, CURLcode code, struct http_result *result);
// Frees a call that is in no list and not in the multi handle.
void http_call_free(struct http_call *call);
