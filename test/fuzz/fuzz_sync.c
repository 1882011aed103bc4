// SPDX-License-Identifier: Apache-2.0
// Any bytes as a sync request, a sync answer, an attempt or a status: no crash, no leak, and what
// was accepted encodes to something that is accepted again.
#include "proto/sync.h"

#include "common/cleanup.h"
#include "common/json.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int r)
{
    if (r < 0)
        __builtin_trap();
}

static void try_request(const json_t *j)
{
    struct sync_request q;
    if (sync_request_from_json(j, &q, NULL) < 0)
        return;
    cleanup_json json_t *back = sync_request_to_json(&q);
    struct sync_request again;
    check(sync_request_from_json(back, &again, NULL));
    sync_request_reset(&again);
    sync_request_reset(&q);
}

static void try_answer(const json_t *j)
{
    struct sync_answer a;
    if (sync_answer_from_json(j, &a, NULL) < 0)
        return;
    cleanup_json json_t *back = sync_answer_to_json(&a);
    struct sync_answer again;
    check(sync_answer_from_json(back, &again, NULL));
    sync_answer_reset(&again);
    sync_answer_reset(&a);
}

static void try_spec(const json_t *j)
{
    struct attempt_spec *s = NULL;
    struct attempt_spec *again = NULL;
    if (attempt_spec_from_json(j, &s, NULL) < 0)
        return;
    cleanup_json json_t *back = attempt_spec_to_json(s);
    check(attempt_spec_from_json(back, &again, NULL));
    attempt_spec_free(again);
    attempt_spec_free(s);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cleanup_json json_t *j = NULL;

    if (json_parse((const char *)data, size, &j, NULL) < 0)
        return 0;
    try_request(j);
    try_answer(j);
    try_spec(j);
    return 0;
}
