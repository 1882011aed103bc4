// SPDX-License-Identifier: Apache-2.0
// Sentences and amounts of an explanation.
#pragma once

#include "master/scheduler/plan_internal.h"

enum lack {
    LACK_CPU,
    LACK_MEMORY,
    LACK_GPU,
    LACK_PORTS,
    LACK_RUNTIME,
    LACK_LABELS,
    LACK_TASKS,
    LACK_EXCLUSIVE,
    LACK_AFFINITY,
    LACK_NODE,
    LACK_GANG,
    LACK_MAX
};
#define LACK_AMOUNTS LACK_RUNTIME // those before it are amounts
const char *lack_to_string(enum lack l);

// A fixed buffer that is filled from the left; what doesn't fit is cut. All zero: nothing is
// written.
struct text {
    char *begin, *at;
    size_t left;
};
struct text text_on(char *buffer, size_t size);
void text_add(struct text *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
void text_next(struct text *t); // "; " behind what is there, if anything is

// "1.5" (cores), "8 GiB" / "512 MiB" (rounded up or down to whole MiB), "2". out: AMOUNT_BYTES.
#define AMOUNT_BYTES 40
void amount_text(enum lack l, int64_t amount, bool up, char *out);
// "1.5 cpu", "8 GiB memory", "2 gpu", "3 free ports"
void amount_named(enum lack l, int64_t amount, bool up, char *out);
