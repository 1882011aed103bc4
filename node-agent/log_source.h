// SPDX-License-Identifier: Apache-2.0
// Reads one stream of an attempt from the segments that meadow-init writes, as frames for the
// master. No state of its own: everything is looked up by offset, so that a restart of the agent or
// a rotation needs no care.
#pragma once

#include "common/err.h"
#include "common/strbuf.h"
#include <stdbool.h>
#include <stdint.h>

enum log_stream { LOG_STDOUT, LOG_STDERR, LOG_STREAMS };
// "stdout" or "stderr": in routes and names of files.
const char *log_stream_to_string(enum log_stream s);

// Appends frames (u64 time_ms, u32 length, bytes; little-endian) of at most `limit` log bytes from
// `offset` on to `out`. *ret_offset is where they really begin (above `offset` after a gap),
// *ret_next the offset behind them; both equal when there is nothing yet. Bytes without a time
// record get `fallback_ms`.
int log_source_read(int dir_fd, enum log_stream stream, uint64_t offset, size_t limit,
                    int64_t fallback_ms, struct strbuf *out, uint64_t *ret_offset,
                    uint64_t *ret_next) WARN_UNUSED;
