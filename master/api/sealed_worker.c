// SPDX-License-Identifier: Apache-2.0
// A thread, a queue of at most SEALED_QUEUE_MAX, and an async handle that brings the results back.
#include "master/api/sealed_worker.h"

#include "common/cleanup.h"
#include "common/jose/jwe.h"
#include "common/jose/jws.h"
#include "common/json.h"
#include "master/api/user_keys.h"
#include "master/master_keys.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <utlist.h>

struct work {
    char *text;
    size_t len;
    void (*done)(struct sealed_opened *opened, void *userdata);
    void *userdata;
    struct sealed_opened result;
    struct work *prev, *next;
};

struct sealed_worker {
    struct master_keys *master;
    struct user_keys *users;
    uv_thread_t thread;
    uv_async_t finished;
    uv_mutex_t lock; // all that follows
    uv_cond_t more;
    struct work *waiting, *ready;
    unsigned queued;
    bool stop;
    struct sealed_stats stats;
};

static void sealed_opened_reset(struct sealed_opened *o)
{
    json_decref(o->claims);
    *o = (struct sealed_opened){0};
}

static void work_free(struct work *x)
{
    sealed_opened_reset(&x->result);
    free(x->text);
    free(x);
}

// --- on the thread ---

static int read_signed(struct sealed_worker *w, const unsigned char *text, size_t len,
                       struct sealed_opened *ret)
{
    struct jws s;
    int r = jws_parse((const char *)text, len, &s);
    if (r < 0)
        return r;
    struct jwk *key = user_keys_find(w->users, s.kid);
    r = key ? jws_verify(&s, key) : -EACCES;
    if (r == 0)
        r = json_parse((const char *)s.payload, s.payload_len, &ret->claims, NULL);
    (void)snprintf(ret->key_id, sizeof(ret->key_id), "%s", s.kid);
    jwk_free(key);
    jws_reset(&s);
    return r;
}

static int open_envelope(struct sealed_worker *w, const struct work *x, struct sealed_opened *ret)
{
    struct jwe e;
    unsigned char *inner = NULL;
    size_t len = 0;
    int r = jwe_parse(x->text, x->len, JWE_RSA_OAEP_256, &e);
    if (r < 0)
        return r;
    const char *to = json_opt_str(e.header, "kid", "");
    struct jwk *key = master_keys_find(w->master, to);
    if (key) {
        (void)snprintf(ret->sealed_to, sizeof(ret->sealed_to), "%s", to);
        uv_mutex_lock(&w->lock);
        w->stats.rsa_operations++;
        uv_mutex_unlock(&w->lock);
    }
    r = key ? jwe_open(&e, key, &inner, &len) : -EACCES;
    if (r == 0)
        r = read_signed(w, inner, len, ret);
    if (inner)
        OPENSSL_cleanse(inner, len);
    free(inner);
    jwk_free(key);
    jwe_reset(&e);
    return r;
}

static struct work *next_work(struct sealed_worker *w)
{
    uv_mutex_lock(&w->lock);
    while (!w->waiting && !w->stop)
        uv_cond_wait(&w->more, &w->lock);
    struct work *x = w->stop ? NULL : w->waiting;
    if (x)
        DL_DELETE(w->waiting, x);
    uv_mutex_unlock(&w->lock);
    return x;
}

static void run(void *arg)
{
    struct sealed_worker *w = arg;
    struct work *x;
    while ((x = next_work(w))) {
        bool ok = open_envelope(w, x, &x->result) == 0;
        if (!ok)
            sealed_opened_reset(&x->result);
        uv_mutex_lock(&w->lock);
        w->stats.opened += ok;
        w->stats.refused += !ok;
        DL_APPEND(w->ready, x);
        uv_mutex_unlock(&w->lock);
        (void)uv_async_send(&w->finished);
    }
}

// --- on the loop ---

static void hand_over(struct sealed_worker *w, struct work **list)
{
    struct work *x;
    for (;;) {
        uv_mutex_lock(&w->lock);
        x = *list;
        if (x) {
            DL_DELETE(*list, x);
            w->queued--;
        }
        uv_mutex_unlock(&w->lock);
        if (!x)
            return;
        x->done(&x->result, x->userdata);
        work_free(x);
    }
}

static void on_finished(uv_async_t *async)
{
    struct sealed_worker *w = container_of(async, struct sealed_worker, finished);
    hand_over(w, &w->ready);
}

static void on_closed(uv_handle_t *handle)
{
    struct sealed_worker *w = container_of((uv_async_t *)handle, struct sealed_worker, finished);
    uv_cond_destroy(&w->more);
    uv_mutex_destroy(&w->lock);
    free(w);
}

struct sealed_worker *sealed_worker_new(uv_loop_t *loop, struct master_keys *master,
                                        struct user_keys *users)
{
    struct sealed_worker *w = calloc(1, sizeof(*w));
    if (!w)
        return NULL;
    w->master = master;
    w->users = users;
    if (uv_mutex_init(&w->lock) < 0) {
        free(w);
        return NULL;
    }
    if (uv_cond_init(&w->more) < 0 || uv_async_init(loop, &w->finished, on_finished) < 0) {
        uv_mutex_destroy(&w->lock);
        free(w);
        return NULL;
    }
    if (uv_thread_create(&w->thread, run, w) < 0) {
        uv_close((uv_handle_t *)&w->finished, on_closed);
        return NULL;
    }
    return w;
}

int sealed_worker_open(struct sealed_worker *w, const char *text, size_t len,
                       void (*done)(struct sealed_opened *opened, void *userdata), void *userdata)
{
    struct work *x = calloc(1, sizeof(*x));
    char *copy = malloc(len + 1);
    if (!x || !copy) {
        free(x);
        free(copy);
        return -ENOMEM;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    *x = (struct work){.text = copy, .len = len, .done = done, .userdata = userdata};
    uv_mutex_lock(&w->lock);
    bool full = w->queued >= SEALED_QUEUE_MAX;
    w->stats.full += full;
    if (!full) {
        w->queued++;
        DL_APPEND(w->waiting, x);
        uv_cond_signal(&w->more);
    }
    uv_mutex_unlock(&w->lock);
    if (full)
        work_free(x);
    return full ? -EBUSY : 0;
}

void sealed_worker_close(struct sealed_worker *w)
{
    if (!w)
        return;
    uv_mutex_lock(&w->lock);
    w->stop = true;
    uv_cond_signal(&w->more);
    uv_mutex_unlock(&w->lock);
    (void)uv_thread_join(&w->thread);
    hand_over(w, &w->ready);
    hand_over(w, &w->waiting);
    uv_close((uv_handle_t *)&w->finished, on_closed);
}

void sealed_worker_stats(struct sealed_worker *w, struct sealed_stats *ret)
{
    uv_mutex_lock(&w->lock);
    *ret = w->stats;
    uv_mutex_unlock(&w->lock);
}
