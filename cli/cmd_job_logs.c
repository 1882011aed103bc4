// SPDX-License-Identifier: Apache-2.0
// job logs. One task: its bytes as it wrote them. Several: a line each, behind the task's name. A
// follow goes on where it was when the connection breaks.
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/log_print.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <string.h>

#define PATIENCE_MS 60000

struct reader {
    struct cli *cli;
    const struct job_logs_options *options;
    char *path;
    struct log_print *print; // NULL: raw bytes
    uint64_t received;       // raw bytes so far
    uint64_t skip;           // of the stream that began again
};

static char *logs_path(const char *id, const struct job_logs_options *o, bool raw)
{
    struct strbuf b = {0};

    strbuf_puts(&b, "/v1/jobs/");
    api_encode(&b, id, false);
    strbuf_printf(&b, "/logs?follow=%d", o->follow);
    if (o->component) {
        strbuf_puts(&b, "&component=");
        api_encode(&b, o->component, false);
    }
    if (o->index >= 0)
        strbuf_printf(&b, "&index=%ld", o->index);
    if (o->stream) {
        strbuf_puts(&b, "&stream=");
        api_encode(&b, o->stream, false);
    }
    if (o->tail >= 0)
        strbuf_printf(&b, "&tail=%ld", o->tail);
    if (o->timestamps && raw)
        strbuf_puts(&b, "&timestamps=1");
    return cli_need(strbuf_take(&b));
}

static int on_raw(struct reader *r, const char *data, size_t len)
{
    size_t skipped = r->skip < len ? (size_t)r->skip : len;

    r->skip -= skipped;
    r->received += len - skipped;
    if (fwrite(data + skipped, 1, len - skipped, stdout) < len - skipped || fflush(stdout) != 0)
        return -EPIPE;
    return 0;
}

static int on_chunk(const char *data, size_t len, void *userdata)
{
    struct reader *r = userdata;
    return r->print ? log_print_feed(r->print, data, len) : on_raw(r, data, len);
}

// Lines are only counted from the beginning: with --tail a second stream could not be matched with
// the first.
static bool may_go_on(const struct reader *r, int error)
{
    bool broken = error == -EIO || error == -ETIMEDOUT || error == -EPROTO;
    return broken && r->options->follow && r->options->tail < 0;
}

static int stream(struct reader *r, const char *what)
{
    struct err e = {""};
    struct api *api;
    int code = cli_api(r->cli, &api);
    struct api_request req = {.method = "GET",
                              .path = r->path,
                              .accept = r->print ? "application/x-ndjson" : "text/plain",
                              .timeout_ms = API_NO_TIMEOUT,
                              .patience_ms = r->options->follow ? PATIENCE_MS : 0,
                              .chunk = on_chunk,
                              .userdata = r};
    while (code == CLI_OK) {
        struct api_answer answer = {0};
        int result = api_call(api, &req, &answer, &e);
        bool good = cli_good(result, &answer);
        if (!good && result == -ECANCELED)
            code = cli_output_gone();
        else if (!good && !may_go_on(r, result))
            code = cli_report(r->cli, what, result, &e, &answer);
        api_answer_free(&answer);
        if (good)
            return CLI_OK;
        if (code == CLI_OK)
            cli_progress(r->cli, "the connection broke; going on when the master answers");
        if (r->print)
            log_print_again(r->print);
        r->skip = r->received;
    }
    return code;
}

// The longest "component/index".
static unsigned name_width(const json_t *job, const char *only)
{
    unsigned width = 0;
    const char *name;
    json_t *c;

    json_object_foreach (json_object_get(job, "components"), name, c) {
        long num = (long)json_opt_i64(c, "num", 1);
        if (only && strcmp(name, only) != 0)
            continue;
        int n = snprintf(NULL, 0, "%s/%ld", name, num > 0 ? num - 1 : 0);
        width = (unsigned)n > width ? (unsigned)n : width;
    }
    return width;
}

int job_logs(struct cli *cli, const char *what, const json_t *job, const struct job_logs_options *o)
{
    bool one = o->index >= 0 && o->component ? true : job_tasks(job, o->component) <= 1;
    bool raw = one && cli->format == OUTPUT_TABLE;
    const struct log_print_options print = {.to = stdout,
                                            .color = cli->color,
                                            .timestamps = o->timestamps,
                                            .raw_json = cli->format != OUTPUT_TABLE,
                                            .width = name_width(job, o->component)};
    struct reader r = {
        .cli = cli, .options = o, .path = logs_path(json_opt_str(job, "id", ""), o, raw)};

    r.print = raw ? NULL : cli_need(log_print_new(&print));
    int code = stream(&r, what);
    log_print_free(r.print);
    free(r.path);
    return code;
}

static int read_options(const struct args *args, struct job_logs_options *o)
{
    struct err e = {""};

    *o = (struct job_logs_options){.follow = args_has(args, "follow"),
                                   .timestamps = args_has(args, "timestamps"),
                                   .component = args_value(args, "component"),
                                   .stream = args_value(args, "stream"),
                                   .index = -1,
                                   .tail = -1};
    if (args_number(args, "index", 0, 1000000, &o->index, &e) < 0 ||
        args_number(args, "tail", 0, 1000000000, &o->tail, &e) < 0)
        return cli_usage(args, e.text);
    return CLI_OK;
}

static int logs_one(struct cli *cli, const struct args *args, const char *ref)
{
    struct job_logs_options o;
    cleanup_json json_t *job = NULL;
    struct api *api = NULL;
    cleanup_free char *path = cli_path("/v1/jobs/", ref, "");
    int code = read_options(args, &o);

    if (code == CLI_OK)
        code = cli_api(cli, &api);
    if (code == CLI_OK && o.follow && api_catch_interrupt(api) < 0)
        code = cli_fail(CLI_FAILED, "job logs", "signals can't be caught", NULL);
    if (code == CLI_OK)
        code = cli_get(cli, "job logs", path, &job);
    if (code == CLI_OK)
        code = job_logs(cli, "job logs", job, &o);
    return code == CLI_INTERRUPTED ? job_interrupted(json_opt_str(job, "id", ref)) : code;
}

int cmd_job_logs(struct cli *cli, const struct args *args)
{
    return job_each(cli, args, logs_one);
}
