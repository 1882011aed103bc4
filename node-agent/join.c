// SPDX-License-Identifier: Apache-2.0
// The join conversation, two requests: GET /v1/ca over an unverified connection (nothing secret is
// sent), compared with the token's fingerprint; then POST /v1/join over a connection that trusts
// that CA alone. With a pinned CA the first request is left out, the comparison is not.
#include "node-agent/join.h"

#include "node-agent/post.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/pki.h"
#include "proto/version.h"

#include <stdlib.h>
#include <string.h>

#define STEP_TIMEOUT_MS 15000

struct join {
    struct join_options options;
    struct join_token token;
    struct http_client *client; // of the step under way
    char *ca_pem;
    bool closed;
};

int join_token_parse(const char *text, struct join_token *ret, struct err *e)
{
    static const char prefix[] = "mjoin_";
    size_t skip = sizeof(prefix) - 1;

    if (strncmp(text, prefix, skip) != 0 || strspn(text + skip, "0123456789abcdef") != 64 ||
        text[skip + 64] != '_' || text[skip + 65] == '\0')
        return err_set(e, -EINVAL, "the join token has not the form mjoin_<fingerprint>_<secret>");
    memcpy(ret->fingerprint, text + skip, 64);
    ret->fingerprint[64] = '\0';
    ret->secret = text + skip + 65;
    return 0;
}

static void fail(struct join *j, bool permanent, const struct err *e)
{
    j->options.done(NULL, permanent, e, j->options.userdata);
}

static int step_client(struct join *j, const char *ca_pem, struct err *e)
{
    struct http_client_options o = {.loop = j->options.loop,
                                    .base_url = j->options.master_url,
                                    .ca_pem = ca_pem,
                                    .no_verify = ca_pem == NULL,
                                    .connect_timeout_ms = 5000};

    if (j->client)
        http_client_close(TAKE_PTR(j->client), NULL, NULL);
    return http_client_new(&o, &j->client, e);
}

// --- second step ---------------------------------------------------------------------------------

static int take_text(const json_t *body, const char *key, char **ret, struct err *e)
{
    const char *text;
    int r = json_get_str(body, key, &text, e);
    *ret = r == 0 ? (char *)(uintptr_t)text : NULL; // borrowed: the receiver copies
    return r;
}

#define SKEW_WARN_MS 5000

// Later each sync compares them; here it may explain what comes next.
static void look_at_clock(int64_t master_ms)
{
    int64_t skew = clock_real_ms() - master_ms;

    if (master_ms && (skew > SKEW_WARN_MS || skew < -SKEW_WARN_MS))
        log_warn("join", "this machine's clock is %lld s %s the master's: see that both keep time",
                 (long long)((skew < 0 ? -skew : skew) / 1000), skew < 0 ? "behind" : "ahead of");
}

static void joined(struct join *j, const json_t *body)
{
    struct identity id = {0};
    struct err e = {""};
    int r = take_text(body, "cluster_id", &id.cluster_id, &e);

    if (r == 0)
        r = take_text(body, "cluster_name", &id.cluster_name, &e);
    if (r == 0)
        r = take_text(body, "node_id", &id.node_id, &e);
    if (r == 0)
        r = take_text(body, "name", &id.name, &e);
    if (r == 0)
        r = take_text(body, "certificate", &id.cert_pem, &e);
    if (r < 0) {
        (void)err_wrap(&e, r, "join answer");
        fail(j, false, &e);
        return;
    }
    look_at_clock(json_opt_i64(body, "time_ms", 0));
    // The CA that was checked counts, not what an answer says.
    id.ca_pem = j->ca_pem;
    j->options.done(&id, false, NULL, j->options.userdata);
}

static void join_answered(int error, int status, const json_t *body, const struct err *e,
                          void *userdata)
{
    struct join *j = userdata;
    char text[256];
    struct err why;

    if (error == -ECANCELED && j->closed)
        return;
    if (error == 0 && status == 200) {
        joined(j, body);
        return;
    }
    if (error < 0) {
        fail(j, false, e);
        return;
    }
    (void)err_set(&why, -EACCES, "join refused: %s",
                  post_problem(status, body, text, sizeof(text)));
    fail(j, status >= 400 && status < 500 && status != 429, &why);
}

static json_t *join_body(const struct join *j, struct err *e)
{
    cleanup_free char *csr = NULL;

    if (pki_csr_new(j->options.key_pem, j->options.name, &csr, e) < 0)
        return NULL;
    json_t *body = json_object();
    json_put_i64(body, "protocol", MEADOW_PROTOCOL);
    json_put_str(body, "token", j->options.token);
    json_put_str(body, "name", j->options.name);
    json_put_str(body, "csr", csr);
    json_put_str(body, "machine_id", j->options.machine_id);
    json_put_str(body, "agent_version", MEADOW_VERSION);
    return body;
}

static int send_join(struct join *j, struct err *e)
{
    char found[65];
    int r = pki_cert_fingerprint(j->ca_pem, found, e);

    if (r < 0)
        return err_wrap(e, r, "the master's CA");
    if (strcmp(found, j->token.fingerprint) != 0)
        return err_set(e, -EACCES,
                       "the master's CA is not the one of the join token: wrong master.url, a "
                       "token of another "
                       "cluster, or somebody in between");
    r = step_client(j, j->ca_pem, e);
    if (r < 0)
        return r;
    cleanup_json json_t *body = join_body(j, e);
    if (!body)
        return -EIO;
    return post_json(j->client, "/v1/join", body, STEP_TIMEOUT_MS, join_answered, j, e);
}

// --- first step ----------------------------------------------------------------------------------

static void ca_fetched(const struct http_result *result, void *userdata)
{
    struct join *j = userdata;
    struct err e;

    if (j->closed)
        return;
    if (result->error < 0 || result->status != 200) {
        if (result->error < 0)
            e = result->err;
        else
            (void)err_set(&e, -EPROTO, "GET /v1/ca: HTTP %d", result->status);
        fail(j, false, &e);
        return;
    }
    j->ca_pem = strndup(result->body, result->len);
    int r = j->ca_pem ? send_join(j, &e) : err_set(&e, -ENOMEM, "out of memory");
    if (r < 0)
        fail(j, r == -EACCES, &e);
}

static int fetch_ca(struct join *j, struct err *e)
{
    struct http_call_options o = {.method = "GET",
                                  .path = "/v1/ca",
                                  .body_fd = -1,
                                  .timeout_ms = STEP_TIMEOUT_MS,
                                  .body_limit = 64 * 1024,
                                  .done = ca_fetched,
                                  .userdata = j};
    int r = step_client(j, NULL, e);
    return r < 0 ? r : http_call_start(j->client, &o, NULL, e);
}

int join_start(const struct join_options *options, struct join **ret, struct err *e)
{
    struct join *j = calloc(1, sizeof(*j));

    if (!j)
        return err_set(e, -ENOMEM, "out of memory");
    j->options = *options;
    int r = join_token_parse(options->token, &j->token, e);
    if (r == 0 && options->ca_pem) {
        j->ca_pem = strdup(options->ca_pem);
        r = j->ca_pem ? send_join(j, e) : err_set(e, -ENOMEM, "out of memory");
    } else if (r == 0) {
        r = fetch_ca(j, e);
    }
    if (r < 0) {
        join_close(j);
        return r;
    }
    *ret = j;
    return 0;
}

static void client_closed(void *userdata)
{
    struct join *j = userdata;
    free(j->ca_pem);
    free(j);
}

void join_close(struct join *j)
{
    if (!j)
        return;
    j->closed = true;
    if (j->client)
        http_client_close(j->client, client_closed, j);
    else
        client_closed(j);
}
