// SPDX-License-Identifier: Apache-2.0
// The sidecar <stream>.times: which bytes were read when.
#pragma once

#include "node-agent/init/streams.h"

#define TIMES_MAX 8192       // records
#define TIMES_INTERVAL_MS 10 // at most one record in this time

#define TIMES_UNOPENED (-2) // value of times_fd

// Notes that the bytes from s->offset were read at now_ms, unless a record of the last 10 ms covers
// them.
void times_add(struct stream *s, int64_t now_ms);
