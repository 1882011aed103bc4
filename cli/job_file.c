// SPDX-License-Identifier: Apache-2.0
// Reading job files and applying --set. The file is checked by the master alone: here it only has
// to be readable.
#include "cli/job_file.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "common/yaml.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

static int read_all(int fd, struct strbuf *b)
{
    char part[65536];
    for (;;) {
        ssize_t n = read(fd, part, sizeof(part));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            return b->failed ? -ENOMEM : 0;
        strbuf_append(b, part, (size_t)n);
        if (b->len > JOB_FILE_LIMIT)
            return -EFBIG;
    }
}

int job_file_read(const char *path, char **ret, size_t *ret_len, struct err *e)
{
    cleanup_strbuf struct strbuf b = {0};
    bool from_stdin = strcmp(path, "-") == 0;
    cleanup_close int fd = from_stdin ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);

    int r = fd < 0 ? -errno : read_all(fd, &b);
    if (r == -EFBIG)
        return err_set(e, r, "larger than %u bytes", JOB_FILE_LIMIT);
    if (r < 0)
        return err_set(e, r, "%s", strerror(-r));
    *ret_len = b.len;
    *ret = strbuf_take(&b);
    return *ret ? 0 : err_set(e, -ENOMEM, "out of memory");
}

bool job_file_is_json(const char *path, const char *text)
{
    const char *dot = strrchr(path, '.');
    if (dot && strcmp(dot, ".json") == 0)
        return true;
    if (dot && (strcmp(dot, ".yml") == 0 || strcmp(dot, ".yaml") == 0))
        return false;
    return text[strspn(text, " \t\r\n")] == '{';
}

// A copy in which decimals are texts again.
static json_t *with_sources(const struct yaml_doc *doc, json_t *v)
{
    const char *key, *source;
    json_t *x, *out;
    size_t i;

    if (json_is_object(v)) {
        out = json_object();
        json_object_foreach (v, key, x) {
            (void)json_object_set_new(out, key, with_sources(doc, x));
        }
        return out;
    }
    if (json_is_array(v)) {
        out = json_array();
        json_array_foreach (v, i, x) {
            (void)json_array_append_new(out, with_sources(doc, x));
        }
        return out;
    }
    source = json_is_real(v) ? yaml_source(doc, v) : NULL;
    return source ? json_string(source) : json_incref(v);
}

int job_file_parse(const char *text, size_t len, bool json, json_t **ret, struct err *e)
{
    struct yaml_doc *doc = NULL;
    int r = json ? json_parse(text, len, ret, e) : yaml_parse(text, len, &doc, e);

    if (r < 0 || json)
        return r;
    *ret = with_sources(doc, yaml_root(doc));
    yaml_doc_free(doc);
    return *ret ? 0 : err_set(e, -ENOMEM, "out of memory");
}

// The value: YAML when it is some, else the text itself.
static json_t *read_value(const char *text)
{
    json_t *v = NULL;
    if (text[0] == '\0' || job_file_parse(text, strlen(text), false, &v, NULL) < 0)
        return json_string(text);
    return v;
}

// How long the next step of the path is.
static size_t step_length(const json_t *in, const char *path)
{
    size_t len = strlen(path);
    char *copy = strdup(path);
    size_t found = strcspn(path, ".");

    for (size_t i = len; copy && i > found; i--) {
        if (i < len && path[i] != '.')
            continue;
        copy[i] = '\0';
        if (json_object_get(in, copy)) {
            found = i;
            break;
        }
    }
    free(copy);
    return found;
}

static json_t *enter(json_t *in, const char *name)
{
    char *end;
    json_t *next;

    if (json_is_array(in)) {
        unsigned long i = strtoul(name, &end, 10);
        return *end ? NULL : json_array_get(in, i);
    }
    next = json_object_get(in, name);
    if (!next && json_is_object(in)) {
        next = json_object();
        json_put(in, name, next);
    }
    return next;
}

static int put(json_t *in, const char *name, json_t *value)
{
    char *end;

    if (json_is_object(in))
        return json_object_set_new(in, name, value);
    unsigned long i = strtoul(name, &end, 10);
    if (json_is_array(in) && *end == '\0')
        return json_array_set_new(in, i, value);
    json_decref(value);
    return -1;
}

int job_file_set(json_t *job, const char *assignment, struct err *e)
{
    const char *equals = strchr(assignment, '=');
    cleanup_free char *path = equals ? strndup(assignment, (size_t)(equals - assignment)) : NULL;
    json_t *in = job;

    if (!path || path[0] == '\0')
        return err_set(e, -EINVAL, "--set %.100s: expected KEY=VALUE, as components.actor.num=4",
                       assignment);
    for (char *rest = path;;) {
        size_t len = step_length(in, rest);
        bool last = rest[len] == '\0';
        rest[len] = '\0';
        if (len == 0)
            return err_set(e, -EINVAL, "--set %.100s: a step of the path is empty", assignment);
        if (last)
            return put(in, rest, read_value(equals + 1)) < 0
                       ? err_set(e, -EINVAL, "--set %.100s: \"%.60s\" can't be set there",
                                 assignment, rest)
                       : 0;
        in = enter(in, rest);
        if (!json_is_object(in) && !json_is_array(in))
            return err_set(e, -EINVAL, "--set %.100s: \"%.60s\" is not a mapping", assignment,
                           rest);
        rest += len + 1;
    }
}
