// SPDX-License-Identifier: Apache-2.0
// The names and addresses in the server's certificate.
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <stddef.h>

#define SERVER_NAMES_MAX 64

struct server_names {                  // owned texts; server_names_reset
    char *items[SERVER_NAMES_MAX + 1]; // ends with NULL
    size_t n;
};

// Adds a host name or address once, whatever its case (names are compared so, RFC 4343); what is
// neither, and what is beyond the limit, is left out. An empty name is nothing.
void server_names_add(struct server_names *x, const char *name);
// localhost, the loopback addresses, the host name, and the machine's interface addresses.
void server_names_of_machine(struct server_names *x);
bool server_names_equal(const struct server_names *a, const struct server_names *b);
void server_names_reset(struct server_names *x);
