// SPDX-License-Identifier: Apache-2.0
// What Redis answered, without hiredis's types.
#include "master/store/redis_reply.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

enum reply_kind reply_kind(const struct redisReply *r)
{
    switch (r->type) {
    case REDIS_REPLY_INTEGER:
        return REPLY_INTEGER;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS:
        return REPLY_TEXT;
    case REDIS_REPLY_ERROR:
        return REPLY_ERROR;
    case REDIS_REPLY_ARRAY:
        return REPLY_LIST;
    default:
        return REPLY_NIL;
    }
}

const char *reply_text(const struct redisReply *r, size_t *ret_len)
{
    enum reply_kind kind = reply_kind(r);
    const bool has = kind == REPLY_TEXT || kind == REPLY_ERROR;
    if (ret_len)
        *ret_len = has ? (size_t)r->len : 0;
    return has ? r->str : "";
}

int reply_integer(const struct redisReply *r, int64_t *ret)
{
    if (reply_kind(r) == REPLY_INTEGER) {
        *ret = r->integer;
        return 0;
    }
    char *end;
    const char *text = reply_text(r, NULL);
    errno = 0;
    int64_t value = strtoll(text, &end, 10);
    if (reply_kind(r) != REPLY_TEXT || errno || end == text || *end)
        return -EPROTO;
    *ret = value;
    return 0;
}

size_t reply_count(const struct redisReply *r)
{
    return reply_kind(r) == REPLY_LIST ? (size_t)r->elements : 0;
}

const struct redisReply *reply_item(const struct redisReply *r, size_t i)
{
    return i < reply_count(r) ? r->element[i] : NULL;
}

bool reply_is_error(const struct redisReply *r, const char *code)
{
    size_t len = strlen(code);
    const char *text = reply_text(r, NULL);
    return reply_kind(r) == REPLY_ERROR && strncmp(text, code, len) == 0 &&
           (text[len] == ' ' || !text[len]);
}
