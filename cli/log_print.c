// SPDX-License-Identifier: Apache-2.0
// One JSON line is one log line: `task/index | text`. Bytes that were no UTF-8 come as base64 and
// are written as they were. Per task and stream the printed lines are counted, which is what makes
// a follow survive a restart of the master.
#include "cli/log_print.h"

#include "cli/output.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <openssl/evp.h>
#include <string.h>
#include <uthash.h>

#define KEY_BYTES 200

struct counter { // lines of one attempt's stream
    char key[KEY_BYTES];
    unsigned long printed, skip;
    UT_hash_handle hh;
};

struct log_print {
    struct log_print_options options;
    struct strbuf pending; // the unfinished line
    struct counter *counters;
};

struct log_print *log_print_new(const struct log_print_options *options)
{
    struct log_print *p = calloc(1, sizeof(*p));
    if (p)
        p->options = *options;
    return p;
}

void log_print_free(struct log_print *p)
{
    struct counter *c, *tmp;
    if (!p)
        return;
    HASH_ITER (hh, p->counters, c, tmp) {
        HASH_DEL(p->counters, c);
        free(c);
    }
    strbuf_reset(&p->pending);
    free(p);
}

void log_print_again(struct log_print *p)
{
    for (struct counter *c = p->counters; c; c = c->hh.next)
        c->skip = c->printed;
    strbuf_reset(&p->pending);
}

// Whether this line was printed before the stream broke.
static int count(struct log_print *p, const json_t *line, bool *ret_skip)
{
    char key[KEY_BYTES];
    struct counter *c = NULL;

    (void)snprintf(key, sizeof(key), "%.140s %lld %.10s", json_opt_str(line, "task", ""),
                   (long long)json_opt_i64(line, "attempt", 0), json_opt_str(line, "stream", ""));
    HASH_FIND_STR(p->counters, key, c);
    if (!c) {
        c = calloc(1, sizeof(*c));
        if (!c)
            return -ENOMEM;
        memcpy(c->key, key, sizeof(key));
        HASH_ADD_STR(p->counters, key, c);
    }
    *ret_skip = c->skip > 0;
    if (c->skip > 0)
        c->skip--;
    else
        c->printed++;
    return 0;
}

// "JOBID/actor/0" -> "actor/0".
static const char *short_name(const char *task)
{
    const char *slash = strchr(task, '/');
    return slash ? slash + 1 : task;
}

static const char *color_of(const char *name)
{
    static const char *const colors[] = {"\033[36m", "\033[33m", "\033[32m",
                                         "\033[35m", "\033[34m", "\033[31m"};
    size_t len = strcspn(name, "/");
    unsigned hash = 5381;
    for (size_t i = 0; i < len; i++)
        hash = hash * 33 + (unsigned char)name[i];
    return colors[hash % ARRAY_SIZE(colors)];
}

static void put_base64(const struct log_print *p, const char *text)
{
    size_t len = strlen(text);
    cleanup_free unsigned char *out = malloc(len + 1);
    int n =
        out && len < INT32_MAX ? EVP_DecodeBlock(out, (const unsigned char *)text, (int)len) : -1;

    while (n > 0 && len > 0 && text[len - 1] == '=') { // the padding was decoded to zeros
        n--;
        len--;
    }
    if (n > 0)
        (void)fwrite(out, 1, (size_t)n, p->options.to);
}

static void print_line(const struct log_print *p, const json_t *line)
{
    const char *name = short_name(json_opt_str(line, "task", "?"));
    const char *text = json_opt_str(line, "text", NULL);
    const char *base64 = json_opt_str(line, "base64", NULL);
    const char *time = p->options.timestamps ? json_opt_str(line, "time", NULL) : NULL;
    bool color = p->options.color;

    (void)fprintf(p->options.to, "%s%-*s |%s %s%s", color ? color_of(name) : "",
                  (int)p->options.width, name, color ? OUTPUT_RESET : "", time ? time : "",
                  time ? " " : "");
    size_t len = text ? json_string_length(json_object_get(line, "text")) : 0;
    if (text && len && text[len - 1] == '\n')
        len--;
    if (text)
        (void)fwrite(text, 1, len, p->options.to);
    else if (base64)
        put_base64(p, base64);
    else
        (void)fprintf(p->options.to, "[meadow: %lld bytes lost here]",
                      (long long)json_opt_i64(line, "gap", 0));
    (void)fputc('\n', p->options.to);
}

static int take_line(struct log_print *p, const char *data, size_t len)
{
    bool skip;
    cleanup_json json_t *line = NULL;

    if (len == 0 || json_parse(data, len, &line, NULL) < 0)
        return 0; // a heartbeat, or damage that costs one line
    int r = count(p, line, &skip);
    if (r < 0 || skip)
        return r;
    if (p->options.raw_json) {
        (void)fwrite(data, 1, len, p->options.to);
        (void)fputc('\n', p->options.to);
    } else {
        print_line(p, line);
    }
    return 0;
}

int log_print_feed(struct log_print *p, const char *data, size_t len)
{
    const char *newline;
    int r = 0;

    strbuf_append(&p->pending, data, len);
    if (p->pending.failed)
        return -ENOMEM;
    size_t used = 0;
    while (r == 0 && used < p->pending.len &&
           (newline = memchr(p->pending.data + used, '\n', p->pending.len - used))) {
        size_t end = (size_t)(newline - p->pending.data);
        r = take_line(p, p->pending.data + used, end - used);
        used = end + 1;
    }
    strbuf_consume(&p->pending, used);
    if (fflush(p->options.to) != 0)
        return -EPIPE;
    return r;
}
