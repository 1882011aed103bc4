// SPDX-License-Identifier: Apache-2.0
// Encoding of segments and a buffered walk through one. Nothing here trusts the file: a frame that
// is cut, too long or does not match its check ends the walk.
#include "master/logs/log_segment.h"

#include "common/cleanup.h"

#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define FRAME_MAGIC 0x4C4D
#define PATH_BYTES (LOG_ATTEMPT_BYTES + 12)
static const uint8_t magic[8] = {'M', 'E', 'A', 'D', 'O', 'W', 'L', '1'};
// Holds any frame, and some small ones more.
#define BUFFER_BYTES (LOG_FRAME_BYTES + LOG_CHUNK_BYTES + 8u * 1024)

static void put32(uint8_t *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, sizeof(v));
}
static void put64(uint8_t *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, sizeof(v));
}
static uint32_t get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof(v));
    return le32toh(v);
}
static uint64_t get64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof(v));
    return le64toh(v);
}

// FNV-1a: tells a torn or foreign head from a whole one, no more.
static uint32_t check_of(const uint8_t *p, size_t n)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 16777619u;
    return h;
}

void log_head_encode(const struct log_head *h, uint8_t *out)
{
    uint32_t flags = 0;
    memcpy(out, magic, sizeof(magic));
    for (unsigned c = 0; c < LOG_CHANNELS; c++) {
        put64(out + 8 + 8 * c, h->base[c]);
        flags |= (uint32_t)h->mid_line[c] << c;
    }
    put64(out + 24, (uint64_t)h->time_ms);
    put32(out + 32, flags);
    put32(out + 36, check_of(out, 36));
}

static int head_decode(const uint8_t *in, struct log_head *ret)
{
    if (memcmp(in, magic, sizeof(magic)) != 0 || get32(in + 36) != check_of(in, 36))
        return -EPROTO;
    for (unsigned c = 0; c < LOG_CHANNELS; c++) {
        ret->base[c] = get64(in + 8 + 8 * c);
        ret->mid_line[c] = get32(in + 32) >> c & 1;
    }
    ret->time_ms = (int64_t)get64(in + 24);
    return 0;
}

void log_frame_encode(const struct log_frame *f, uint8_t *out)
{
    put32(out, FRAME_MAGIC | (uint32_t)f->kind << 16 | (uint32_t)f->channel << 24);
    put32(out + 4, f->len);
    put64(out + 8, (uint64_t)f->time_ms);
    put64(out + 16, f->offset);
    put32(out + 24, 0);
    put32(out + 28, check_of(out, 28));
}

static bool is_length_right(uint32_t kind, uint32_t len)
{
    switch (kind) {
    case LOG_FRAME_DATA:
        return len > 0 && len <= LOG_CHUNK_BYTES;
    case LOG_FRAME_GAP:
        return len == LOG_GAP_BYTES;
    case LOG_FRAME_END:
        return len == 0;
    default:
        return false;
    }
}

static int frame_decode(const uint8_t *in, struct log_frame *ret)
{
    uint32_t first = get32(in), kind = first >> 16 & 0xFF, channel = first >> 24;
    uint32_t len = get32(in + 4);
    if ((first & 0xFFFF) != FRAME_MAGIC || channel >= LOG_CHANNELS || !is_length_right(kind, len) ||
        get32(in + 28) != check_of(in, 28))
        return -EPROTO;
    *ret = (struct log_frame){.kind = (enum log_frame_kind)kind,
                              .channel = (enum log_channel)channel,
                              .len = len,
                              .time_ms = (int64_t)get64(in + 8),
                              .offset = get64(in + 16)};
    return 0;
}

void log_gap_encode(uint64_t gap, uint8_t *out)
{
    put64(out, gap);
}

uint64_t log_gap_decode(const uint8_t *in)
{
    return get64(in);
}

// --- files ---

static void path_of(const char *attempt, uint32_t number, char *out)
{
    (void)snprintf(out, PATH_BYTES, "%.64s/%08" PRIu32, attempt, number);
}

int log_segment_open(int dir_fd, const char *attempt, uint32_t number, int flags, int *ret_fd)
{
    char path[PATH_BYTES];
    path_of(attempt, number, path);
    int fd = openat(dir_fd, path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    *ret_fd = fd;
    return 0;
}

int log_segment_unlink(int dir_fd, const char *attempt, uint32_t number)
{
    char path[PATH_BYTES];
    path_of(attempt, number, path);
    return unlinkat(dir_fd, path, 0) < 0 ? -errno : 0;
}

int log_segment_head(int fd, struct log_head *ret)
{
    uint8_t head[LOG_HEAD_BYTES];
    ssize_t n = pread(fd, head, sizeof(head), 0);
    if (n < 0)
        return -errno;
    return n == (ssize_t)sizeof(head) ? head_decode(head, ret) : -EPROTO;
}

static uint32_t number_of(const char *name)
{
    char again[12];
    unsigned v = 0;
    if (sscanf(name, "%8u", &v) != 1)
        return 0;
    (void)snprintf(again, sizeof(again), "%08u", v);
    return strcmp(again, name) == 0 ? v : 0;
}

static void list_one(DIR *d, const char *name, struct log_listing *ret)
{
    struct stat st;
    uint32_t number = number_of(name);
    if (number == 0 || fstatat(dirfd(d), name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    ret->first = ret->n == 0 || number < ret->first ? number : ret->first;
    ret->last = number > ret->last ? number : ret->last;
    ret->bytes += (uint64_t)st.st_size;
    int64_t written = (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000;
    ret->written_ms = written > ret->written_ms ? written : ret->written_ms;
    ret->n++;
}

int log_segment_list(int dir_fd, const char *attempt, struct log_listing *ret)
{
    *ret = (struct log_listing){0};
    int fd = openat(dir_fd, attempt, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? 0 : -errno;
    DIR *d = fdopendir(fd);
    if (!d) {
        int r = -errno;
        (void)close(fd);
        return r;
    }
    for (const struct dirent *e; (e = readdir(d));)
        list_one(d, e->d_name, ret);
    (void)closedir(d);
    return 0;
}

// --- the walk ---

void log_cursor_start(struct log_cursor *c, uint64_t pos)
{
    c->pos = pos;
    c->at = c->len = 0;
}

void log_cursor_reset(struct log_cursor *c)
{
    free(c->buffer);
    c->buffer = NULL;
    c->at = c->len = 0;
}

static int refill(struct log_cursor *c, int fd)
{
    size_t rest = c->len - c->at;
    if (fd < 0)
        return -EAGAIN;
    if (!c->buffer && !(c->buffer = malloc(BUFFER_BYTES)))
        return -ENOMEM;
    memmove(c->buffer, c->buffer + c->at, rest);
    c->at = 0;
    c->len = rest;
    ssize_t n = pread(fd, c->buffer + rest, BUFFER_BYTES - rest, (off_t)(c->pos + rest));
    if (n < 0)
        return -errno;
    c->len += (size_t)n;
    return 0;
}

// 1: the buffer begins with a whole frame; 0: it does not.
static int decode_here(const struct log_cursor *c, struct log_frame *ret)
{
    size_t rest = c->len - c->at;
    if (rest < LOG_FRAME_BYTES)
        return 0;
    int r = frame_decode(c->buffer + c->at, ret);
    return r < 0 ? r : rest - LOG_FRAME_BYTES >= ret->len;
}

int log_cursor_next(struct log_cursor *c, int fd, struct log_frame *ret, const uint8_t **ret_data)
{
    struct log_frame f = {0};
    int r = decode_here(c, &f);
    if (r == 0) {
        r = refill(c, fd);
        if (r == 0)
            r = decode_here(c, &f);
        if (r == 0 && c->len > c->at)
            r = -EPROTO;
    }
    if (r <= 0)
        return r;
    *ret = f;
    *ret_data = c->buffer + c->at + LOG_FRAME_BYTES;
    c->at += LOG_FRAME_BYTES + f.len;
    c->pos += LOG_FRAME_BYTES + f.len;
    return 1;
}

void log_cursor_back(struct log_cursor *c, const struct log_frame *f)
{
    c->at -= LOG_FRAME_BYTES + f->len;
    c->pos -= LOG_FRAME_BYTES + f->len;
}
