// SPDX-License-Identifier: Apache-2.0
// Rounds of look, kill, wait for each death by pidfd. A round that finds nobody is the last one.
#include "node-agent/runtime/sweep.h"

#include "common/cleanup.h"
#include "common/log.h"
#include "common/pid_watch.h"
#include "node-agent/runtime/proc_scan.h"

#include <signal.h>
#include <string.h>
#include <utlist.h>

struct dying {
    struct pid_watch *watch;
    struct sweep *sweep;
    struct dying *prev, *next;
};

struct sweep {
    uv_loop_t *loop;
    char id[ATTEMPT_ID_BYTES];
    struct dying *list;
    void (*done)(void *userdata);
    void *userdata;
};

static int look_and_kill(struct sweep *s);

static void on_died(int status, void *userdata)
{
    struct dying *d = userdata;
    struct sweep *s = d->sweep;
    (void)status;
    DL_DELETE(s->list, d);
    free(d);
    if (s->list || look_and_kill(s) == 0)
        return;
    void (*done)(void *) = s->done;
    void *arg = s->userdata;
    free(s);
    done(arg);
}

static int kill_one(struct sweep *s, pid_t pid)
{
    struct dying *d = calloc(1, sizeof(*d));
    if (!d)
        return -ENOMEM;
    d->sweep = s;
    int r = pid_watch_start(s->loop, pid, on_died, d, &d->watch);
    if (r < 0) {
        free(d);
        return r == -ESRCH ? 0 : r;
    }
    DL_APPEND(s->list, d);
    log_warn("runtime", "attempt %s: killing process %d that outlived its supervisor", s->id,
             (int)pid);
    return pid_watch_signal(d->watch, SIGKILL) == -EPERM ? -EPERM : 0;
}

// 0: somebody is dying; 1: nobody is there; -errno.
static int look_and_kill(struct sweep *s)
{
    cleanup_free struct proc_owner *owners = NULL;
    size_t n = 0;
    int r = proc_owners(&owners, &n);
    for (size_t i = 0; r == 0 && i < n; i++)
        if (strcmp(owners[i].id, s->id) == 0)
            r = kill_one(s, owners[i].pid);
    if (r < 0)
        log_error("runtime", "attempt %s: cannot end what it left behind: %s", s->id, strerror(-r));
    if (s->list)
        return 0;
    return r < 0 ? r : 1;
}

int sweep_start(uv_loop_t *loop, const char *id, void (*done)(void *userdata), void *userdata,
                struct sweep **ret)
{
    struct sweep *s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    *s = (struct sweep){.loop = loop, .done = done, .userdata = userdata};
    (void)snprintf(s->id, sizeof(s->id), "%s", id);
    int r = look_and_kill(s);
    if (r == 0)
        *ret = s;
    else
        free(s);
    return r;
}

void sweep_cancel(struct sweep *s)
{
    struct dying *d, *next;
    if (!s)
        return;
    DL_FOREACH_SAFE (s->list, d, next) {
        pid_watch_cancel(d->watch);
        free(d);
    }
    free(s);
}
