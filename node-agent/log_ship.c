// SPDX-License-Identifier: Apache-2.0
// The log shipper. A stream is in one of these: idle (waits for inotify), queued (has or may have
// bytes), busy (a post is under way), done. Whatever happens (bytes, the end, a finished post, the
// master back), the stream is queued again and looked at; a look that finds nothing makes it idle,
// or done once the attempt has ended. Nothing is kept of what was sent: the master's answer is the
// position.
#include "node-agent/log_ship.h"

#include "common/backoff.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"

#include <fcntl.h>
#include <string.h>
#include <sys/inotify.h>
#include <uthash.h>
#include <utlist.h>

struct shipment;

struct log_stream_ship {
    struct log_stream_ship *prev, *next_queued;
    struct shipment *owner;
    enum log_stream stream;
    uint64_t next; // offset of the next byte to send
    uint64_t sent; // offset behind the post under way
    bool asked;    // the master's position is known
    bool queued, busy, done;
};

struct shipment {
    UT_hash_handle hh;    // by id
    UT_hash_handle hh_wd; // by watch descriptor
    struct log_ship *ship;
    char id[ATTEMPT_ID_BYTES];
    int wd; // -1 = not watched
    bool ended, forgotten;
    bool gave_up;   // some bytes can never arrive
    int64_t due_ms; // CLOCK_MONOTONIC: when it becomes incomplete; 0 = no more
    enum logs_state state;
    struct log_stream_ship streams[LOG_STREAMS];
};

struct log_ship {
    struct log_ship_options options;
    uv_poll_t poll;
    uv_timer_t retry;
    uv_timer_t bound;
    int inotify_fd;
    unsigned handles;
    unsigned in_flight;
    bool online, waiting, closing;
    struct backoff backoff;
    struct shipment *by_id;
    struct shipment *by_wd;
    struct log_stream_ship *queue;
    void (*closed)(void *userdata);
    void *closed_userdata;
};

static void pump(struct log_ship *ship);

static void queue_stream(struct log_stream_ship *s)
{
    struct log_ship *ship = s->owner->ship;

    if (s->queued || s->busy || s->done || s->owner->forgotten)
        return;
    s->queued = true;
    DL_APPEND2(ship->queue, s, prev, next_queued);
}

static void unqueue_stream(struct log_stream_ship *s)
{
    if (!s->queued)
        return;
    s->queued = false;
    DL_DELETE2(s->owner->ship->queue, s, prev, next_queued);
}

// --- settling ------------------------------------------------------------------------------------

static void bound_cb(uv_timer_t *timer);

static void arm_bound(struct log_ship *ship)
{
    int64_t first = 0;

    for (const struct shipment *s = ship->by_id; s; s = s->hh.next)
        if (s->due_ms && (!first || s->due_ms < first))
            first = s->due_ms;
    if (!first) {
        (void)uv_timer_stop(&ship->bound);
        return;
    }
    int64_t delay = first - clock_mono_ms();
    (void)uv_timer_start(&ship->bound, bound_cb, delay > 0 ? (uint64_t)delay : 0, 0);
}

static void settle(struct shipment *s, enum logs_state state)
{
    struct log_ship *ship = s->ship;

    s->due_ms = 0;
    if (s->state == state || s->forgotten)
        return;
    s->state = state;
    ship->options.settled(s->id, state, ship->options.userdata);
}

static void bound_cb(uv_timer_t *timer)
{
    struct log_ship *ship = timer->data;
    struct shipment *s, *next;
    int64_t now = clock_mono_ms();

    HASH_ITER (hh, ship->by_id, s, next) {
        if (s->due_ms && s->due_ms <= now)
            settle(s, LOGS_INCOMPLETE);
    }
    arm_bound(ship);
}

static void unwatch(struct shipment *s)
{
    if (s->wd < 0)
        return;
    HASH_DELETE(hh_wd, s->ship->by_wd, s);
    (void)inotify_rm_watch(s->ship->inotify_fd, s->wd);
    s->wd = -1;
}

static void finish_stream(struct log_stream_ship *stream)
{
    struct shipment *s = stream->owner;

    stream->done = true;
    for (int i = 0; i < LOG_STREAMS; i++)
        if (!s->streams[i].done)
            return;
    unwatch(s);
    settle(s, s->gave_up ? LOGS_INCOMPLETE : LOGS_COMPLETE);
}

static void give_up(struct log_stream_ship *stream)
{
    stream->owner->gave_up = true;
    finish_stream(stream);
}

// --- sending -------------------------------------------------------------------------------------

static void retry_cb(uv_timer_t *timer)
{
    struct log_ship *ship = timer->data;

    ship->waiting = false;
    pump(ship);
}

static void wait_a_while(struct log_ship *ship)
{
    if (ship->waiting || ship->closing)
        return;
    ship->waiting = true;
    (void)uv_timer_start(&ship->retry, retry_cb, backoff_fail(&ship->backoff), 0);
}

static void send_post(struct log_stream_ship *stream, uint64_t offset, uint64_t next,
                      const struct strbuf *body)
{
    struct log_ship *ship = stream->owner->ship;
    struct log_post post = {.attempt_id = stream->owner->id,
                            .stream = stream->stream,
                            .offset = offset,
                            .body = body->data,
                            .len = body->len};

    stream->sent = next;
    if (ship->options.send(&post, stream, ship->options.userdata) < 0) {
        queue_stream(stream);
        wait_a_while(ship);
        return;
    }
    stream->busy = true;
    ship->in_flight++;
}

static int read_more(struct log_stream_ship *stream, struct strbuf *body, uint64_t *ret_offset,
                     uint64_t *ret_next)
{
    char path[ATTEMPT_PATH_BYTES];

    attempt_path(&stream->owner->ship->options.dirs, stream->owner->id, "out", path);
    cleanup_close int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir < 0)
        return -errno;
    return log_source_read(dir, stream->stream, stream->next, LOG_POST_BYTES, clock_real_ms(), body,
                           ret_offset, ret_next);
}

static void look(struct log_stream_ship *stream)
{
    cleanup_strbuf struct strbuf body = {0};
    uint64_t offset = 0;
    uint64_t next = 0;

    if (!stream->asked) {
        send_post(stream, 0, 0, &body);
        return;
    }
    int r = read_more(stream, &body, &offset, &next);
    if (r == -EMFILE || r == -ENFILE || r == -ENOMEM) {
        queue_stream(stream);
        wait_a_while(stream->owner->ship);
    } else if (r == 0 && next > offset) {
        send_post(stream, offset, next, &body);
    } else if (stream->owner->ended) {
        if (r < 0)
            give_up(stream);
        else
            finish_stream(stream);
    }
}

static void pump(struct log_ship *ship)
{
    while (ship->queue && ship->online && !ship->waiting && !ship->closing &&
           ship->in_flight < LOG_POSTS_MAX) {
        struct log_stream_ship *stream = ship->queue;
        unqueue_stream(stream);
        look(stream);
    }
}

static void shipment_free(struct shipment *s)
{
    if (s->streams[LOG_STDOUT].busy || s->streams[LOG_STDERR].busy)
        return; // the last answer frees it
    free(s);
}

static void take_answer(struct log_stream_ship *stream, uint64_t next)
{
    struct log_ship *ship = stream->owner->ship;
    bool progress = !stream->asked || next > stream->next;

    stream->asked = true;
    stream->next = next;
    queue_stream(stream);
    if (progress)
        (void)backoff_reset(&ship->backoff);
    else
        wait_a_while(ship); // a master that wants the same bytes for ever must not spin us
}

void log_ship_sent(struct log_stream_ship *stream, int error, int status, uint64_t next)
{
    struct shipment *s = stream->owner;
    struct log_ship *ship = s->ship;

    stream->busy = false;
    ship->in_flight--;
    if (s->forgotten) {
        shipment_free(s);
    } else if (error == 0 && status == 200) {
        take_answer(stream, next);
    } else if (error == 0 && (status == 404 || status == 410)) {
        log_debug("logs", "attempt %s: the master does not want its logs", s->id);
        give_up(stream);
    } else {
        queue_stream(stream);
        wait_a_while(ship);
    }
    pump(ship);
}

// --- inotify -------------------------------------------------------------------------------------

static void event(struct log_ship *ship, const struct inotify_event *ev)
{
    struct shipment *s;

    if (ev->mask & IN_Q_OVERFLOW) {
        for (s = ship->by_id; s; s = s->hh.next)
            for (int i = 0; i < LOG_STREAMS; i++)
                queue_stream(&s->streams[i]);
        return;
    }
    HASH_FIND(hh_wd, ship->by_wd, &ev->wd, sizeof(ev->wd), s);
    if (!s || ev->len == 0)
        return;
    for (int i = 0; i < LOG_STREAMS; i++) {
        const char *name = log_stream_to_string((enum log_stream)i);
        size_t len = strlen(name);
        if (strncmp(ev->name, name, len) == 0 && ev->name[len] == '.' && ev->name[len + 1] != 't')
            queue_stream(&s->streams[i]);
    }
}

static void inotify_cb(uv_poll_t *poll, int status, int events)
{
    struct log_ship *ship = poll->data;
    char buffer[16384] __attribute__((aligned(__alignof__(struct inotify_event))));

    (void)status;
    (void)events;
    // One buffer per turn: what is left keeps the descriptor readable, and others get their turn.
    ssize_t n = read(ship->inotify_fd, buffer, sizeof(buffer));
    for (ssize_t at = 0; at < n;) {
        const struct inotify_event *ev = (const struct inotify_event *)(const void *)(buffer + at);
        event(ship, ev);
        at += (ssize_t)(sizeof(*ev) + ev->len);
    }
    pump(ship);
}

static void watch(struct shipment *s)
{
    char path[ATTEMPT_PATH_BYTES];

    attempt_path(&s->ship->options.dirs, s->id, "out", path);
    s->wd = inotify_add_watch(s->ship->inotify_fd, path, IN_MODIFY | IN_ONLYDIR);
    if (s->wd < 0) {
        // Its logs still come: at its end, and whenever the master answers again.
        log_warn("logs", "attempt %s: its log folder can't be watched: %s", s->id, strerror(errno));
        return;
    }
    HASH_ADD(hh_wd, s->ship->by_wd, wd, sizeof(s->wd), s);
}

// --- public --------------------------------------------------------------------------------------

static struct shipment *find(struct log_ship *ship, const char *id)
{
    struct shipment *s;
    HASH_FIND_STR(ship->by_id, id, s);
    return s;
}

int log_ship_new(const struct log_ship_options *options, struct log_ship **ret, struct err *e)
{
    struct log_ship *ship = calloc(1, sizeof(*ship));

    if (!ship)
        return err_set(e, -ENOMEM, "out of memory");
    ship->options = *options;
    if (!ship->options.bound_ms)
        ship->options.bound_ms = LOG_BOUND_MS;
    backoff_init(&ship->backoff, 200, 5000);
    ship->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (ship->inotify_fd < 0) {
        int r = -errno;
        free(ship);
        return err_errno(e, r, "inotify");
    }
    (void)uv_timer_init(options->loop, &ship->retry);
    (void)uv_timer_init(options->loop, &ship->bound);
    (void)uv_poll_init(options->loop, &ship->poll, ship->inotify_fd);
    ship->poll.data = ship->retry.data = ship->bound.data = ship;
    ship->handles = 3;
    (void)uv_poll_start(&ship->poll, UV_READABLE, inotify_cb);
    *ret = ship;
    return 0;
}

void log_ship_open(struct log_ship *ship, const char *attempt_id, bool resume)
{
    if (find(ship, attempt_id))
        return;
    struct shipment *s = calloc(1, sizeof(*s));
    if (!s) {
        log_error("logs", "attempt %s: out of memory, its logs are not shipped", attempt_id);
        return;
    }
    (void)snprintf(s->id, sizeof(s->id), "%s", attempt_id);
    s->ship = ship;
    for (int i = 0; i < LOG_STREAMS; i++) {
        s->streams[i].owner = s;
        s->streams[i].stream = (enum log_stream)i;
        s->streams[i].asked = !resume;
    }
    HASH_ADD_STR(ship->by_id, id, s);
    watch(s);
    for (int i = 0; i < LOG_STREAMS; i++)
        queue_stream(&s->streams[i]); // there may be bytes from before the watch
    pump(ship);
}

void log_ship_end(struct log_ship *ship, const char *attempt_id)
{
    struct shipment *s = find(ship, attempt_id);

    if (!s || s->ended)
        return;
    struct exit_record record;
    s->ended = true;
    if (attempt_exit_read(&ship->options.dirs, s->id, &record, NULL) == 0 && record.logs_lost)
        s->gave_up = true;
    s->due_ms = clock_mono_ms() + ship->options.bound_ms;
    for (int i = 0; i < LOG_STREAMS; i++)
        queue_stream(&s->streams[i]);
    pump(ship);
    if (s->due_ms)
        arm_bound(ship);
}

void log_ship_forget(struct log_ship *ship, const char *attempt_id)
{
    struct shipment *s = find(ship, attempt_id);

    if (!s)
        return;
    unwatch(s);
    for (int i = 0; i < LOG_STREAMS; i++)
        unqueue_stream(&s->streams[i]);
    HASH_DELETE(hh, ship->by_id, s);
    s->forgotten = true;
    shipment_free(s);
}

void log_ship_online(struct log_ship *ship, bool online)
{
    if (ship->online == online)
        return;
    ship->online = online;
    if (!online)
        return;
    (void)backoff_reset(&ship->backoff);
    (void)uv_timer_stop(&ship->retry);
    ship->waiting = false;
    for (struct shipment *s = ship->by_id; s; s = s->hh.next)
        for (int i = 0; i < LOG_STREAMS; i++)
            queue_stream(&s->streams[i]);
    pump(ship);
}

static void handle_closed(uv_handle_t *handle)
{
    struct log_ship *ship = handle->data;

    if (--ship->handles > 0)
        return;
    (void)close(ship->inotify_fd);
    void (*closed)(void *) = ship->closed;
    void *userdata = ship->closed_userdata;
    free(ship);
    if (closed)
        closed(userdata);
}

void log_ship_close(struct log_ship *ship, void (*closed)(void *userdata), void *userdata)
{
    struct shipment *s, *next;

    ship->closing = true;
    ship->closed = closed;
    ship->closed_userdata = userdata;
    HASH_ITER (hh, ship->by_id, s, next) {
        log_ship_forget(ship, s->id);
    }
    uv_close((uv_handle_t *)&ship->poll, handle_closed);
    uv_close((uv_handle_t *)&ship->retry, handle_closed);
    uv_close((uv_handle_t *)&ship->bound, handle_closed);
}
