// SPDX-License-Identifier: Apache-2.0
// Helpers over jansson: typed getters with error texts, setters, dump.
#include "common/json.h"

#include "common/clock.h"

#include <string.h>

int json_parse(const char *data, size_t len, json_t **ret, struct err *e)
{
    json_error_t error;
    json_t *value =
        json_loadb(data ? data : "", len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);

    if (!value) { // not what stands there, which the library quotes: it may be part of a secret
        char *near = strstr(error.text, " near ");
        if (near)
            *near = '\0';
        return err_set(e, -EPROTO, "line %d, column %d: %s", error.line, error.column, error.text);
    }
    *ret = value;
    return 0;
}

static int wrong(struct err *e, const char *key, const char *expected)
{
    return err_set(e, -EPROTO, "member \"%s\": expected %s", key, expected);
}

int json_get_str(const json_t *obj, const char *key, const char **ret, struct err *e)
{
    const json_t *v = json_object_get(obj, key);
    if (!json_is_string(v))
        return wrong(e, key, "a string");
    *ret = json_string_value(v);
    return 0;
}

int json_get_i64(const json_t *obj, const char *key, int64_t *ret, struct err *e)
{
    const json_t *v = json_object_get(obj, key);
    if (!json_is_integer(v))
        return wrong(e, key, "an integer");
    *ret = json_integer_value(v);
    return 0;
}

int json_get_bool(const json_t *obj, const char *key, bool *ret, struct err *e)
{
    const json_t *v = json_object_get(obj, key);
    if (!json_is_boolean(v))
        return wrong(e, key, "true or false");
    *ret = json_is_true(v);
    return 0;
}

int json_get_array(const json_t *obj, const char *key, json_t **ret, struct err *e)
{
    json_t *v = json_object_get(obj, key);
    if (!json_is_array(v))
        return wrong(e, key, "an array");
    *ret = v;
    return 0;
}

int json_get_object(const json_t *obj, const char *key, json_t **ret, struct err *e)
{
    json_t *v = json_object_get(obj, key);
    if (!json_is_object(v))
        return wrong(e, key, "an object");
    *ret = v;
    return 0;
}

const char *json_opt_str(const json_t *obj, const char *key, const char *fallback)
{
    const json_t *v = json_object_get(obj, key);
    return json_is_string(v) ? json_string_value(v) : fallback;
}

int64_t json_opt_i64(const json_t *obj, const char *key, int64_t fallback)
{
    const json_t *v = json_object_get(obj, key);
    return json_is_integer(v) ? json_integer_value(v) : fallback;
}

bool json_opt_bool(const json_t *obj, const char *key, bool fallback)
{
    const json_t *v = json_object_get(obj, key);
    return json_is_boolean(v) ? json_is_true(v) : fallback;
}

void json_put(json_t *obj, const char *key, json_t *stolen)
{
    (void)json_object_set_new(obj, key, stolen);
}

void json_put_str(json_t *obj, const char *key, const char *text)
{
    json_put(obj, key, text ? json_string(text) : json_null());
}

void json_put_i64(json_t *obj, const char *key, int64_t value)
{
    json_put(obj, key, json_integer(value));
}

void json_put_bool(json_t *obj, const char *key, bool value)
{
    json_put(obj, key, json_boolean(value));
}

void json_put_time(json_t *obj, const char *key, int64_t real_ms)
{
    char text[CLOCK_TEXT_BYTES];

    if (real_ms <= 0) {
        json_put(obj, key, json_null());
        return;
    }
    clock_format_ms(real_ms, text);
    json_put_str(obj, key, text);
}

int64_t json_opt_time(const json_t *obj, const char *key)
{
    int64_t ms = 0;
    const char *text = json_opt_str(obj, key, NULL);
    if (!text || clock_parse(text, &ms) < 0)
        return 0;
    return ms;
}

void json_put_boot(json_t *obj, const char *key, int64_t boot_ms)
{
    char boot[CLOCK_BOOT_ID_BYTES];
    clock_boot_id(boot);
    json_put_i64(obj, key, boot_ms);
    json_put_str(obj, "boot_id", boot);
}

int64_t json_opt_boot(const json_t *obj, const char *key, int64_t real_ms)
{
    char boot[CLOCK_BOOT_ID_BYTES];
    const char *of = json_opt_str(obj, "boot_id", "");
    if (*of && json_is_integer(json_object_get(obj, key))) {
        clock_boot_id(boot);
        if (strcmp(of, boot) == 0)
            return json_opt_i64(obj, key, 0);
    }
    return clock_boot_ms() + real_ms - clock_real_ms();
}

char *json_text(const json_t *value)
{
    return json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
}
