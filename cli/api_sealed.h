// SPDX-License-Identifier: Apache-2.0
// A request in its envelope, and the answer out of its own (docs/api.md, "Sealed requests").
#pragma once

#include "cli/api.h"
#include "cli/sealed_key.h"

struct api_sealed; // one exchange at a time

// Takes *k (reset). -EINVAL: it was never registered.
int api_sealed_open(struct sealed_key *k, struct api_sealed **ret, struct err *e) WARN_UNUSED;
void api_sealed_close(struct api_sealed *s); // NULL allowed

// The text to post to /v1/sealed. idempotency_key NULL = none. -ENOTSUP: streams and uploads are
// never sealed.
int api_seal(struct api_sealed *s, const struct api_request *req, const char *idempotency_key,
             char **ret, struct err *e) WARN_UNUSED;
// Replaces the sealed answer by what it holds; a plain problem stays as it is. -EACCES when it is
// not the answer to the last request. *ret_again: the clocks differ, and now that is made up for.
int api_unseal(struct api_sealed *s, struct api_answer *answer, bool *ret_again,
               struct err *e) WARN_UNUSED;
