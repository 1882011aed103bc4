// SPDX-License-Identifier: Apache-2.0
// Where the values of a JSON tree stood in the text they came from. Filled by the YAML loader while
// it reads, or for JSON by walking text and tree side by side when somebody asks (which is only
// when there is a mistake to report).
#pragma once

#include "common/err.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct json_marks;

struct json_marks *json_marks_new(void); // NULL = out of memory
// NULL is fine.
void json_marks_free(struct json_marks *marks);

// Notes a value's place (1-based) and its text when it was a plain scalar (`source` NULL
// otherwise). true, false and null are shared by the whole tree and are not noted. -ENOMEM.
int json_marks_add(struct json_marks *marks, const json_t *value, int line, int column,
                   const char *source, size_t source_len) WARN_UNUSED;
// Notes the place of a member's key. -ENOMEM.
int json_marks_add_key(struct json_marks *marks, const json_t *object, const char *key, int line,
                       int column) WARN_UNUSED;
// To be called once after the last one was added; lookups need it.
void json_marks_sort(struct json_marks *marks);

// Marks of a JSON text that jansson accepted (duplicates refused) and the tree it made from it.
// -ENOMEM.
int json_marks_scan(const char *text, size_t len, const json_t *root,
                    struct json_marks **ret) WARN_UNUSED;

// Where a value, or the key of a member, stands; both from 1. False when it was not noted.
bool json_marks_position(const struct json_marks *marks, const json_t *value, int *ret_line,
                         int *ret_column);
bool json_marks_key_position(const struct json_marks *marks, const json_t *object, const char *key,
                             int *ret_line, int *ret_column);
// Text of an unquoted scalar; NULL for anything else.
const char *json_marks_source(const struct json_marks *marks, const json_t *value);
