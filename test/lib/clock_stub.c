// SPDX-License-Identifier: Apache-2.0
// A clock that a test sets, for programs that are loaded with it: CLOCK_REALTIME is off by the
// nanoseconds that the file named by CLOCK_OFFSET_FILE holds (an int64, read at each look). All
// other clocks, and kernel timers, stay as they are: as if somebody set the machine's clock.
// libfaketime can do the same, but not for programs with jemalloc, such as redis-server.
//   cc -shared -fPIC -o libclock_stub.so test/lib/clock_stub.c
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define SECOND INT64_C(1000000000)

static const volatile int64_t *offset;

__attribute__((constructor)) static void find_offset(void)
{
    const char *path = getenv("CLOCK_OFFSET_FILE");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(*offset), PROT_READ, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED)
        offset = map;
    if (fd >= 0)
        (void)close(fd);
}

// Straight from the kernel: dlsym allocates, and allocators look at the clock.
int clock_gettime(clockid_t id, struct timespec *ts)
{
    if (syscall(SYS_clock_gettime, id, ts) < 0)
        return -1;
    if (offset && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) {
        int64_t ns = ts->tv_sec * SECOND + ts->tv_nsec + *offset;
        ts->tv_sec = ns / SECOND;
        ts->tv_nsec = ns % SECOND;
    }
    return 0;
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    struct timespec ts;
    (void)zone;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *ret)
{
    struct timespec ts;
    (void)clock_gettime(CLOCK_REALTIME, &ts);
    if (ret)
        *ret = ts.tv_sec;
    return ts.tv_sec;
}
