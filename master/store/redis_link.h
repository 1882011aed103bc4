// SPDX-License-Identifier: Apache-2.0
// hiredis in the libuv loop: one uv_poll for each of its contexts.
#pragma once

#include "common/err.h"
#include <uv.h>

struct redisAsyncContext;

// Has the loop watch the context's descriptor from now until hiredis frees the context. -errno:
// nothing was attached.
int redis_link_attach(struct redisAsyncContext *ctx, uv_loop_t *loop) WARN_UNUSED;
