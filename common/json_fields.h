// SPDX-License-Identifier: Apache-2.0
// Members of a JSON object that a struct holds as they are. One table says how they are written and
// how they are read, so that the two can't differ.
#pragma once

#include "common/json.h"
#include <stddef.h>

enum json_field_type {
    JSON_FIELD_CHARS,    // char[max], the NUL included
    JSON_FIELD_TEXT,     // char *
    JSON_FIELD_OPT_TEXT, // char *; NULL = null or no such member
    JSON_FIELD_INT,      // int in [min, max]
    JSON_FIELD_I64,      // int64_t in [min, max]
    JSON_FIELD_FLAG      // bool; no such member = false
};

struct json_field {
    const char *key;
    enum json_field_type type;
    size_t offset; // into the struct
    int64_t min, max;
};

// The member of that name: JSON_FIELD(struct point, INT, x, 0, 100).
#define JSON_FIELD(of, kind, member, least, most)                                                  \
    {                                                                                              \
        .key = #member, .type = JSON_FIELD_##kind, .offset = offsetof(of, member), .min = (least), \
        .max = (most)                                                                              \
    }

// Adds all of them to the object. Out of memory shows when it is dumped (json.h).
void json_put_fields(json_t *obj, const struct json_field *fields, size_t n, const void *from);
// -EPROTO with the member and what was expected, -ENOMEM. Each char * it has written so far is the
// struct's in every case; nothing is freed that was there before.
int json_get_fields(const json_t *obj, const struct json_field *fields, size_t n, void *to,
                    struct err *e) WARN_UNUSED;
