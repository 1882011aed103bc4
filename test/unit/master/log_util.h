// SPDX-License-Identifier: Apache-2.0
// A log store in a folder of its own, and a reader that takes everything in.
#pragma once

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/strbuf.h"
#include "master/logs/log_store.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char dir[64];
static struct log_store *store;

static inline void reopen(uint64_t cap)
{
    struct err e = {""};
    if (store)
        log_store_close(store);
    store = NULL;
    ck_assert_msg(log_store_open(dir, cap, &store, &e) == 0, "%s", e.text);
}

static inline void begin(void)
{
    (void)snprintf(dir, sizeof(dir), "/tmp/meadow-logs-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    reopen(1 << 20);
}

static inline void end(void)
{
    struct err e;
    if (store)
        log_store_close(store);
    store = NULL;
    ck_assert_int_eq(remove_tree(dir, &e), 0);
}

static inline uint64_t put(const char *attempt, enum log_channel c, uint64_t offset,
                           const char *text)
{
    uint64_t next = 0;
    ck_assert_int_eq(log_store_append(store, attempt, c, offset, 1000, text, strlen(text), &next),
                     0);
    return next;
}

static inline uint64_t next_of(const char *attempt, enum log_channel c)
{
    uint64_t next = 77;
    ck_assert_int_eq(log_store_next(store, attempt, c, &next), 0);
    return next;
}

// "o:text" / "e:text" for each run of one stream, "o-N" for a gap.
static inline void show(struct strbuf *out, const struct log_chunk *k, int *last)
{
    int now = k->gap ? -1 : (int)k->channel;
    char mark = k->channel == LOG_STDOUT ? 'o' : 'e';
    if (k->gap)
        strbuf_printf(out, "[%c-%llu]", mark, (unsigned long long)k->gap);
    else if (now != *last)
        strbuf_printf(out, "%c:", mark);
    strbuf_append(out, k->data, k->len);
    *last = now;
}

// Everything from the reader up to the end; the caller frees.
static inline char *drain(struct log_reader *r)
{
    struct strbuf out = {0};
    struct log_chunk k;
    int last = -2, e;
    strbuf_puts(&out, "");
    while ((e = log_reader_next(r, &k)) != LOG_NEXT_END) {
        ck_assert_int_ge(e, 0);
        if (e == LOG_NEXT_CHUNK) {
            ck_assert(k.gap ? k.len == 0 : k.len > 0 && k.len <= LOG_CHUNK_BYTES);
            show(&out, &k, &last);
        }
    }
    return strbuf_take(&out);
}

static inline char *read_tail(const char *attempt, unsigned channels, int64_t tail)
{
    struct log_reader *r;
    ck_assert_int_eq(log_reader_open(store, attempt, channels, tail, &r), 0);
    char *text = drain(r);
    log_reader_close(r);
    return text;
}

static inline void expect_tail(const char *attempt, unsigned channels, int64_t tail,
                               const char *expected)
{
    cleanup_free char *got = read_tail(attempt, channels, tail);
    ck_assert_str_eq(got, expected);
}

static inline void expect(const char *attempt, const char *expected)
{
    expect_tail(attempt, LOG_ALL_CHANNELS, LOG_TAIL_ALL, expected);
}
