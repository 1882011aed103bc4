// SPDX-License-Identifier: Apache-2.0
// What the configuration means for the HTTP front and its limits.
#pragma once

#include "master/api/api.h"
#include "master/config.h"

// Fills *ret. `a` must outlive the server.
void front_options(const struct master_config *c, uv_loop_t *loop, struct api *a,
                   struct http_server_options *ret);
// What others reach the API by: "https://10.0.0.1:7420".
void front_url(const struct master_config *c, uint16_t port, char *out, size_t size);
// *ret is owned by the caller: limits_free. -ENOMEM.
int front_limits(const struct master_config *c, struct limits **ret, struct err *e) WARN_UNUSED;
