// SPDX-License-Identifier: Apache-2.0
// One JSON request to the master and its JSON answer.
#pragma once

#include "common/http_client.h"
#include <jansson.h>

// `error` is 0 or a negative errno with its text in `e`; then `status` is the HTTP status and
// `body` the parsed answer, NULL when it is no JSON. `body` is borrowed.
typedef void (*post_done)(int error, int status, const json_t *body, const struct err *e,
                          void *userdata);

// POSTs `body` (borrowed; NULL = GET). `done` is called exactly once unless this fails.
int post_json(struct http_client *client, const char *path, const json_t *body, unsigned timeout_ms,
              post_done done, void *userdata, struct err *e) WARN_UNUSED;
// The reason in a problem+json body ("detail", else "title"), or "HTTP <status>" in `buffer`.
const char *post_problem(int status, const json_t *body, char *buffer, size_t size);
