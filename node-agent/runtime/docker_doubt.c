// SPDX-License-Identifier: Apache-2.0
// A container was stopped or killed, and nobody here did it: a person, or the engine, which ends
// its containers when it is stopped itself and goes on answering meanwhile? The second is the
// infrastructure's fault and the first is not. An engine that is being stopped takes no new
// connections: dockerd closes its listener before it ends the first container (cmd/dockerd,
// cli.stop), and where systemd holds the socket nobody answers there. So it is asked over a new
// one: an answer means that it stays, and the end is told at once. Else the verdict waits for the
// engine's end, but not for ever (dockerd's shutdown-timeout is 15 s unless configured).
#include "node-agent/runtime/docker_internal.h"

#include "common/cleanup.h"
#include "common/clock.h"

#define DOUBT_MS DOCKER_TIMEOUT_MS

static void on_timer(uv_timer_t *timer);

static void arm(struct docker *d)
{
    struct docker_task *t, *next;
    int64_t first = 0;
    HASH_ITER (hh, d->tasks, t, next)
        if (t->doubt_until_ms && (!first || t->doubt_until_ms < first))
            first = t->doubt_until_ms;
    int64_t left = first - clock_mono_ms();
    if (first)
        (void)uv_timer_start(&d->doubt, on_timer, left > 0 ? (uint64_t)left : 0, 0);
}

static void decide(struct docker_task *t)
{
    struct attempt_status status = t->doubt;
    t->doubt_until_ms = 0;
    t->doubted = true;
    docker_task_end(t, &status);
}

static void on_timer(uv_timer_t *timer)
{
    struct docker *d = timer->data;
    struct docker_task *t, *next;
    HASH_ITER (hh, d->tasks, t, next)
        if (t->doubt_until_ms && t->doubt_until_ms <= clock_mono_ms())
            decide(t);
    arm(d);
}

static void on_asked(struct docker_task *t, const struct http_result *r)
{
    if (t->doubt_until_ms && r->error == 0)
        decide(t);
}

bool docker_doubt(struct docker_task *t, const struct attempt_status *status)
{
    struct docker *d = t->d;
    if (status->cause != CAUSE_UNKNOWN || t->phase != DOCKER_EXITED || t->vanished || t->left ||
        t->doubted || t->stopping || !d->ok)
        return false;
    bool first = !t->doubt_until_ms;
    t->doubt = *status;
    if (!first)
        return true;
    t->doubt_until_ms = clock_mono_ms() + DOUBT_MS;
    arm(d);
    docker_ask_anew(t, docker_path("/_ping"), on_asked);
    return true;
}

void docker_doubt_engine_left(struct docker *d)
{
    struct docker_task *t, *next;
    HASH_ITER (hh, d->tasks, t, next)
        if (t->doubt_until_ms)
            decide(t);
}
