// SPDX-License-Identifier: Apache-2.0
// Which of this machine's addresses other nodes reach it by: the one it uses towards the master.
#pragma once

#include "common/err.h"
#include <uv.h>

#define ADDRESS_BYTES 64

// Splits "https://HOST:PORT[/...]" ("[v6]" too); the port is 443 when missing. -EINVAL.
int address_split_url(const char *url, char *ret_host, size_t host_size, char ret_port[8],
                      struct err *e) WARN_UNUSED;

// Looks the master's name up (in the background) and calls `found` once from the loop with the
// local address, "" when it can't be told. No packet is sent.
int address_find(uv_loop_t *loop, const char *url,
                 void (*found)(const char *address, void *userdata), void *userdata,
                 struct err *e) WARN_UNUSED;
