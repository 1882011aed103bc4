// SPDX-License-Identifier: Apache-2.0
// Two masters must never work on one store. In a folder of our own a lock sees to that; on an
// external server the connections of masters bear the cluster's name. Who starts and finds another
// one there cuts it off: a master that lives is back at once, and then this one doesn't start; one
// that is dead (its machine lost power) is not. A living master that was away meanwhile finds
// another epoch when it comes back, and ends.
#include "master/store/store_internal.h"

#include "common/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COME_BACK_MS 3000 // reconnecting takes milliseconds; this is for a slow network

struct rivals {
    struct store *store;
    uv_timer_t timer;
    long long own_id;
    void (*closed)(void *userdata);
    void *closed_userdata;
};

static void ask_list(struct store *s);

static void on_killed(const struct redisReply *reply, void *userdata)
{
    const struct store *s = userdata;
    if (reply && reply_kind(reply) == REPLY_ERROR)
        log_warn("store", "%s: CLIENT KILL: %s", s->name, reply_text(reply, NULL));
}

// The next other connection of a master of this cluster, from `line` on; NULL = none.
// One line of CLIENT LIST: "id=7 addr=10.0.0.1:5000 ... name=meadow:<cluster id>: ..."
static const char *next_rival(const struct store *s, const char *line, long long *id)
{
    char name[100];
    (void)snprintf(name, sizeof(name), " name=%s ", s->prefix);
    for (; line && *line; line = strchr(line, '\n'), line += line != NULL) {
        const char *end = strchrnul(line, '\n'), *found = strstr(line, name);
        if (found && found < end && sscanf(line, "id=%lld", id) == 1 && *id != s->rivals->own_id)
            return line;
    }
    return NULL;
}

static void on_waited(uv_timer_t *timer)
{
    struct store *s = ((struct rivals *)timer->data)->store;
    s->rivals_told = true;
    if (s->phase == STORE_STARTING && redis_conn_is_up(s->conn))
        ask_list(s);
}

static void refuse_to_start(struct store *s, const char *rival)
{
    char text[300], address[64] = "?";
    (void)sscanf(strstr(rival, " addr=") ? strstr(rival, " addr=") : "", " addr=%63s", address);
    (void)snprintf(text, sizeof(text),
                   "another master of this cluster works on %s (from %s): stop that one first",
                   s->name, address);
    store_fail(s, -EBUSY, text);
}

static void cut_off(struct store *s, const char *line, long long id)
{
    char number[24];
    log_warn("store", "another master of this cluster is connected to %s: looking if it lives",
             s->name);
    for (; line; line = strchr(line, '\n'), line = line ? next_rival(s, line + 1, &id) : NULL) {
        (void)snprintf(number, sizeof(number), "%lld", id);
        (void)!redis_conn_call(s->conn, on_killed, s, "CLIENT", "KILL", "ID", number,
                               (const char *)NULL);
    }
    (void)uv_timer_start(&s->rivals->timer, on_waited, COME_BACK_MS, 0);
}

static void on_list(const struct redisReply *reply, void *userdata)
{
    struct store *s = userdata;
    long long id = 0;
    if (!reply || !redis_conn_is_up(s->conn) || s->phase != STORE_STARTING)
        return;
    if (reply_kind(reply) != REPLY_TEXT) {
        store_refused(s, reply, "CLIENT LIST");
        return;
    }
    const char *rival = next_rival(s, reply_text(reply, NULL), &id);
    if (!rival)
        store_alone(s);
    else if (s->rivals_told)
        refuse_to_start(s, rival);
    else
        cut_off(s, rival, id);
}

static void on_id(const struct redisReply *reply, void *userdata)
{
    struct store *s = userdata;
    int64_t id = 0;
    if (!reply || !redis_conn_is_up(s->conn))
        return;
    if (reply_integer(reply, &id) < 0)
        store_refused(s, reply, "CLIENT ID");
    s->rivals->own_id = id;
}

static void ask_list(struct store *s)
{
    int r = redis_conn_call(s->conn, on_id, s, "CLIENT", "ID", (const char *)NULL);
    if (r == 0)
        r = redis_conn_call(s->conn, on_list, s, "CLIENT", "LIST", (const char *)NULL);
    if (r < 0)
        redis_conn_drop(s->conn, strerror(-r));
}

void store_find_rivals(struct store *s)
{
    struct rivals *r = s->rivals ? s->rivals : calloc(1, sizeof(*r));
    if (!r) {
        redis_conn_drop(s->conn, "out of memory");
        return;
    }
    if (!s->rivals) {
        r->store = s;
        (void)uv_timer_init(s->options.loop, &r->timer);
        r->timer.data = r;
        s->rivals = r;
    }
    ask_list(s);
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct rivals *r = handle->data;
    r->closed(r->closed_userdata);
    free(r);
}

void rivals_close(struct rivals *r, void (*closed)(void *userdata), void *userdata)
{
    if (!r) {
        closed(userdata);
        return;
    }
    r->closed = closed;
    r->closed_userdata = userdata;
    uv_close((uv_handle_t *)&r->timer, on_timer_closed);
}
