// SPDX-License-Identifier: Apache-2.0
// Texts of addresses.
#include "common/http_address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

void http_address_text(const struct sockaddr_storage *from, char *out)
{
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)from;
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)from;
    const char *text = NULL;
    out[0] = '\0';
    if (from->ss_family == AF_INET)
        text = inet_ntop(AF_INET, &v4->sin_addr, out, HTTP_ADDRESS_BYTES);
    else if (from->ss_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&v6->sin6_addr))
        text = inet_ntop(AF_INET, &v6->sin6_addr.s6_addr[12], out, HTTP_ADDRESS_BYTES);
    else if (from->ss_family == AF_INET6)
        text = inet_ntop(AF_INET6, &v6->sin6_addr, out, HTTP_ADDRESS_BYTES);
    if (!text)
        out[0] = '\0';
}

void http_address_group(const char *address, char *out)
{
    struct in6_addr a;
    if (inet_pton(AF_INET6, address, &a) != 1) {
        (void)snprintf(out, HTTP_ADDRESS_BYTES, "%s", address);
        return;
    }
    char text[INET6_ADDRSTRLEN] = "";
    memset(&a.s6_addr[8], 0, 8);
    (void)!inet_ntop(AF_INET6, &a, text, sizeof(text));
    (void)snprintf(out, HTTP_ADDRESS_BYTES, "%s/64", text);
}
