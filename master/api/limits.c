// SPDX-License-Identifier: Apache-2.0
// Request rates and their refusals.
#include "master/api/limits.h"

#include "common/clock.h"
#include "common/http_address.h"
#include "common/limits.h"
#include "common/log_limit.h"
#include "common/rate.h"

#include <stdlib.h>

struct limits {
    struct limits_options options;
    struct rate_table *addresses, *identities;
    struct log_limit *log;
    struct limits_counts counts;
};

int limits_new(const struct limits_options *o, struct limits **ret)
{
    const struct rate_options address = {o->address_rate, o->address_burst, LIMIT_RATE_NAMES};
    const struct rate_options identity = {o->identity_rate, o->identity_burst, LIMIT_RATE_NAMES};
    struct limits *l = calloc(1, sizeof(*l));
    if (!l)
        return -ENOMEM;
    l->options = *o;
    if (rate_new(&address, &l->addresses) < 0 || rate_new(&identity, &l->identities) < 0 ||
        log_limit_new(LIMIT_OFFENCES, LIMIT_OFFENCE_MS, &l->log) < 0) {
        limits_free(l);
        return -ENOMEM;
    }
    *ret = l;
    return 0;
}

void limits_free(struct limits *l)
{
    if (!l)
        return;
    rate_free(l->addresses);
    rate_free(l->identities);
    log_limit_free(l->log);
    free(l);
}

struct limits_counts limits_counts(const struct limits *l)
{
    return l ? l->counts : (struct limits_counts){0};
}

void limits_offence(struct limits *l, const char *address, const char *what)
{
    if (l)
        log_limit_warn(l->log, "limits", address, what, "refused: too many %s at once", what);
}

static bool exempt(const struct call *call)
{
    const struct http_peer *peer = http_request_peer(call->req);
    return peer->local ||
           (peer->has_cert && cluster_node_by_id(call->api->cluster, peer->cert_cn) != NULL);
}

// Answers 429; what is late by `wait_ms` may come again in that many seconds, rounded up.
static void refuse(struct limits *l, struct call *call, const char *who, uint32_t rate,
                   const char *setting, int64_t wait_ms)
{
    char seconds[24];
    (void)snprintf(seconds, sizeof(seconds), "%lld", (long long)((wait_ms + 999) / 1000));
    http_respond_header(call->req, "Retry-After", seconds);
    api_problem(call, 429,
                "too many requests from %s: at most %u a second are answered (%s in master.yml); "
                "nothing was done, try again in %s s",
                who, rate, setting, seconds);
    log_limit_warn(l->log, "limits", who, setting, "more than %u requests a second (%s)", rate,
                   setting);
}

bool limits_admit_address(struct limits *l, struct call *call)
{
    char address[HTTP_ADDRESS_BYTES];
    if (!l || call->who.sealed || exempt(call)) // the envelope itself was counted
        return true;
    http_address_group(http_request_peer(call->req)->address, address);
    int64_t wait_ms = rate_take(l->addresses, address, clock_boot_ms());
    if (wait_ms == 0)
        return true;
    l->counts.by_address++;
    refuse(l, call, address, l->options.address_rate, "limits.address_rate", wait_ms);
    return false;
}

bool limits_admit_identity(struct limits *l, struct call *call)
{
    if (!l || call->who.local || call->who.node || call->who.user[0] == '\0')
        return true;
    int64_t wait_ms = rate_take(l->identities, call->who.user, clock_boot_ms());
    if (wait_ms == 0)
        return true;
    l->counts.by_identity++;
    refuse(l, call, call->who.user, l->options.identity_rate, "limits.identity_rate", wait_ms);
    return false;
}
