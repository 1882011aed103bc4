// SPDX-License-Identifier: Apache-2.0
// Small helpers over jansson for code that reads objects from the wire: every getter says what it
// found where. Setters steal, as jansson's _new functions do, even on failure.
#pragma once

#include "common/err.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

// Parses a whole text; duplicates refused, depth bounded by jansson (2048). Error text has line and
// column. -EPROTO when malformed. The caller owns *ret.
int json_parse(const char *data, size_t len, json_t **ret, struct err *e) WARN_UNUSED;

// Required members. -EPROTO with "member \"x\": expected a string" when missing or of another type.
// Strings are borrowed from the object.
int json_get_str(const json_t *obj, const char *key, const char **ret, struct err *e) WARN_UNUSED;
int json_get_i64(const json_t *obj, const char *key, int64_t *ret, struct err *e) WARN_UNUSED;
int json_get_bool(const json_t *obj, const char *key, bool *ret, struct err *e) WARN_UNUSED;
int json_get_array(const json_t *obj, const char *key, json_t **ret, struct err *e) WARN_UNUSED;
int json_get_object(const json_t *obj, const char *key, json_t **ret, struct err *e) WARN_UNUSED;

// Optional members: the default when missing or of another type.
const char *json_opt_str(const json_t *obj, const char *key, const char *fallback);
int64_t json_opt_i64(const json_t *obj, const char *key, int64_t fallback);
bool json_opt_bool(const json_t *obj, const char *key, bool fallback);

// Setters; out of memory is remembered by nobody, so check the object at dump time. NULL text =
// JSON null.
void json_put_str(json_t *obj, const char *key, const char *text);
void json_put_i64(json_t *obj, const char *key, int64_t value);
void json_put_bool(json_t *obj, const char *key, bool value);
void json_put(json_t *obj, const char *key, json_t *stolen);
// RFC 3339 with milliseconds; 0 gives null.
void json_put_time(json_t *obj, const char *key, int64_t real_ms);
int64_t json_opt_time(const json_t *obj, const char *key);
// A moment of CLOCK_BOOTTIME that outlives the process: as `key`, with `boot_id` beside it.
void json_put_boot(json_t *obj, const char *key, int64_t boot_ms);
// That moment in this boot. Of another boot (or when there is none) only the wall clock is left to
// tell: real_ms is the same moment by that.
int64_t json_opt_boot(const json_t *obj, const char *key, int64_t real_ms);

// Compact dump, sorted as inserted; caller frees. NULL when out of memory.
char *json_text(const json_t *value);
