// SPDX-License-Identifier: Apache-2.0
// Who has a place: connections by kind and by address, and who makes room for whom.
#include "common/limits.h"
#include "common/tls_front_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <utlist.h>

static uint64_t now(const struct tls_front *f)
{
    return uv_now(f->options.loop);
}

// --- addresses ---

static struct tls_address *address_get(struct tls_front *f, const char *address)
{
    char group[HTTP_ADDRESS_BYTES];
    struct tls_address *a;
    http_address_group(address, group);
    HASH_FIND_STR(f->addresses, group, a);
    if (!a) {
        a = calloc(1, sizeof(*a));
        if (!a)
            return NULL;
        memcpy(a->group, group, sizeof(a->group));
        HASH_ADD_STR(f->addresses, group, a);
    }
    a->conns++;
    return a;
}

static void address_put(struct tls_front *f, struct tls_address *a)
{
    if (a && --a->conns == 0) {
        HASH_DEL(f->addresses, a);
        free(a);
    }
}

static void count(struct tls_conn *c, int by)
{
    if (c->address && c->kind == TLS_HANDSHAKE)
        c->address->handshakes += (unsigned)by;
    if (c->address && (c->kind == TLS_IDLE || c->kind == TLS_BUSY))
        c->address->people += (unsigned)by;
    c->front->counts[c->kind] += (unsigned)by;
}

// --- kinds ---

static void put(struct tls_conn *c, enum tls_kind kind)
{
    c->kind = kind;
    c->since_ms = now(c->front);
    DL_APPEND(c->front->lists[kind], c);
    count(c, 1);
}

void tls_room_move(struct tls_conn *c, enum tls_kind kind)
{
    count(c, -1);
    DL_DELETE(c->front->lists[c->kind], c);
    put(c, kind);
}

void tls_room_leave(struct tls_conn *c)
{
    count(c, -1);
    DL_DELETE(c->front->lists[c->kind], c);
    address_put(c->front, c->address);
}

int tls_room_pair(struct tls_conn *c, int inner_fd)
{
    struct tls_front *f = c->front;
    size_t fd = (size_t)inner_fd;
    if (fd >= f->by_inner_size) {
        size_t size = (fd + 64) * 2;
        struct tls_conn **x = realloc(f->by_inner, size * sizeof(struct tls_conn *));
        if (!x)
            return -ENOMEM;
        memset(x + f->by_inner_size, 0, (size - f->by_inner_size) * sizeof(struct tls_conn *));
        f->by_inner = x;
        f->by_inner_size = size;
    }
    f->by_inner[fd] = c;
    c->inner_fd = inner_fd;
    return 0;
}

// The number may be another connection's by now.
void tls_room_unpair(struct tls_conn *c)
{
    if (c->inner_fd >= 0 && c->front->by_inner[c->inner_fd] == c)
        c->front->by_inner[c->inner_fd] = NULL;
    c->inner_fd = -1;
}

// --- making room ---

// The oldest of a list, of one address (NULL = any), that had its time; NULL = there is none.
static struct tls_conn *oldest(const struct tls_front *f, enum tls_kind kind,
                               const struct tls_address *a, unsigned grace_ms)
{
    struct tls_conn *c;
    DL_FOREACH (f->lists[kind], c) {
        if (now(f) - c->since_ms < grace_ms)
            return NULL;
        if (!a || c->address == a)
            return c;
    }
    return NULL;
}

// What a client sent and nobody has read yet is our delay and not its: the handshake gets its time
// once more. Else a server that can't keep up with all who come back at once would finish none.
static bool spared(struct tls_conn *c)
{
    int unread = 0;
    if (c->spared || ioctl(c->fd, FIONREAD, &unread) < 0 || unread == 0)
        return false;
    c->spared = true;
    tls_room_move(c, TLS_HANDSHAKE);
    return true;
}

static bool evict_handshake(struct tls_front *f, const struct tls_address *a)
{
    struct tls_conn *c;
    do
        c = oldest(f, TLS_HANDSHAKE, a, LIMIT_HANDSHAKE_GRACE_MS);
    while (c && spared(c));
    if (!c)
        return false;
    f->stats.handshakes_evicted++;
    tls_conn_close(c);
    return true;
}

static bool evict_idle(struct tls_front *f, const struct tls_address *a, unsigned grace_ms)
{
    struct tls_conn *c = oldest(f, TLS_IDLE, a, grace_ms);
    if (!c)
        return false;
    f->stats.evicted_idle++;
    tls_conn_close(c);
    return true;
}

bool tls_front_evict_idle(struct tls_front *f)
{
    return f && evict_idle(f, NULL, 0);
}

// But for those that only linger.
static unsigned connections(const struct tls_front *f)
{
    unsigned n = 0;
    for (int kind = TLS_HANDSHAKE; kind < TLS_LINGER; kind++)
        n += f->counts[kind];
    return n;
}

static unsigned until(const struct tls_front *f, enum tls_kind kind, unsigned grace_ms)
{
    const struct tls_conn *c = f->lists[kind];
    uint64_t age = c ? now(f) - c->since_ms : 0;
    return !c ? UINT32_MAX : age < grace_ms ? (unsigned)(grace_ms - age) : 1;
}

bool tls_front_room(struct tls_front *f, unsigned *ret_ms)
{
    unsigned max = f->options.limits.handshakes;
    bool shaking = max && f->counts[TLS_HANDSHAKE] >= max;
    bool full = connections(f) >= f->options.connections;
    *ret_ms = 0;
    if ((!shaking && !full) || evict_handshake(f, NULL))
        return true;
    if (!shaking && evict_idle(f, NULL, LIMIT_IDLE_GRACE_MS))
        return true;
    unsigned ms = until(f, TLS_HANDSHAKE, LIMIT_HANDSHAKE_GRACE_MS);
    unsigned idle_ms = shaking ? UINT32_MAX : until(f, TLS_IDLE, LIMIT_IDLE_GRACE_MS);
    ms = ms < idle_ms ? ms : idle_ms;
    *ret_ms = ms == UINT32_MAX ? 0 : ms;
    return false;
}

int tls_room_enter(struct tls_conn *c, const char *address)
{
    struct tls_front *f = c->front;
    unsigned max = f->options.limits.address_handshakes;
    c->address = address_get(f, address);
    put(c, TLS_HANDSHAKE);
    if (!c->address)
        return -ENOMEM;
    if (!max || c->address->handshakes <= max || evict_handshake(f, c->address))
        return 0;
    f->stats.refused_address++;
    if (f->options.limits.offence)
        f->options.limits.offence(c->address->group, "handshakes", f->options.limits_userdata);
    return -EUSERS;
}

// --- after the handshake ---

static unsigned people(const struct tls_front *f)
{
    return f->counts[TLS_IDLE] + f->counts[TLS_BUSY];
}

static void offence(const struct tls_conn *c, const char *what)
{
    const struct http_limits *l = &c->front->options.limits;
    if (l->offence)
        l->offence(c->address->group, what, c->front->options.limits_userdata);
}

static bool admit_people(struct tls_conn *c)
{
    struct tls_front *f = c->front;
    const struct http_limits *l = &f->options.limits;
    if (l->address_people && c->address->people >= l->address_people &&
        !evict_idle(f, c->address, LIMIT_IDLE_GRACE_MS)) {
        char detail[200];
        (void)snprintf(detail, sizeof(detail),
                       "too many connections from %s: at most %u at once "
                       "(limits.address_connections in master.yml)",
                       c->address->group, l->address_people);
        f->stats.refused_address++;
        offence(c, "connections");
        tls_conn_refuse(c, 429, "Too Many Requests", detail);
        return false;
    }
    if (l->people && people(f) >= l->people && !evict_idle(f, NULL, LIMIT_IDLE_GRACE_MS)) {
        f->stats.refused_full++;
        offence(c, "all connections");
        tls_conn_refuse(c, 503, "Service Unavailable",
                        "all connections for people are in use (limits.connections in "
                        "master.yml): try again soon");
        return false;
    }
    return true;
}

bool tls_room_admit(struct tls_conn *c)
{
    const struct http_limits *l = &c->front->options.limits;
    c->agent =
        l->is_agent && c->peer.has_cert && l->is_agent(&c->peer, c->front->options.limits_userdata);
    if (!c->agent && !admit_people(c))
        return false;
    return true;
}

void tls_room_settle(struct tls_conn *c)
{
    tls_room_move(c, c->agent ? TLS_AGENT : TLS_IDLE);
}

void tls_front_busy(struct tls_front *f, int inner_fd, bool busy)
{
    size_t fd = (size_t)inner_fd;
    struct tls_conn *c = f && fd < f->by_inner_size ? f->by_inner[fd] : NULL;
    if (c && (c->kind == TLS_IDLE || c->kind == TLS_BUSY))
        tls_room_move(c, busy ? TLS_BUSY : TLS_IDLE);
}

// --- the front as a whole ---

bool tls_front_idle(const struct tls_front *f)
{
    for (int kind = 0; f && kind < TLS_KINDS; kind++)
        if (f->lists[kind])
            return false;
    return true;
}

void tls_front_counts(const struct tls_front *f, struct tls_front_stats *ret,
                      struct http_server_stats *now_there)
{
    *ret = f->stats;
    now_there->handshakes = f->counts[TLS_HANDSHAKE] + f->counts[TLS_STARVED];
    now_there->agents = f->counts[TLS_AGENT];
    now_there->people_idle = f->counts[TLS_IDLE];
    now_there->people_busy = f->counts[TLS_BUSY];
    now_there->lingering = f->counts[TLS_LINGER];
}
