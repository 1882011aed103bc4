// SPDX-License-Identifier: Apache-2.0
// A set of names, small enough for a list.
#include "master/server_names.h"

#include <arpa/inet.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <uv.h>

static bool is_address(const char *name)
{
    unsigned char address[16];
    return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

static bool is_host(const char *name)
{
    static const char all[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_*";
    return strlen(name) <= 253 && strspn(name, all) == strlen(name);
}

void server_names_add(struct server_names *x, const char *name)
{
    if (!name || !name[0] || x->n == SERVER_NAMES_MAX || !(is_address(name) || is_host(name)))
        return;
    for (size_t i = 0; i < x->n; i++)
        if (strcasecmp(x->items[i], name) == 0)
            return;
    char *copy = strdup(name);
    if (copy)
        x->items[x->n++] = copy;
}

void server_names_of_machine(struct server_names *x)
{
    char text[HOST_NAME_MAX + 1];
    uv_interface_address_t *addresses = NULL;
    int count = 0;
    server_names_add(x, "localhost");
    server_names_add(x, "127.0.0.1");
    server_names_add(x, "::1");
    if (gethostname(text, sizeof(text)) == 0)
        server_names_add(x, text);
    if (uv_interface_addresses(&addresses, &count) < 0)
        return;
    for (int i = 0; i < count; i++) {
        int r = addresses[i].address.address4.sin_family == AF_INET6
                    ? uv_ip6_name(&addresses[i].address.address6, text, sizeof(text))
                    : uv_ip4_name(&addresses[i].address.address4, text, sizeof(text));
        if (r == 0)
            server_names_add(x, text);
    }
    uv_free_interface_addresses(addresses, count);
}

bool server_names_equal(const struct server_names *a, const struct server_names *b)
{
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++) {
        size_t k = 0;
        while (k < b->n && strcasecmp(a->items[i], b->items[k]) != 0)
            k++;
        if (k == b->n)
            return false;
    }
    return true;
}

void server_names_reset(struct server_names *x)
{
    for (size_t i = 0; i < x->n; i++)
        free(x->items[i]);
    *x = (struct server_names){0};
}
