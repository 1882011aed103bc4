// SPDX-License-Identifier: Apache-2.0
// The background look at the GPUs. One thread at a time, detached, with a record that it and the
// loop share: if it hangs it is left behind with that record, and the agent says "GPU state
// unknown" and goes on. The only lock of the agent guards that record.
#include "node-agent/hardware/gpu.h"

#include "common/json.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TIMEOUT_MS 10000

struct look { // shared by the loop and the thread; freed by whoever lets go last
    pthread_mutex_t lock;
    unsigned owners;
    bool abandoned, running;
    uv_async_t *async; // of the probe; only used while not abandoned
    char *library;     // NULL = default
    char *sysroot;
    struct nvml *nvml;
    struct gpu_list result;
    int code;
};

struct gpu_probe {
    struct gpu_probe_options options;
    uv_async_t async;
    uv_timer_t timer;
    unsigned handles;
    struct look *look;
    bool nothing_there; // no driver: not worth a thread per sync
    struct gpu_list list;
};

static void look_release(struct look *look)
{
    (void)pthread_mutex_lock(&look->lock);
    unsigned left = --look->owners;
    (void)pthread_mutex_unlock(&look->lock);
    if (left > 0)
        return;
    gpu_nvml_close(look->nvml);
    (void)pthread_mutex_destroy(&look->lock);
    free(look->library);
    free(look->sysroot);
    free(look);
}

static void *look_thread(void *arg)
{
    struct look *look = arg;
    struct gpu_list found;
    struct gpu_list amd;
    int code = gpu_nvml_probe(&look->nvml, look->library, &found);

    if (code == -ENOENT && gpu_amd_probe(look->sysroot, &amd) == 0) {
        found = amd;
        code = 0;
    }
    (void)pthread_mutex_lock(&look->lock);
    look->result = found;
    look->code = code;
    look->running = false;
    if (!look->abandoned)
        (void)uv_async_send(look->async);
    (void)pthread_mutex_unlock(&look->lock);
    look_release(look);
    return NULL;
}

static bool same_cards(const struct gpu_list *a, const struct gpu_list *b)
{
    if (a->n != b->n || a->simulated != b->simulated || strcmp(a->reason, b->reason) != 0)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (strcmp(a->items[i].uuid, b->items[i].uuid) != 0 ||
            a->items[i].memory != b->items[i].memory)
            return false;
    return true;
}

static void take_over(struct gpu_probe *p, const struct gpu_list *list)
{
    bool same = same_cards(&p->list, list);

    p->list = *list;
    if (!same)
        p->options.changed(p->options.userdata);
}

static void found_cb(uv_async_t *async)
{
    struct gpu_probe *p = async->data;
    struct gpu_list list;

    (void)pthread_mutex_lock(&p->look->lock);
    list = p->look->result;
    int code = p->look->code;
    bool running = p->look->running;
    (void)pthread_mutex_unlock(&p->look->lock);
    if (running)
        return;
    (void)uv_timer_stop(&p->timer);
    p->nothing_there = code == -ENOENT;
    if (code == -ENOENT && p->options.configured > 0)
        gpu_simulate(p->options.configured, &list);
    if (p->options.configured >= 0 && list.n > (size_t)p->options.configured)
        list.n = (size_t)p->options.configured;
    take_over(p, &list);
}

static void late_cb(uv_timer_t *timer)
{
    struct gpu_probe *p = timer->data;
    struct gpu_list list = {.n = 0};

    (void)snprintf(list.reason, sizeof(list.reason),
                   "GPU state unknown: the driver library does not answer");
    take_over(p, &list);
}

void gpu_probe_refresh(struct gpu_probe *p)
{
    pthread_t thread;
    pthread_attr_t attr;
    struct look *look = p->look;

    if (p->options.configured == 0 || p->nothing_there)
        return;
    (void)pthread_mutex_lock(&look->lock);
    bool busy = look->running;
    if (!busy) {
        look->running = true;
        look->owners++;
    }
    (void)pthread_mutex_unlock(&look->lock);
    if (busy)
        return;
    (void)pthread_attr_init(&attr);
    (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    int r = pthread_create(&thread, &attr, look_thread, look);
    (void)pthread_attr_destroy(&attr);
    if (r != 0) {
        look->running = false;
        look_release(look);
        return;
    }
    unsigned timeout = p->options.timeout_ms ? p->options.timeout_ms : TIMEOUT_MS;
    (void)uv_timer_start(&p->timer, late_cb, timeout, 0);
}

static struct look *look_new(const struct gpu_probe_options *o, uv_async_t *async)
{
    struct look *look = calloc(1, sizeof(*look));

    if (!look)
        return NULL;
    look->owners = 1;
    look->async = async;
    look->library = o->nvml_library ? strdup(o->nvml_library) : NULL;
    look->sysroot = strdup(o->sysroot);
    if (!look->sysroot || (o->nvml_library && !look->library) ||
        pthread_mutex_init(&look->lock, NULL) != 0) {
        free(look->library);
        free(look->sysroot);
        free(look);
        return NULL;
    }
    return look;
}

int gpu_probe_new(const struct gpu_probe_options *options, struct gpu_probe **ret, struct err *e)
{
    struct gpu_probe *p = calloc(1, sizeof(*p));

    if (!p)
        return err_set(e, -ENOMEM, "out of memory");
    p->options = *options;
    p->look = look_new(options, &p->async);
    if (!p->look) {
        free(p);
        return err_set(e, -ENOMEM, "out of memory");
    }
    (void)uv_timer_init(options->loop, &p->timer);
    int r = uv_async_init(options->loop, &p->async, found_cb);
    p->timer.data = p->async.data = p;
    p->handles = r == 0 ? 2 : 1;
    if (r < 0) {
        gpu_probe_close(p);
        return err_set(e, r, "GPU probe: %s", uv_strerror(r));
    }
    uv_unref((uv_handle_t *)&p->async);
    (void)snprintf(p->list.reason, sizeof(p->list.reason), "%s",
                   options->configured == 0 ? "none configured" : "not looked at yet");
    gpu_probe_refresh(p);
    *ret = p;
    return 0;
}

const struct gpu_list *gpu_probe_list(const struct gpu_probe *p)
{
    return &p->list;
}

static void closed_cb(uv_handle_t *handle)
{
    struct gpu_probe *p = handle->data;

    if (--p->handles == 0)
        free(p);
}

void gpu_probe_close(struct gpu_probe *p)
{
    if (!p)
        return;
    (void)pthread_mutex_lock(&p->look->lock);
    p->look->abandoned = true;
    (void)pthread_mutex_unlock(&p->look->lock);
    look_release(p->look);
    if (p->handles == 2)
        uv_close((uv_handle_t *)&p->async, closed_cb);
    uv_close((uv_handle_t *)&p->timer, closed_cb);
}
