// SPDX-License-Identifier: Apache-2.0
// Any bytes as what a master assigns to an agent: the attempt and its status, read and written
// back; a second writing is the same text.
#include "common/cleanup.h"
#include "common/json.h"
#include "proto/attempt.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int good)
{
    if (!good)
        __builtin_trap();
}

static void try_spec(const json_t *j)
{
    struct attempt_spec *s = NULL, *again = NULL;
    if (attempt_spec_from_json(j, &s, NULL) < 0)
        return;
    cleanup_json json_t *back = attempt_spec_to_json(s);
    require(attempt_spec_from_json(back, &again, NULL) == 0);
    cleanup_json json_t *twice = attempt_spec_to_json(again);
    require(json_equal(back, twice));
    attempt_spec_free(again);
    attempt_spec_free(s);
}

static void try_status(const json_t *j)
{
    struct attempt_status s, again;
    memset(&s, 0, sizeof(s));
    memset(&again, 0, sizeof(again));
    if (attempt_status_from_json(j, &s, NULL) < 0)
        return;
    cleanup_json json_t *back = attempt_status_to_json(&s);
    require(attempt_status_from_json(back, &again, NULL) == 0);
    cleanup_json json_t *twice = attempt_status_to_json(&again);
    require(json_equal(back, twice));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_json json_t *j = NULL;
    if (json_parse((const char *)data, size, &j, NULL) < 0)
        return 0;
    try_spec(j);
    try_status(j);
    return 0;
}
