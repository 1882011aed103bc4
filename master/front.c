// SPDX-License-Identifier: Apache-2.0
// Options of the HTTP front, out of the configuration.
#include "master/front.h"

#include "master/api/limits.h"

#define BODY_LIMIT 65536

void front_options(const struct master_config *c, uv_loop_t *loop, struct api *a,
                   struct http_server_options *ret)
{
    *ret = (struct http_server_options){.loop = loop,
                                        .handlers = &api_http_handlers,
                                        .userdata = a,
                                        .body_limit = BODY_LIMIT,
                                        .header_timeout_ms = (unsigned)c->limits.header_ms,
                                        .body_timeout_ms = (unsigned)c->limits.body_ms,
                                        .idle_timeout_ms = (unsigned)c->limits.idle_ms,
                                        .max_connections = (unsigned)c->max_connections};
}

int front_limits(const struct master_config *c, struct limits **ret, struct err *e)
{
    const struct limits_options o = {.address_rate = (uint32_t)c->limits.address_rate,
                                     .address_burst = (uint32_t)c->limits.address_burst,
                                     .identity_rate = (uint32_t)c->limits.identity_rate,
                                     .identity_burst = (uint32_t)c->limits.identity_burst};
    return limits_new(&o, ret) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
}
