// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/err.h"
#include <stdint.h>

#define MEADOW_VERSION "0.1.0"
// Agent and master speak when their numbers differ by at most one; a number stands for one minor
// version. Tests build programs with another one (make skew PROTOCOL=N).
#ifndef MEADOW_PROTOCOL
#define MEADOW_PROTOCOL 1
#endif
#define MEADOW_DEFAULT_PORT 7420

// -EPROTO: that is too far from ours; e says what to do. `who` = "agent" or "master".
int protocol_check(int64_t theirs, const char *who, struct err *e) WARN_UNUSED;
