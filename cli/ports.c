// SPDX-License-Identifier: Apache-2.0
// A claim is a record lock on one file that all local clusters of the machine share: byte N stands
// for port N. It belongs to the open file (F_OFD_SETLK), which the agent inherits, so it ends with
// the agent and never goes stale. Ranges with a listener in them are passed over.
#include "cli/ports.h"

#include "common/cleanup.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

static const struct {
    int first, last;
} zones[] = {{10000, 32767}, {61000, 65535}}; // around the kernel's 32768-60999

// -1 when there is no such file to be had: then ranges are only probed.
static int open_claims(void)
{
    static const char *const paths[] = {"/run/lock/meadow-ports", "/tmp/meadow-ports"};

    for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
        int fd = open(paths[i], O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        if (fd < 0 && errno == ENOENT) {
            fd = open(paths[i], O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
            if (fd >= 0)
                (void)fchmod(fd, 0666); // whatever the umask: other users' clusters look here too
            else if (errno == EEXIST)
                fd = open(paths[i], O_RDWR | O_CLOEXEC | O_NOFOLLOW);
        }
        if (fd >= 0)
            return fd;
    }
    return -1;
}

static bool lock_range(int fd, int first, int count)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = first, .l_len = count};
    return fd < 0 || fcntl(fd, F_OFD_SETLK, &l) == 0;
}

static void unlock_range(int fd, int first, int count)
{
    struct flock l = {.l_type = F_UNLCK, .l_whence = SEEK_SET, .l_start = first, .l_len = count};
    if (fd >= 0)
        (void)fcntl(fd, F_OFD_SETLK, &l);
}

static bool port_free(int port)
{
    int one = 1;
    cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_ANY)};

    if (fd < 0)
        return true;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    return bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 || errno != EADDRINUSE;
}

static bool range_free(int first, int count)
{
    for (int port = first; port < first + count; port++)
        if (!port_free(port))
            return false;
    return true;
}

static int slots_in(size_t zone, int count)
{
    return (zones[zone].last - zones[zone].first + 1) / count;
}

static int slot_first(int slot, int count)
{
    size_t zone = slot >= slots_in(0, count);
    return zones[zone].first + (slot - (zone ? slots_in(0, count) : 0)) * count;
}

int ports_claim(const char *seed, int count, struct port_claim *ret, struct err *e)
{
    int slots = slots_in(0, count) + slots_in(1, count);
    unsigned hash = 2166136261u;
    cleanup_close int fd = open_claims();

    for (; *seed; seed++)
        hash = (hash ^ (unsigned char)*seed) * 16777619u;
    for (int i = 0; i < slots; i++) {
        int first = slot_first((int)((hash + (unsigned)i) % (unsigned)slots), count);
        if (!lock_range(fd, first, count))
            continue;
        if (range_free(first, count)) {
            *ret = (struct port_claim){first, count, TAKE_FD(fd)};
            return 0;
        }
        unlock_range(fd, first, count);
    }
    return err_set(e, -ENOSPC, "no %d free ports in a row between %d and %d", count, zones[0].first,
                   zones[1].last);
}

void ports_claim_again(int first, int count, struct port_claim *ret)
{
    cleanup_close int fd = open_claims();

    *ret = (struct port_claim){first, count, -1};
    if (lock_range(fd, first, count))
        ret->fd = TAKE_FD(fd);
}
