// SPDX-License-Identifier: Apache-2.0
// Matching of paths and methods against the table of routes. Pure.
#pragma once

#include "master/api/api.h"

// Whether `path` fits `pattern`; fills decoded parameters. A parameter is not empty and holds no
// '/' and no control characters;
// "{x...}" takes the rest.
bool router_match(const char *pattern, const char *path, char params[CALL_PARAMS][256]);
// NULL when none fits; then ret_allow lists the methods of routes whose path does ("" = no such
// path).
const struct route *router_find(const struct route *routes, const char *method, const char *path,
                                char params[CALL_PARAMS][256], char *ret_allow, size_t allow_size);

// A request that came in an envelope: through table, roles, store and idempotency like any other,
// as `who`. What can't be sealed (streams, uploads, agents, joining, nesting) is refused.
void router_inner(struct api *a, struct http_request *req, const struct principal *who);
