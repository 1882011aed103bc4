// SPDX-License-Identifier: Apache-2.0
// Clocks and their text form (RFC 3339).
#include "common/clock.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int64_t read_ms(clockid_t id)
{
    struct timespec ts;
    (void)clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

// The machine's clock minus CLOCK_BOOTTIME, as believed; read by threads of the pool too.
static _Atomic int64_t believed;
static _Atomic bool known;

int64_t clock_step_ms(void)
{
    int64_t offset = read_ms(CLOCK_REALTIME) - read_ms(CLOCK_BOOTTIME);
    int64_t step = offset - believed;
    if (known && (step > CLOCK_STEP_MS || step < -CLOCK_STEP_MS))
        return step;
    believed = offset; // also what is slewed, and small steps
    known = true;
    return 0;
}

int64_t clock_real_ms(void)
{
    return read_ms(CLOCK_REALTIME) - clock_step_ms();
}

void clock_believe(void)
{
    known = false;
    (void)clock_step_ms();
}

int64_t clock_mono_ms(void)
{
    return read_ms(CLOCK_MONOTONIC);
}

int64_t clock_boot_ms(void)
{
    return read_ms(CLOCK_BOOTTIME);
}

void clock_boot_id(char out[CLOCK_BOOT_ID_BYTES])
{
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, out, CLOCK_BOOT_ID_BYTES - 1) : -1;
    if (fd >= 0)
        (void)close(fd);
    out[n > 0 ? n : 0] = '\0';
    out[strcspn(out, "\n")] = '\0';
}

void clock_format_ms(int64_t real_ms, char *out)
{
    time_t seconds = (time_t)(real_ms / 1000);
    int ms = (int)(real_ms % 1000);
    struct tm tm;
    char date[CLOCK_TEXT_BYTES - 8];

    if (real_ms < 0 || !gmtime_r(&seconds, &tm) ||
        strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &tm) == 0) {
        (void)snprintf(out, CLOCK_TEXT_BYTES, "1970-01-01T00:00:00.000Z");
        return;
    }
    (void)snprintf(out, CLOCK_TEXT_BYTES, "%s.%03dZ", date, ms);
}

int clock_parse(const char *text, int64_t *ret_ms)
{
    struct tm tm = {0};
    const char *rest = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
    int64_t ms = 0;

    if (!rest)
        return -EINVAL;
    if (*rest == '.') {
        int scale = 100;
        for (rest++; *rest >= '0' && *rest <= '9'; rest++, scale /= 10)
            ms += (int64_t)(*rest - '0') * scale;
    }
    if (strcmp(rest, "Z") != 0)
        return -EINVAL;
    int day = tm.tm_mday;
    int64_t seconds = (int64_t)timegm(&tm);
    if (tm.tm_mday != day) // 30 February
        return -EINVAL;
    *ret_ms = seconds * 1000 + ms;
    return 0;
}
