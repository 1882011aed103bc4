// SPDX-License-Identifier: Apache-2.0
// One request, of whose answer only the status line is read: "HTTP/1.1 200 OK" (RFC 9112, 4).
#include "node-agent/init/probe_http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define STATUS_BYTES 12 // "HTTP/1.1 200"

// Waits for the socket. 0, or -ETIME.
static int wait_for(int fd, short events, int64_t end_ms)
{
    struct pollfd p = {.fd = fd, .events = events};
    int64_t left;
    while ((left = end_ms - probe_now_ms()) > 0)
        if (poll(&p, 1, left < INT32_MAX ? (int)left : INT32_MAX) > 0)
            return 0;
    return -ETIME;
}

static int open_connection(int fd, int64_t port, int64_t end_ms)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int error = 0;
    socklen_t len = sizeof(error);
    if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return -errno;
    int r = wait_for(fd, POLLOUT, end_ms);
    if (r == 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
        r = -errno;
    return r < 0 ? r : -error;
}

static int send_request(int fd, int64_t port, const char *path, int64_t end_ms)
{
    static char text[4096 + 256];
    int n = snprintf(text, sizeof(text),
                     "GET %s HTTP/1.1\r\nHost: localhost:%" PRId64
                     "\r\nUser-Agent: meadow-init\r\nAccept: */*\r\nConnection: close\r\n\r\n",
                     path, port);
    for (int done = 0; done < n;) {
        ssize_t sent = send(fd, text + done, (size_t)(n - done), MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN)
            return -errno;
        done += sent > 0 ? (int)sent : 0;
        int r = sent < 0 ? wait_for(fd, POLLOUT, end_ms) : 0;
        if (r < 0)
            return r;
    }
    return 0;
}

// The status, or -errno; -EPROTO for what is no HTTP.
static int read_status(int fd, int64_t end_ms)
{
    char text[STATUS_BYTES + 1] = "";
    int status = 0, minor = 0;
    for (size_t n = 0; n < STATUS_BYTES;) {
        int r = wait_for(fd, POLLIN, end_ms);
        if (r < 0)
            return r;
        ssize_t got = recv(fd, text + n, STATUS_BYTES - n, 0);
        if (got < 0 && errno != EAGAIN)
            return -errno;
        if (got == 0)
            return -EPROTO;
        n += got > 0 ? (size_t)got : 0;
    }
    return sscanf(text, "HTTP/1.%1d %3d", &minor, &status) == 2 ? status : -EPROTO;
}

static int request(int64_t port, const char *path, int64_t end_ms)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    int r = open_connection(fd, port, end_ms);
    if (r == 0)
        r = send_request(fd, port, path, end_ms);
    if (r == 0)
        r = read_status(fd, end_ms);
    (void)close(fd);
    return r;
}

bool probe_http(int64_t port, const char *path, int64_t timeout_ms, char *why, size_t size)
{
    int status = request(port, path, probe_now_ms() + timeout_ms);
    if (status >= 200 && status < 400)
        return true;
    if (status == -ETIME)
        (void)snprintf(why, size, "no answer from port %" PRId64 " within %" PRId64 " ms", port,
                       timeout_ms);
    else if (status == -EPROTO)
        (void)snprintf(why, size, "port %" PRId64 " does not speak HTTP", port);
    else if (status < 0)
        (void)snprintf(why, size, "port %" PRId64 ": %s", port, strerror(-status));
    else
        (void)snprintf(why, size, "HTTP status %d from port %" PRId64, status, port);
    return false;
}
