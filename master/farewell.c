// SPDX-License-Identifier: Apache-2.0
// An answer takes a few turns of the loop from http_respond through libmicrohttpd and TLS to the
// socket; closing the server at once would drop it, and with it the longer lease that agents are
// given for the time without a master.
#include "master/farewell.h"

#include <stdlib.h>

#define FAREWELL_MS 200

struct farewell {
    uv_timer_t timer;
    void (*done)(void *userdata);
    void *userdata;
};

static void on_closed(uv_handle_t *handle)
{
    free(handle->data);
}

static void on_time(uv_timer_t *timer)
{
    struct farewell *f = timer->data;
    f->done(f->userdata);
    uv_close((uv_handle_t *)timer, on_closed);
}

void farewell(uv_loop_t *loop, void (*done)(void *userdata), void *userdata)
{
    struct farewell *f = calloc(1, sizeof(*f));
    if (!f || uv_timer_init(loop, &f->timer) < 0) {
        free(f);
        done(userdata);
        return;
    }
    f->done = done;
    f->userdata = userdata;
    f->timer.data = f;
    (void)uv_timer_start(&f->timer, on_time, FAREWELL_MS, 0);
}
