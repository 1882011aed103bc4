// SPDX-License-Identifier: Apache-2.0
// Where a Redis is, from `redis_url`: redis://[user:password@]host[:port][/db] or
// unix:/path/of/socket.
#pragma once

#include "common/err.h"
#include <stddef.h>
#include <stdint.h>

struct redis_address {
    char *path;     // of a unix socket; NULL = host and port
    char *host;     // name or IP address
    char *user;     // NULL = Redis's user "default"
    char *password; // NULL = no login
    char database[8];
    uint16_t port;
};

// Reads a URL; what is wrong with it is in `e`, without its password. -EINVAL, -ENOMEM.
int redis_address_parse(const char *url, struct redis_address *ret, struct err *e) WARN_UNUSED;
// A copy of its own. -ENOMEM: nothing is left of it.
int redis_address_copy(const struct redis_address *a, struct redis_address *ret) WARN_UNUSED;
void redis_address_free(struct redis_address *a); // what it owns, not the struct
// For people: without user and password. Returns out.
const char *redis_address_show(const struct redis_address *a, char *out, size_t size);
