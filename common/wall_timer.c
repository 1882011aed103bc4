// SPDX-License-Identifier: Apache-2.0
// A timerfd on CLOCK_REALTIME in the loop. When somebody sets the clock the kernel cancels the
// timer and makes it readable: it is armed again for the same moment, which may be over by then.
#include "common/wall_timer.h"

#include "common/clock.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define LOOK_MS INT64_C(86400000)

struct wall_timer {
    uv_poll_t poll;
    int fd;
    int64_t at_ms; // 0 = off
    void (*fired)(void *userdata);
    void *userdata;
};

static int arm(struct wall_timer *t)
{
    struct itimerspec at = {0};
    if (t->at_ms) {
        // By the machine's clock, which may not be the time that is believed; so it is looked at
        // again every day.
        int64_t due = t->at_ms, now = clock_real_ms();
        if (due > now + LOOK_MS)
            due = now + LOOK_MS;
        due += clock_step_ms();
        at.it_value.tv_sec = due / 1000;
        at.it_value.tv_nsec = (due % 1000) * 1000000;
    }
    // A cancelled timer is armed all the same: timerfd_settime says so once more.
    int r = timerfd_settime(t->fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &at, NULL);
    return r < 0 && errno != ECANCELED ? -errno : 0;
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    struct wall_timer *t = poll->data;
    uint64_t count;
    (void)status;
    (void)events;
    ssize_t n = read(t->fd, &count, sizeof(count));
    if (n < 0 && errno != ECANCELED)
        return;
    if (!t->at_ms)
        return;
    if (clock_real_ms() < t->at_ms) {
        (void)arm(t);
        return;
    }
    t->at_ms = 0;
    t->fired(t->userdata);
}

int wall_timer_new(uv_loop_t *loop, void (*fired)(void *userdata), void *userdata,
                   struct wall_timer **ret, struct err *e)
{
    struct wall_timer *t = calloc(1, sizeof(*t));
    if (!t)
        return err_set(e, -ENOMEM, "out of memory");
    t->fd = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC);
    int r = t->fd < 0 ? -errno : uv_poll_init(loop, &t->poll, t->fd);
    if (r < 0) {
        if (t->fd >= 0)
            (void)close(t->fd);
        free(t);
        return err_errno(e, r, "timer");
    }
    t->poll.data = t;
    t->fired = fired;
    t->userdata = userdata;
    (void)uv_poll_start(&t->poll, UV_READABLE, on_poll);
    *ret = t;
    return 0;
}

int wall_timer_set(struct wall_timer *t, int64_t real_ms)
{
    t->at_ms = real_ms > 0 ? real_ms : 0;
    return arm(t);
}

static void on_closed(uv_handle_t *handle)
{
    struct wall_timer *t = handle->data;
    (void)close(t->fd);
    free(t);
}

void wall_timer_close(struct wall_timer *t)
{
    if (t)
        uv_close((uv_handle_t *)&t->poll, on_closed);
}
