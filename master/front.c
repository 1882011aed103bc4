// SPDX-License-Identifier: Apache-2.0
// Options of the HTTP front, out of the configuration.
#include "master/front.h"

#include "common/limits.h"
#include "common/log.h"
#include "master/api/limits.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define BODY_LIMIT 65536
#define ROOM_MIN 8 // of each kind, however few descriptors there are

// --- descriptors ---

struct room {
    unsigned connections, people, handshakes, local;
};

static unsigned less(int64_t wanted, int64_t there)
{
    int64_t n = wanted < there ? wanted : there;
    return n < ROOM_MIN ? ROOM_MIN : (unsigned)n;
}

// The descriptors that the process may have, shared out. People and handshakes together get at most
// half of the connections: the other half is left to agents whatever people do.
static struct room room_of(const struct master_config *c)
{
    struct rlimit limit = {1024, 1024};
    (void)getrlimit(RLIMIT_NOFILE, &limit);
    int64_t fds = limit.rlim_cur == RLIM_INFINITY ? INT32_MAX : (int64_t)limit.rlim_cur;
    fds -= LIMIT_OTHER_FDS;
    struct room room = {.handshakes = less(c->limits.handshakes, fds / 16),
                        .local = less(c->max_connections, fds / 16)};
    // Each handshake may become one that lingers while another one takes its place.
    int64_t left = (fds - 2 * (int64_t)room.handshakes - room.local) / LIMIT_FDS_PER_TLS;
    room.connections = less(c->max_connections, left);
    room.people = less(c->limits.connections, (int64_t)room.connections / 2 - room.handshakes);
    if (left < c->max_connections)
        log_info("limits",
                 "%lld descriptors are enough for %u connections, not for the %lld of "
                 "max_connections: %u for people, the rest for agents (LimitNOFILE= of the unit)",
                 (long long)limit.rlim_cur, room.connections, (long long)c->max_connections,
                 room.people);
    return room;
}

// --- who is who ---

static bool is_agent(const struct http_peer *peer, void *userdata)
{
    const struct api *a = userdata;
    return cluster_node_by_id(a->cluster, peer->cert_cn) != NULL;
}

static void on_offence(const char *address, const char *what, void *userdata)
{
    struct api *a = userdata;
    limits_offence(a->limits, address, what);
}

void front_options(const struct master_config *c, uv_loop_t *loop, struct api *a,
                   struct http_server_options *ret)
{
    struct room room = room_of(c);
    *ret = (struct http_server_options){
        .loop = loop,
        .handlers = &api_http_handlers,
        .userdata = a,
        .body_limit = BODY_LIMIT,
        .header_timeout_ms = (unsigned)c->limits.header_ms,
        .body_timeout_ms = (unsigned)c->limits.body_ms,
        .idle_timeout_ms = (unsigned)c->limits.idle_ms,
        .max_connections = room.connections,
        .max_local = room.local,
        .limits = {.people = room.people,
                   .address_people = (unsigned)c->limits.address_connections,
                   .handshakes = room.handshakes,
                   .address_handshakes = (unsigned)c->limits.address_handshakes,
                   .handshake_timeout_ms = (unsigned)c->limits.handshake_ms,
                   .is_agent = is_agent,
                   .offence = on_offence}};
}

int front_limits(const struct master_config *c, struct limits **ret, struct err *e)
{
    const struct limits_options o = {.address_rate = (uint32_t)c->limits.address_rate,
                                     .address_burst = (uint32_t)c->limits.address_burst,
                                     .identity_rate = (uint32_t)c->limits.identity_rate,
                                     .identity_burst = (uint32_t)c->limits.identity_burst};
    return limits_new(&o, ret) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
}

void front_url(const struct master_config *c, uint16_t port, char *out, size_t size)
{
    char host[256];
    const char *name = c->advertise;
    if (!name && strcmp(c->listen_address, "0.0.0.0") != 0 && strcmp(c->listen_address, "::") != 0)
        name = c->listen_address;
    if (!name)
        name = gethostname(host, sizeof(host)) == 0 ? host : "localhost";
    (void)snprintf(out, size, strchr(name, ':') ? "https://[%s]:%u" : "https://%s:%u", name, port);
}
