// SPDX-License-Identifier: Apache-2.0
// Answers to changes by Idempotency-Key. The record is put in the turn of the change, so it is in
// the same batch (or the next of the same collect): a client that repeats after any crash gets the
// first answer, or the change was not made.
#include "master/api/idempotency.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/pki.h"
#include "common/strbuf.h"

#include <stdlib.h>
#include <string.h>

#define KEEP_MS INT64_C(86400000)
#define KEY_MAX 128
#define ENTRIES_MAX 200000

struct entry {
    char digest[65];
    char body_hash[65];
    int status;
    char *answer;
    int64_t expires_ms;
    UT_hash_handle hh; // insertion order = age
};

struct idempotency {
    struct entry *all;
};

struct idempotency *idempotency_new(void)
{
    return calloc(1, sizeof(struct idempotency));
}

static void entry_drop(struct idempotency *x, struct entry *n)
{
    HASH_DEL(x->all, n);
    free(n->answer);
    free(n);
}

void idempotency_free(struct idempotency *x)
{
    struct entry *n, *tmp;
    if (!x)
        return;
    HASH_ITER (hh, x->all, n, tmp) {
        entry_drop(x, n);
    }
    free(x);
}

static struct entry *add(struct idempotency *x, const char *digest, const char *body_hash,
                         int status, const char *answer, int64_t expires_ms)
{
    struct entry *n = calloc(1, sizeof(*n));
    char *copy = strdup(answer);
    if (!n || !copy) {
        free(n);
        free(copy);
        return NULL;
    }
    (void)snprintf(n->digest, sizeof(n->digest), "%s", digest);
    (void)snprintf(n->body_hash, sizeof(n->body_hash), "%s", body_hash);
    n->status = status;
    n->answer = copy;
    n->expires_ms = expires_ms;
    int64_t now = clock_real_ms();
    while (x->all && (x->all->expires_ms < now || HASH_COUNT(x->all) >= ENTRIES_MAX))
        entry_drop(x, x->all);
    HASH_ADD_STR(x->all, digest, n);
    return n;
}

int idempotency_load(struct idempotency *x, const char *key, const char *json, size_t len,
                     struct err *e)
{
    if (strncmp(key, "idem:", 5) != 0)
        return -ENOENT;
    cleanup_json json_t *j = NULL;
    int r = json_parse(json, len, &j, e);
    if (r < 0)
        return err_wrap(e, r, "record %s", key);
    struct entry *n =
        add(x, key + 5, json_opt_str(j, "body", ""), (int)json_opt_i64(j, "status", 0),
            json_opt_str(j, "answer", ""), json_opt_time(j, "expires_at"));
    return n ? 0 : err_set(e, -ENOMEM, "out of memory");
}

static int body_hash(const struct call *call, char out[65])
{
    size_t len;
    const char *body = http_request_body(call->req, &len);
    return pki_sha256_hex(body, len, out);
}

static int key_digest(struct call *call, const char *key)
{
    cleanup_strbuf struct strbuf b = {0};
    strbuf_printf(&b, "%s\n%s\n%s\n%s\n%s", call->who.user,
                  call->who.node ? call->who.node->id : "", http_request_method(call->req),
                  http_request_path(call->req), key);
    static const char *const asked[] = {"user", "name"}; // what of a query changes something
    for (size_t i = 0; i < ARRAY_SIZE(asked); i++) {
        const char *value = http_request_query(call->req, asked[i]);
        strbuf_printf(&b, "\n%s", value ? value : "");
    }
    if (b.failed)
        return -ENOMEM;
    return pki_sha256_hex(b.data, b.len, call->idempotency_key);
}

bool idempotency_admit(struct idempotency *x, struct call *call)
{
    char hash[65];
    const char *key = http_request_header(call->req, "Idempotency-Key");
    if (!key)
        return true;
    if (key[0] == '\0' || strlen(key) > KEY_MAX) {
        api_problem(call, 400, "Idempotency-Key: expected 1 to %d characters", KEY_MAX);
        return false;
    }
    if (key_digest(call, key) < 0 || body_hash(call, hash) < 0) {
        api_problem(call, 503, "out of memory");
        return false;
    }
    struct entry *n = NULL;
    HASH_FIND_STR(x->all, call->idempotency_key, n);
    if (n && n->expires_ms < clock_real_ms()) {
        entry_drop(x, n);
        n = NULL;
    }
    if (!n)
        return true;
    if (strcmp(n->body_hash, hash) != 0) {
        api_problem(
            call, 422,
            "this Idempotency-Key was used with another body: use a new key for a new request");
        return false;
    }
    cleanup_json json_t *answer = json_loads(n->answer, JSON_DECODE_ANY, NULL);
    http_respond_header(call->req, "Idempotent-Replay", "true");
    api_reply(call, n->status, json_incref(answer));
    return false;
}

void idempotency_remember(struct idempotency *x, const struct call *call, int status,
                          const char *answer)
{
    char hash[65], key[80];
    if (!call->idempotency_key[0] || body_hash(call, hash) < 0)
        return;
    struct entry *n =
        add(x, call->idempotency_key, hash, status, answer, clock_real_ms() + KEEP_MS);
    if (!n)
        return;
    cleanup_json json_t *j = json_object();
    json_put_str(j, "body", hash);
    json_put_i64(j, "status", status);
    json_put_str(j, "answer", answer);
    json_put_time(j, "expires_at", n->expires_ms);
    (void)snprintf(key, sizeof(key), "idem:%s", n->digest);
    cluster_put(call->api->cluster, key, json_text(j), KEEP_MS);
}
