// SPDX-License-Identifier: Apache-2.0
// Addresses of clients as limits see them.
#pragma once

#include <sys/socket.h>

#define HTTP_ADDRESS_BYTES 64

// The text of a peer's address: "192.0.2.1", also of one that is mapped into IPv6; "" when it is
// neither IPv4 nor IPv6. out holds HTTP_ADDRESS_BYTES.
void http_address_text(const struct sockaddr_storage *from, char *out);
// Whom a limit counts: an IPv4 address by itself, an IPv6 address with its whole /64, since one
// machine has all of that ("2001:db8:0:1::/64"). out holds HTTP_ADDRESS_BYTES.
void http_address_group(const char *address, char *out);
