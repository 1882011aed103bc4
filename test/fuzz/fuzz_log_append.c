// SPDX-License-Identifier: Apache-2.0
// Any bytes as log frames of an agent, in two appends at offsets of the input's choice: the store
// never answers with more than it was given, and what it holds can be read to its end.
#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "master/api/agents.h"
#include "master/logs/log_render.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char dir[] = "/dev/shm/meadow-fuzz-XXXXXX";
static struct log_store *store;

static void require(int good)
{
    if (!good)
        __builtin_trap();
}

static void clean_up(void)
{
    log_store_close(store);
    (void)!remove_tree(dir, NULL);
}

static void read_all(void)
{
    cleanup_strbuf struct strbuf out = {0};
    const struct log_render_options o = {.format = LOG_JSON, .timestamps = true, .task = "t"};
    struct log_render *render;
    struct log_reader *r;
    require(log_render_new(&o, &render) == 0);
    require(log_reader_open(store, "a", LOG_ALL_CHANNELS, LOG_TAIL_ALL, &r) == 0);
    for (int e = LOG_NEXT_AGAIN; e == LOG_NEXT_AGAIN || e == LOG_NEXT_CHUNK;)
        e = log_render_some(render, r, &out, 1 << 16);
    log_render_end(render, &out);
    log_reader_close(r);
    log_render_free(render);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e;
    uint64_t next = 0, first, offset = 0;
    if (size < 10)
        return 0;
    if (!store) {
        require(mkdtemp(dir) != NULL && log_store_open(dir, 0, &store, &e) == 0);
        (void)atexit(clean_up);
    }
    enum log_channel channel = data[0] & 1 ? LOG_STDERR : LOG_STDOUT;
    size_t cut = data[1] < size - 10 ? data[1] : size - 10;
    memcpy(&offset, data + 2, sizeof(offset));
    const char *frames = (const char *)data + 10;
    int r = agents_logs_append(store, "a", channel, 0, frames, cut, &first);
    require(r < 0 || first <= cut);
    if (r == 0)
        offset = offset & 1 ? first : offset >> 2;
    r = agents_logs_append(store, "a", channel, offset >> 2, frames + cut, size - 10 - cut, &next);
    if (r == 0)
        read_all();
    log_store_delete(store, "a");
    return 0;
}
