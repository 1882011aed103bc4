// SPDX-License-Identifier: Apache-2.0
// Reading the answers of Redis. A reply is borrowed for the call of its receiver.
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct redisReply; // read through these functions only

enum reply_kind { REPLY_NIL, REPLY_INTEGER, REPLY_TEXT, REPLY_ERROR, REPLY_LIST };
enum reply_kind reply_kind(const struct redisReply *r);
// The bytes of a text or error (NUL-terminated, may hold NULs), "" for the other kinds.
const char *reply_text(const struct redisReply *r, size_t *ret_len);
// An integer, or a text that is a whole decimal number. -EPROTO.
int reply_integer(const struct redisReply *r, int64_t *ret) WARN_UNUSED;
// Items of a list, 0 for the other kinds.
size_t reply_count(const struct redisReply *r);
// NULL when there is none.
const struct redisReply *reply_item(const struct redisReply *r, size_t i);
// Whether it is an error whose first word is `code` ("LOADING").
bool reply_is_error(const struct redisReply *r, const char *code);
