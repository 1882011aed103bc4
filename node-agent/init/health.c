// SPDX-License-Identifier: Apache-2.0
// The rules are Docker's (HEALTHCHECK): the first check comes one interval after the start, the
// next one an interval after the end of the last; failures within the start period don't count
// until a check was passed.
#include "node-agent/init/health.h"

#include "node-agent/init/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// A check ends itself when its time is over. One that can't (it was stopped, it waits for a disk)
// is given up after this much more.
#define GIVE_UP_MS 5000

void health_init(struct health *h, const struct init_args *args, const struct record *rec)
{
    *h = (struct health){.args = args, .rec = rec, .verdict_fd = -1};
}

void health_begin(struct health *h, int64_t now_ms)
{
    if (!init_args_have_health(h->args))
        return;
    h->on = true;
    h->next_ms = now_ms + h->args->health_interval_ms;
    h->counts_from_ms = now_ms + h->args->health_start_period_ms;
    record_health(h->rec, "starting");
}

static void forget_check(struct health *h)
{
    if (h->verdict_fd >= 0)
        (void)close(h->verdict_fd);
    h->verdict_fd = -1;
    h->worthless = false;
}

void health_end(struct health *h)
{
    h->on = false;
    forget_check(h);
}

void health_freeze(struct health *h, bool frozen, int64_t now_ms)
{
    if (frozen && !h->frozen)
        h->frozen_ms = now_ms;
    if (!frozen && h->frozen && h->counts_from_ms) // its start goes on where it was
        h->counts_from_ms += now_ms - h->frozen_ms;
    h->frozen = frozen;
    h->worthless |= h->verdict_fd >= 0;
    h->next_ms = now_ms + (h->verdict_fd >= 0 ? h->args->health_timeout_ms + GIVE_UP_MS
                                              : h->args->health_interval_ms);
}

int64_t health_due(const struct health *h)
{
    return h->on && !h->frozen ? h->next_ms : 0;
}

static bool judge(struct health *h, bool well, int64_t now_ms)
{
    bool worthless = h->worthless;
    forget_check(h);
    h->next_ms = now_ms + h->args->health_interval_ms;
    if (worthless)
        return false;
    if (well) {
        if (!h->well)
            record_health(h->rec, "healthy");
        h->well = true;
        h->failures = 0;
        h->counts_from_ms = 0;
        return false;
    }
    if (now_ms < h->counts_from_ms || ++h->failures < h->args->health_retries)
        return false;
    record_health(h->rec, "unhealthy");
    health_end(h);
    return true;
}

static bool fail(struct health *h, int64_t now_ms, const char *text)
{
    (void)snprintf(h->text, sizeof(h->text), "%s", text);
    return judge(h, false, now_ms);
}

bool health_look(struct health *h, int64_t now_ms)
{
    if (!h->on || h->frozen || now_ms < h->next_ms)
        return false;
    if (h->verdict_fd >= 0) {
        (void)kill(h->pid, SIGKILL);
        return fail(h, now_ms, "the check could not be ended");
    }
    int r = probe_start(h->args, &h->pid, &h->verdict_fd);
    if (r < 0)
        return fail(h, now_ms, strerror(-r));
    h->next_ms = now_ms + h->args->health_timeout_ms + GIVE_UP_MS;
    return false;
}

bool health_verdict(struct health *h, int64_t now_ms)
{
    struct probe_verdict v;
    ssize_t n = read(h->verdict_fd, &v, sizeof(v));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (n != (ssize_t)sizeof(v))
        return fail(h, now_ms, "the check was killed");
    v.text[sizeof(v.text) - 1] = '\0';
    (void)snprintf(h->text, sizeof(h->text), "%s", v.text);
    return judge(h, v.well, now_ms);
}
