// SPDX-License-Identifier: Apache-2.0
// Secrets of an attempt: their JSON, and their end. Used by the codec of the whole.
#pragma once

#include "proto/attempt.h"

#define SECRET_MAX_BYTES (64 * 1024) // of one value
#define SECRETS_PER_TASK 64

// Wipes the values. NULL allowed.
void attempt_secrets_free(struct attempt_secret *list, size_t n);
// Array of {name, path, value (base64; only with `values`, null = does not exist)}.
json_t *attempt_secrets_to_json(const struct attempt_secret *list, size_t n, bool values);
// `j` NULL = none. A value that is absent becomes NULL. -EPROTO, -ENOMEM.
int attempt_secrets_from_json(const json_t *j, struct attempt_secret **ret, size_t *ret_n,
                              struct err *e) WARN_UNUSED;
// [A-Za-z0-9_][A-Za-z0-9_.-]{0,62}: a file's name.
bool secret_name_ok(const char *name);
// Standard base64 with padding. The caller frees, and wipes; NULL = out of memory.
char *secret_encode(const char *value, size_t len);
// -EPROTO when it is none, -EFBIG when the value is over SECRET_MAX_BYTES. *ret is NUL-terminated.
int secret_decode(const char *text, char **ret, size_t *ret_len) WARN_UNUSED;
