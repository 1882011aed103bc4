// SPDX-License-Identifier: Apache-2.0
// job start: the file goes to the master as it is, so that mistakes are told with its own lines;
// with --set it is read here, changed, and sent as JSON.
#include "cli/command.h"
#include "cli/commands.h"
#include "cli/job.h"
#include "cli/job_file.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct submission {
    char *text;
    size_t len;
    bool json;
    const char *shown; // the file's name for messages
};

static int apply_sets(const struct args *args, struct submission *s, struct err *e)
{
    cleanup_json json_t *job = NULL;
    int r = job_file_parse(s->text, s->len, s->json, &job, e);

    if (r == 0 && !json_is_object(job))
        r = err_set(e, -EPROTO, "a job file is a mapping");
    for (size_t i = 0; r == 0 && i < args->n_options; i++)
        if (strcmp(args->options[i].spec->name, "set") == 0)
            r = job_file_set(job, args->options[i].value, e);
    if (r < 0)
        return r;
    free(s->text);
    s->text = cli_need(json_text(job));
    s->len = strlen(s->text);
    s->json = true;
    return 0;
}

static int read_submission(const struct args *args, struct submission *s)
{
    struct err e = {""};
    const char *path = args->words[0];
    cleanup_free char *what = cli_format("job %s", args->command->sub);

    s->shown = strcmp(path, "-") == 0 ? "standard input" : path;
    int r = job_file_read(path, &s->text, &s->len, &e);
    if (r < 0)
        return cli_failf(CLI_FAILED, what, "check the file's name", "%s: %s", s->shown, e.text);
    s->json = job_file_is_json(path, s->text);
    if (!args_has(args, "set"))
        return CLI_OK;
    r = apply_sets(args, s, &e);
    return r < 0 ? cli_failf(r == -EINVAL ? CLI_USAGE : CLI_FAILED, what, NULL, "%s: %s", s->shown,
                             e.text)
                 : CLI_OK;
}

static int submit(struct cli *cli, const struct args *args, const char *to,
                  const struct submission *s, json_t **ret)
{
    cleanup_strbuf struct strbuf path = {0};
    const char *name = args_value(args, "name");
    cleanup_free char *what = cli_format("job %s %s", args->command->sub, s->shown);

    strbuf_puts(&path, to);
    if (name) {
        strbuf_puts(&path, "?name=");
        api_encode(&path, name, false);
    }
    const struct api_request req = {.method = "POST",
                                    .path = path.data,
                                    .content_type =
                                        s->json ? "application/json" : "application/yaml",
                                    .body = s->text,
                                    .body_len = s->len};
    return cli_request(cli, what, &req, ret);
}

static void print_warnings(const json_t *job)
{
    size_t i;
    const json_t *w;

    json_array_foreach (json_object_get(job, "warnings"), i, w) {
        cleanup_strbuf struct strbuf b = {0};
        output_safe(&b, json_string_value(w));
        (void)fprintf(stderr, "warning: %s\n", b.data ? b.data : "");
    }
}

static void print_started(const struct cli *cli, const json_t *job, bool follow)
{
    const char *id = json_opt_str(job, "id", "?");

    if (!follow && cli_print_value(cli, job))
        return;
    if (cli->quiet)
        (void)printf("%s\n", id);
    else
        (void)fprintf(follow ? stderr : stdout, "job %s submitted: %s\n",
                      json_opt_str(job, "name", "?"), id);
    (void)fflush(stdout);
}

static int follow(struct cli *cli, const json_t *job)
{
    static const struct job_logs_options options = {.follow = true, .index = -1, .tail = -1};
    const char *id = json_opt_str(job, "id", "");
    cleanup_json json_t *end = NULL;
    struct api *api;
    int code = cli_api(cli, &api);

    if (code == CLI_OK && api_catch_interrupt(api) < 0)
        code = cli_fail(CLI_FAILED, "job start", "signals can't be caught", NULL);
    if (code == CLI_OK && !json_object_get(job, "array")) // the logs are its elements'
        code = job_logs(cli, "job logs", job, &options);
    if (code == CLI_OK)
        code = job_wait(cli, "job wait", id, &end);
    if (code == CLI_INTERRUPTED)
        return job_interrupted(id);
    if (code != CLI_OK)
        return code;
    (void)fflush(stdout);
    if (!cli->quiet || cli->format != OUTPUT_TABLE)
        job_print_end(cli, end);
    return job_exit_status(end);
}

int cmd_job_start(struct cli *cli, const struct args *args)
{
    struct submission s = {0};
    cleanup_json json_t *job = NULL;
    bool wanted = args_has(args, "follow");
    int code = read_submission(args, &s);

    cli->no_lines = args_has(args, "set");
    if (code == CLI_OK)
        code = submit(cli, args, "/v1/jobs", &s, &job);
    free(s.text);
    if (code != CLI_OK)
        return code;
    print_warnings(job);
    print_started(cli, job, wanted);
    return wanted ? follow(cli, job) : CLI_OK;
}

int cmd_job_plan(struct cli *cli, const struct args *args)
{
    struct submission s = {0};
    cleanup_json json_t *x = NULL;
    size_t i;
    const json_t *p;
    int code = read_submission(args, &s);
    if (code == CLI_OK)
        code = submit(cli, args, "/v1/jobs:plan", &s, &x);
    free(s.text);
    if (code != CLI_OK || cli_print_value(cli, x))
        return code;
    (void)printf("%s\n", json_opt_str(x, "summary", ""));
    json_array_foreach (json_object_get(x, "stops"), i, p)
        (void)printf("  stops %s\n", json_string_value(p));
    if (json_opt_str(x, "starts_by", NULL))
        (void)printf("  starts at the latest at %s, if time limits are kept\n",
                     json_opt_str(x, "starts_by", ""));
    json_array_foreach (json_object_get(x, "placements"), i, p)
        (void)printf("  %s/%" PRId64 " on %s\n", json_opt_str(p, "component", "?"),
                     json_opt_i64(p, "index", 0), json_opt_str(p, "node", "?"));
    return CLI_OK;
}
