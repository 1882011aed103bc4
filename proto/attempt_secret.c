// SPDX-License-Identifier: Apache-2.0
// Codec of an attempt's secrets. Values are wiped wherever this file lets go of them; jansson's own
// copy of a text lives as long as the message it is in.
#include "proto/attempt_secret.h"

#include "common/cleanup.h"
#include "common/json.h"

#include <limits.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

bool secret_name_ok(const char *name)
{
    static const char first[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    size_t len = strlen(name);
    if (len == 0 || len > 63 || !strchr(first, name[0]))
        return false;
    for (size_t i = 1; i < len; i++)
        if (!strchr(first, name[i]) && name[i] != '.' && name[i] != '-')
            return false;
    return true;
}

void attempt_secrets_free(struct attempt_secret *list, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (list[i].value)
            OPENSSL_cleanse(list[i].value, list[i].len);
        free(list[i].name);
        free(list[i].path);
        free(list[i].value);
    }
    free(list);
}

char *secret_encode(const char *value, size_t len)
{
    char *text = len <= SECRET_MAX_BYTES ? malloc((len + 2) / 3 * 4 + 1) : NULL;
    if (text)
        (void)EVP_EncodeBlock((unsigned char *)text, (const unsigned char *)value, (int)len);
    return text;
}

int secret_decode(const char *text, char **ret, size_t *ret_len)
{
    size_t len = strlen(text);
    if (len % 4 != 0)
        return -EPROTO;
    if (len / 4 * 3 > SECRET_MAX_BYTES + 2)
        return -EFBIG;
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    if (strspn(text, alphabet) + 2 < len)
        return -EPROTO;
    size_t pad = len && text[len - 1] == '=' ? 1 + (text[len - 2] == '=') : 0;
    cleanup_free char *value = malloc(len / 4 * 3 + 1);
    if (!value)
        return -ENOMEM;
    int n =
        len ? EVP_DecodeBlock((unsigned char *)value, (const unsigned char *)text, (int)len) : 0;
    if (n < 0 || (size_t)n < pad)
        return -EPROTO;
    *ret_len = (size_t)n - pad;
    if (*ret_len > SECRET_MAX_BYTES)
        return -EFBIG;
    value[*ret_len] = '\0';
    *ret = TAKE_PTR(value);
    return 0;
}

json_t *attempt_secrets_to_json(const struct attempt_secret *list, size_t n, bool values)
{
    json_t *all = json_array();
    for (size_t i = 0; i < n; i++) {
        json_t *one = json_object();
        json_put_str(one, "name", list[i].name);
        if (list[i].path)
            json_put_str(one, "path", list[i].path);
        if (values && list[i].value) {
            char *text = secret_encode(list[i].value, list[i].len);
            json_put_str(one, "value", text);
            if (text)
                OPENSSL_cleanse(text, strlen(text));
            free(text);
        }
        (void)json_array_append_new(all, one);
    }
    return all;
}

static int read_one(const json_t *item, struct attempt_secret *s, struct err *e)
{
    const char *path = json_opt_str(item, "path", NULL);
    const char *value = json_opt_str(item, "value", NULL);
    const char *name;
    int r = json_get_str(item, "name", &name, e);
    if (r < 0)
        return r;
    if (!secret_name_ok(name))
        return err_set(e, -EPROTO, "member \"secrets\": not a secret's name");
    s->name = strdup(name);
    s->path = path ? strdup(path) : NULL;
    if (!s->name || (path && !s->path))
        return -ENOMEM;
    r = value ? secret_decode(value, &s->value, &s->len) : 0;
    return r == 0 || r == -ENOMEM ? r : err_set(e, -EPROTO, "member \"secrets\": a bad value");
}

int attempt_secrets_from_json(const json_t *j, struct attempt_secret **ret, size_t *ret_n,
                              struct err *e)
{
    size_t n = json_array_size(j);
    *ret = NULL;
    *ret_n = 0;
    if (!j)
        return 0;
    if (!json_is_array(j) || n > SECRETS_PER_TASK)
        return err_set(e, -EPROTO, "member \"secrets\": expected an array");
    *ret = calloc(n + 1, sizeof(**ret));
    if (!*ret)
        return -ENOMEM;
    int r = 0;
    for (; *ret_n < n && r == 0; ++*ret_n)
        r = read_one(json_array_get(j, *ret_n), &(*ret)[*ret_n], e);
    return r;
}
