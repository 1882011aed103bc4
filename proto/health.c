// SPDX-License-Identifier: Apache-2.0
// The check's codec for the wire and for claims, and the words.
#include "proto/health.h"

#include "common/cleanup.h"
#include "common/json.h"

#include <stdlib.h>
#include <string.h>

DEFINE_CLEANUP(job_health, job_health_free)

static const char *const words[HEALTH_WORD_MAX] = {"none", "starting", "healthy", "unhealthy"};

const char *health_word_to_string(enum health_word w)
{
    return (unsigned)w < HEALTH_WORD_MAX ? words[w] : "invalid";
}

int health_word_from_string(const char *text, enum health_word *ret)
{
    for (int i = 0; text && i < HEALTH_WORD_MAX; i++) {
        if (strcmp(words[i], text) != 0)
            continue;
        *ret = (enum health_word)i;
        return 0;
    }
    return -EINVAL;
}

void job_health_free(struct job_health *h)
{
    if (!h)
        return;
    for (char **p = h->command; p && *p; p++)
        free(*p);
    free(h->command);
    free(h->path);
    free(h);
}

json_t *job_health_to_json(const struct job_health *h)
{
    json_t *j = json_object();
    if (h->command) {
        json_t *list = json_array();
        for (char *const *p = h->command; *p; p++)
            (void)json_array_append_new(list, json_string(*p));
        json_put(j, "command", list);
    } else {
        json_put_str(j, "path", h->path);
        json_put_i64(j, "port", h->port);
    }
    json_put_i64(j, "interval_ms", h->interval_ms);
    json_put_i64(j, "timeout_ms", h->timeout_ms);
    json_put_i64(j, "start_period_ms", h->start_period_ms);
    json_put_i64(j, "retries", h->retries);
    return j;
}

static int read_number(const json_t *j, const char *key, int64_t min, int64_t max, int64_t *ret,
                       struct err *e)
{
    int r = json_get_i64(j, key, ret, e);
    if (r == 0 && (*ret < min || *ret > max))
        return err_set(e, -EPROTO, "member \"%s\": out of range", key);
    return r;
}

static int read_command(struct job_health *h, const json_t *list, struct err *e)
{
    size_t n = json_array_size(list);
    if (n == 0 || n > HEALTH_ARGS_MAX)
        return err_set(e, -EPROTO, "member \"command\": expected 1 to %d texts", HEALTH_ARGS_MAX);
    h->command = calloc(n + 1, sizeof(*h->command));
    if (!h->command)
        return err_set(e, -ENOMEM, "out of memory");
    for (size_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text)
            return err_set(e, -EPROTO, "member \"command\": expected texts");
        if (!(h->command[i] = strdup(text)))
            return err_set(e, -ENOMEM, "out of memory");
    }
    return 0;
}

static int read_http(struct job_health *h, const json_t *j, struct err *e)
{
    const char *path = json_opt_str(j, "path", "");
    if (path[0] != '/' || strlen(path) > HEALTH_PATH_MAX || strpbrk(path, " \r\n"))
        return err_set(e, -EPROTO, "member \"path\": expected a path");
    h->path = strdup(path);
    return h->path ? read_number(j, "port", 1, 65535, &h->port, e)
                   : err_set(e, -ENOMEM, "out of memory");
}

int job_health_from_json(const json_t *j, struct job_health **ret, struct err *e)
{
    *ret = NULL;
    if (!j)
        return 0;
    cleanup(job_health) struct job_health *h = calloc(1, sizeof(*h));
    if (!h)
        return err_set(e, -ENOMEM, "out of memory");
    const json_t *command = json_object_get(j, "command");
    int r = command ? read_command(h, command, e) : read_http(h, j, e);
    if (r == 0)
        r = read_number(j, "interval_ms", 1, INT32_MAX, &h->interval_ms, e);
    if (r == 0)
        r = read_number(j, "timeout_ms", 1, INT32_MAX, &h->timeout_ms, e);
    if (r == 0)
        r = read_number(j, "start_period_ms", 0, INT32_MAX, &h->start_period_ms, e);
    if (r == 0)
        r = read_number(j, "retries", 1, INT32_MAX, &h->retries, e);
    if (r < 0)
        return err_wrap(e, r, "health");
    *ret = TAKE_PTR(h);
    return 0;
}

struct job_health *job_health_copy(const struct job_health *h, int64_t port)
{
    struct err e;
    struct job_health *copy = NULL;
    cleanup_json json_t *j = job_health_to_json(h);
    if (!h->command)
        json_put_i64(j, "port", port);
    return job_health_from_json(j, &copy, &e) == 0 ? copy : NULL;
}
