// SPDX-License-Identifier: Apache-2.0
// StartTransientUnit (org.freedesktop.systemd1(5)), then JobRemoved tells how it went, then the
// main process is asked for. The bus is attached to the loop by its descriptor; its own deadlines
// are answered by a timer.
#include "node-agent/runtime/transient.h"

#include "common/cleanup.h"
#include "common/log.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-bus.h>
#include <systemd/sd-daemon.h>
#include <time.h>
#include <unistd.h>
#include <utlist.h>

#define SERVICE "org.freedesktop.systemd1"
#define OBJECT "/org/freedesktop/systemd1"
#define MANAGER "org.freedesktop.systemd1.Manager"
#define STOP_US (UINT64_C(5) * 1000000) // what meadow-init left behind is killed after

struct start {
    struct start *prev, *next;
    struct transient *t;
    char unit[64];
    sd_bus_slot *call; // under way; without it no answer comes any more
    void (*done)(int result, pid_t pid, const char *why, void *userdata);
    void *userdata; // NULL = forgotten
};

struct transient {
    uv_loop_t *loop;
    sd_bus *bus; // NULL = not open
    uv_poll_t *poll;
    uv_timer_t *timer;
    struct start *starts;
};

static void pump(struct transient *t);

bool transient_wanted(void)
{
    return geteuid() == 0 && sd_booted() > 0 && getenv("INVOCATION_ID") && getenv("NOTIFY_SOCKET");
}

int transient_new(uv_loop_t *loop, struct transient **ret)
{
    struct transient *t = calloc(1, sizeof(*t));
    if (!t)
        return -ENOMEM;
    t->loop = loop;
    *ret = t;
    return 0;
}

// --- answers -------------------------------------------------------------------------------------

static void finish(struct start *s, int result, pid_t pid, const char *why)
{
    DL_DELETE(s->t->starts, s);
    (void)sd_bus_slot_unref(s->call);
    if (s->userdata)
        s->done(result, pid, why, s->userdata);
    free(s);
}

static void free_handle(uv_handle_t *h)
{
    free(h);
}

static void disconnect(struct transient *t, const char *why)
{
    if (t->poll)
        uv_close((uv_handle_t *)t->poll, free_handle);
    if (t->timer)
        uv_close((uv_handle_t *)t->timer, free_handle);
    t->poll = NULL;
    t->timer = NULL;
    t->bus = sd_bus_flush_close_unref(t->bus);
    while (why && t->starts)
        finish(t->starts, -EIO, 0, why);
}

// --- the bus on the loop -------------------------------------------------------------------------

static void on_timer(uv_timer_t *timer)
{
    pump(timer->data);
}

static void on_poll(uv_poll_t *poll, int status, int events)
{
    (void)status;
    (void)events;
    pump(poll->data);
}

static void rearm(struct transient *t)
{
    uint64_t until;
    struct timespec now;
    int events = sd_bus_get_events(t->bus);
    int uv = (events & POLLIN ? UV_READABLE : 0) | (events & POLLOUT ? UV_WRITABLE : 0);
    (void)uv_poll_start(t->poll, uv ? uv : UV_READABLE, on_poll);
    if (sd_bus_get_timeout(t->bus, &until) < 0 || until == UINT64_MAX) {
        (void)uv_timer_stop(t->timer);
        return;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    uint64_t us = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
    (void)uv_timer_start(t->timer, on_timer, until > us ? (until - us) / 1000 + 1 : 0, 0);
}

static void pump(struct transient *t)
{
    int r = 1;
    while (r > 0 && t->bus)
        r = sd_bus_process(t->bus, NULL);
    if (!t->bus)
        return;
    if (r < 0) {
        log_warn("transient", "the connection to systemd ended: %s", strerror(-r));
        disconnect(t, "the connection to systemd ended");
        return;
    }
    rearm(t);
}

// --- what systemd says ---------------------------------------------------------------------------

static int on_main_pid(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
    struct start *s = userdata;
    uint32_t pid = 0;
    (void)ret_error;
    if (!sd_bus_message_is_method_error(m, NULL) && sd_bus_message_enter_container(m, 'v', "u") > 0)
        (void)sd_bus_message_read(m, "u", &pid);
    finish(s, 0, (pid_t)pid, NULL); // a unit that is gone already: its records tell
    return 1;
}

static void ask_main_pid(struct start *s)
{
    char *path = NULL;
    int r = sd_bus_path_encode(OBJECT "/unit", s->unit, &path);
    s->call = sd_bus_slot_unref(s->call); // a second JobRemoved asks again
    if (r >= 0)
        r = sd_bus_call_method_async(s->t->bus, &s->call, SERVICE, path,
                                     "org.freedesktop.DBus.Properties", "Get", on_main_pid, s, "ss",
                                     SERVICE ".Service", "MainPID");
    free(path);
    if (r < 0)
        finish(s, 0, 0, NULL);
}

static int on_job_removed(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
    struct transient *t = userdata;
    const char *path, *unit, *result;
    struct start *s;
    uint32_t id;
    char why[200];
    (void)ret_error;
    if (sd_bus_message_read(m, "uoss", &id, &path, &unit, &result) < 0)
        return 0;
    DL_FOREACH (t->starts, s)
        if (strcmp(s->unit, unit) == 0)
            break;
    if (!s)
        return 0;
    if (strcmp(result, "done") == 0) {
        ask_main_pid(s);
        return 0;
    }
    (void)snprintf(why, sizeof(why), "systemd could not start %s: %s (journalctl -u %s)", s->unit,
                   result, s->unit);
    finish(s, -EIO, 0, why);
    return 0;
}

static int on_asked(sd_bus_message *m, void *userdata, sd_bus_error *ret_error)
{
    struct start *s = userdata;
    char why[300];
    (void)ret_error;
    if (!sd_bus_message_is_method_error(m, NULL))
        return 1; // JobRemoved follows
    const sd_bus_error *e = sd_bus_message_get_error(m);
    (void)snprintf(why, sizeof(why), "systemd refused %s: %s", s->unit,
                   e && e->message ? e->message : "?");
    finish(s, -EIO, 0, why);
    return 1;
}

// --- asking --------------------------------------------------------------------------------------

static int connect_bus(struct transient *t, struct err *e)
{
    int r = sd_bus_open_system(&t->bus);
    if (r < 0)
        return err_errno(e, r, "the system's bus, over which systemd starts attempts");
    t->poll = calloc(1, sizeof(*t->poll));
    t->timer = calloc(1, sizeof(*t->timer));
    if (!t->poll || !t->timer || uv_poll_init(t->loop, t->poll, sd_bus_get_fd(t->bus)) < 0) {
        free(t->poll);
        free(t->timer);
        t->poll = NULL;
        t->timer = NULL;
        t->bus = sd_bus_flush_close_unref(t->bus);
        return err_set(e, -ENOMEM, "out of memory");
    }
    (void)uv_timer_init(t->loop, t->timer);
    t->poll->data = t->timer->data = t;
    r = sd_bus_match_signal_async(t->bus, NULL, SERVICE, OBJECT, MANAGER, "JobRemoved",
                                  on_job_removed, NULL, t);
    if (r >= 0)
        r = sd_bus_call_method_async(t->bus, NULL, SERVICE, OBJECT, MANAGER, "Subscribe", NULL,
                                     NULL, NULL);
    if (r < 0) {
        disconnect(t, NULL);
        return err_errno(e, r, "listen to systemd");
    }
    return 0;
}

static int append_exec(sd_bus_message *m, char *const *argv)
{
    int r = sd_bus_message_open_container(m, 'r', "sv");
    r = r < 0 ? r : sd_bus_message_append(m, "s", "ExecStart");
    r = r < 0 ? r : sd_bus_message_open_container(m, 'v', "a(sasb)");
    r = r < 0 ? r : sd_bus_message_open_container(m, 'a', "(sasb)");
    r = r < 0 ? r : sd_bus_message_open_container(m, 'r', "sasb");
    r = r < 0 ? r : sd_bus_message_append(m, "s", argv[0]);
    r = r < 0 ? r : sd_bus_message_append_strv(m, (char **)(uintptr_t)argv);
    r = r < 0 ? r : sd_bus_message_append(m, "b", false);
    for (int i = 0; i < 4 && r >= 0; i++)
        r = sd_bus_message_close_container(m);
    return r;
}

static int append_limits(sd_bus_message *m, const struct transient_unit *u)
{
    int r = 0;
    if (u->limits.memory > 0)
        r = sd_bus_message_append(m, "(sv)(sv)", "MemoryMax", "t", (uint64_t)u->limits.memory,
                                  "MemorySwapMax", "t", UINT64_C(0));
    if (r >= 0 && u->limits.cpu_milli > 0)
        r = sd_bus_message_append(m, "(sv)", "CPUQuotaPerSecUSec", "t",
                                  (uint64_t)u->limits.cpu_milli * 1000);
    if (r >= 0 && u->pids_limit > 0)
        r = sd_bus_message_append(m, "(sv)", "TasksMax", "t", (uint64_t)u->pids_limit);
    return r;
}

// KillMode and what goes with it: when meadow-init ends, nothing of the attempt outlives it. A kill
// for memory ends one process and is told by meadow-init, not the whole unit. Ordered before the
// agent, so that a machine that shuts down stops the agent first: it must not take the end that the
// tasks then come to for somebody's doing.
static int append_properties(sd_bus_message *m, const struct transient_unit *u)
{
    char variable[80];
    (void)snprintf(variable, sizeof(variable), "MEADOW_ATTEMPT_ID=%.40s", u->id);
    int r = sd_bus_message_open_container(m, 'a', "(sv)");
    r = r < 0 ? r
              : sd_bus_message_append(m, "(sv)(sv)(sv)(sv)(sv)(sv)(sv)(sv)(sv)(sv)(sv)",
                                      "Description", "s", u->description, "Type", "s", "exec",
                                      "KillMode", "s", "control-group", "SendSIGKILL", "b", true,
                                      "TimeoutStopUSec", "t", STOP_US, "OOMPolicy", "s", "continue",
                                      "Delegate", "b", true, "NoNewPrivileges", "b", true,
                                      "CollectMode", "s", "inactive-or-failed", "Environment", "as",
                                      1, variable, "Before", "as", 1, "meadow-agent.service");
    r = r < 0 ? r : append_limits(m, u);
    r = r < 0 ? r : append_exec(m, u->argv);
    return r < 0 ? r : sd_bus_message_close_container(m);
}

static int send_start(struct transient *t, const struct transient_unit *u, struct start *s)
{
    sd_bus_message *m = NULL;
    int r =
        sd_bus_message_new_method_call(t->bus, &m, SERVICE, OBJECT, MANAGER, "StartTransientUnit");
    r = r < 0 ? r : sd_bus_message_append(m, "ss", s->unit, "fail");
    r = r < 0 ? r : append_properties(m, u);
    r = r < 0 ? r : sd_bus_message_append(m, "a(sa(sv))", 0);
    // Waited for as long as it takes: a start that was given up could still happen.
    r = r < 0 ? r : sd_bus_call_async(t->bus, &s->call, m, on_asked, s, UINT64_MAX);
    (void)sd_bus_message_unref(m);
    return r;
}

int transient_start(struct transient *t, const struct transient_unit *unit,
                    void (*done)(int result, pid_t pid, const char *why, void *userdata),
                    void *userdata, struct err *e)
{
    int r = t->bus ? 0 : connect_bus(t, e);
    if (r < 0)
        return r;
    struct start *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(e, -ENOMEM, "out of memory");
    (void)snprintf(s->unit, sizeof(s->unit), "meadow-attempt-%.40s.service", unit->id);
    s->t = t;
    s->done = done;
    s->userdata = userdata;
    r = send_start(t, unit, s);
    if (r < 0) {
        free(s);
        return err_errno(e, r, "ask systemd for a unit");
    }
    DL_APPEND(t->starts, s);
    // What was queued by the call is sent, and answered, from the loop.
    (void)uv_timer_start(t->timer, on_timer, 0, 0);
    return 0;
}

void transient_forget(struct transient *t, const void *userdata)
{
    struct start *s;
    if (!t)
        return;
    DL_FOREACH (t->starts, s)
        if (s->userdata == userdata)
            s->userdata = NULL;
}

void transient_close(struct transient *t)
{
    struct start *s, *next;
    if (!t)
        return;
    if (t->bus)
        disconnect(t, NULL);
    DL_FOREACH_SAFE (t->starts, s, next) {
        DL_DELETE(t->starts, s);
        (void)sd_bus_slot_unref(s->call);
        free(s);
    }
    free(t);
}
