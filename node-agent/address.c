// SPDX-License-Identifier: Apache-2.0
// The local address towards the master: a connected UDP socket makes the kernel choose the route
// and the source address without sending anything.
#include "node-agent/address.h"

#include "common/cleanup.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

struct lookup {
    uv_getaddrinfo_t request;
    void (*found)(const char *address, void *userdata);
    void *userdata;
};

int address_split_url(const char *url, char *ret_host, size_t host_size, char ret_port[8],
                      struct err *e)
{
    const char *host = strstr(url, "://");
    const char *end;
    const char *port = "443";

    host = host ? host + 3 : url;
    size_t len = strcspn(host, "/");
    if (*host == '[') {
        host++;
        end = memchr(host, ']', len);
        if (!end)
            return err_set(e, -EINVAL, "\"%s\": a [ without ]", url);
        if (end[1] == ':')
            port = end + 2;
    } else {
        end = memchr(host, ':', len);
        if (end)
            port = end + 1;
        else
            end = host + len;
    }
    size_t port_len = strspn(port, "0123456789");
    if (end == host || (size_t)(end - host) >= host_size || port_len == 0 || port_len > 5)
        return err_set(e, -EINVAL, "\"%s\": no host and port", url);
    memcpy(ret_host, host, (size_t)(end - host));
    ret_host[end - host] = '\0';
    memcpy(ret_port, port, port_len);
    ret_port[port_len] = '\0';
    return 0;
}

static bool local_towards(const struct addrinfo *to, char out[ADDRESS_BYTES])
{
    struct sockaddr_storage local;
    socklen_t len = sizeof(local);
    cleanup_close int fd = socket(to->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    return fd >= 0 && connect(fd, to->ai_addr, to->ai_addrlen) == 0 &&
           getsockname(fd, (struct sockaddr *)&local, &len) == 0 &&
           getnameinfo((struct sockaddr *)&local, len, out, ADDRESS_BYTES, NULL, 0,
                       NI_NUMERICHOST) == 0;
}

static void resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *list)
{
    struct lookup *l = request->data;
    char address[ADDRESS_BYTES] = "";

    for (const struct addrinfo *to = status == 0 ? list : NULL; to; to = to->ai_next)
        if (local_towards(to, address))
            break;
    l->found(address, l->userdata);
    uv_freeaddrinfo(list);
    free(l);
}

int address_find(uv_loop_t *loop, const char *url,
                 void (*found)(const char *address, void *userdata), void *userdata, struct err *e)
{
    char host[256];
    char port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICSERV};
    int r = address_split_url(url, host, sizeof(host), port, e);

    if (r < 0)
        return r;
    struct lookup *l = calloc(1, sizeof(*l));
    if (!l)
        return err_set(e, -ENOMEM, "out of memory");
    l->request.data = l;
    l->found = found;
    l->userdata = userdata;
    r = uv_getaddrinfo(loop, &l->request, resolved, host, port, &hints);
    if (r < 0) {
        free(l);
        return err_set(e, r, "%s: %s", host, uv_strerror(r));
    }
    return 0;
}
