// SPDX-License-Identifier: Apache-2.0
// Any bytes as a segment of the log store: reading them, and writing on behind them, must stay
// whole. Checks are put right first (unless the first byte says not to), else nothing would get
// past them.
#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/strbuf.h"
#include "master/logs/log_render.h"

#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define HEAD 40
#define FRAME 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/dev/shm/meadow-fuzz-XXXXXX"; // in memory: the disk would be what is tested
static struct log_store *store;

static void put_check(uint8_t *p, size_t at)
{
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < at; i++)
        h = (h ^ p[i]) * 16777619u;
    h = htole32(h);
    memcpy(p + at, &h, sizeof(h));
}

static void put_checks(uint8_t *p, size_t size)
{
    if (size >= HEAD)
        put_check(p, HEAD - 4);
    for (size_t at = HEAD; at + FRAME <= size;) {
        uint32_t len;
        memcpy(&len, p + at + 4, sizeof(len));
        put_check(p + at, FRAME - 4);
        at += FRAME + (size_t)le32toh(len);
    }
}

static void clean_up(void)
{
    log_store_close(store);
    store = NULL;
    (void)!remove_tree(dir, NULL);
}

static void write_segment(const uint8_t *data, size_t size)
{
    char path[64];
    (void)snprintf(path, sizeof(path), "%s/a", dir);
    (void)mkdir(path, 0700);
    (void)snprintf(path, sizeof(path), "%s/a/00000001", dir);
    cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (write(fd, data, size) != (ssize_t)size)
        abort();
}

static void read_all(int64_t tail, enum log_format format)
{
    cleanup_strbuf struct strbuf out = {0};
    const struct log_render_options o = {.format = format, .timestamps = true, .task = "t"};
    struct log_render *render;
    struct log_reader *r;
    if (log_render_new(&o, &render) < 0)
        abort();
    if (log_reader_open(store, "a", LOG_ALL_CHANNELS, tail, &r) < 0)
        abort();
    for (int e = LOG_NEXT_AGAIN; e == LOG_NEXT_AGAIN;)
        e = log_render_some(render, r, &out, 1 << 20);
    log_render_end(render, &out);
    log_reader_close(r);
    log_render_free(render);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e;
    uint64_t next;
    if (size < 1)
        return 0;
    if (!store) {
        if (!mkdtemp(dir) || log_store_open(dir, 0, &store, &e) < 0)
            abort();
        (void)atexit(clean_up);
    }
    cleanup_free uint8_t *copy = malloc(size);
    memcpy(copy, data + 1, size - 1);
    if (data[0] != 0)
        put_checks(copy, size - 1);
    write_segment(copy, size - 1);
    read_all(LOG_TAIL_ALL, LOG_JSON);
    read_all(data[0], LOG_LINES);
    if (log_store_next(store, "a", LOG_STDERR, &next) == 0)
        (void)!log_store_append(store, "a", LOG_STDERR, next, 1, "more\n", 5, &next);
    read_all(1, LOG_TEXT);
    log_store_delete(store, "a");
    return 0;
}
