// SPDX-License-Identifier: Apache-2.0
// job list, wait, stop, delete.
#include "cli/commands.h"
#include "cli/job.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <string.h>

#define WAIT_SECONDS 60
#define PATIENCE_MS 60000

// --- list ---

static long component_sum(const json_t *job, const char *member)
{
    long sum = 0;
    const char *name;
    json_t *c;

    json_object_foreach (json_object_get(job, "components"), name, c) {
        sum += (long)json_opt_i64(c, member, 0);
    }
    return sum;
}

long job_tasks(const json_t *job, const char *component)
{
    const json_t *c = json_object_get(job, "components");
    return component ? (long)json_opt_i64(json_object_get(c, component), "num", 0)
                     : component_sum(job, "num");
}

static void job_row(struct table *t, const json_t *j)
{
    char age[48];

    output_age(j, "submitted_at", NULL, age, sizeof(age));
    table_cell(t, json_opt_str(j, "id", NULL));
    table_cell(t, json_opt_str(j, "name", NULL));
    table_cell(t, json_opt_str(j, "state", NULL));
    table_cell(t, json_opt_str(j, "user", NULL));
    table_cellf(t, "%lld", (long long)json_opt_i64(j, "priority", 0));
    const json_t *array = json_object_get(j, "array");
    if (array)
        table_cellf(t, "%lld/%lld", (long long)json_opt_i64(array, "running", 0),
                    (long long)json_opt_i64(array, "count", 0));
    else
        table_cellf(t, "%ld/%ld", component_sum(j, "running"), job_tasks(j, NULL));
    table_cell(t, age);
    table_cell(t, json_opt_str(j, "reason", NULL));
}

static const struct list_view view = {"id", job_headings, job_row, false};

static void put_filter(struct strbuf *query, const char *key, const char *value)
{
    if (!value)
        return;
    strbuf_printf(query, "&%s=", key);
    api_encode(query, value, false);
}

int cmd_job_list(struct cli *cli, const struct args *args)
{
    struct err e = {""};
    long limit = 0;
    cleanup_json json_t *list = NULL;
    cleanup_strbuf struct strbuf query = {0};
    const char *state = args_value(args, "state");

    if (args_number(args, "limit", 1, 1000000, &limit, &e) < 0)
        return cli_usage(args, e.text);
    strbuf_puts(&query, "?state=");
    bool all = args_has(args, "all") || args_has(args, "array");
    api_encode(&query, state ? state : all ? "all" : "live", false);
    put_filter(&query, "user", args_value(args, "user"));
    put_filter(&query, "array", args_value(args, "array"));
    bool as_json = cli->format != OUTPUT_TABLE || args_has(args, "array");
    int code = as_json ? CLI_OK : job_rows(cli, query.data, limit, &as_json);
    if (code == CLI_OK && as_json)
        code = cli_get_list(cli, "job list", "/v1/jobs", query.data, limit, &list);
    if (code == CLI_OK && as_json)
        cli_print_list(cli, list, &view);
    return code;
}

// --- wait ---

static bool job_is_over(const char *state)
{
    return strcmp(state, "succeeded") == 0 || strcmp(state, "failed") == 0 ||
           strcmp(state, "stopped") == 0;
}

int job_exit_status(const json_t *job)
{
    return strcmp(json_opt_str(job, "state", ""), "succeeded") == 0 ? CLI_OK : CLI_FAILED;
}

void job_print_end(const struct cli *cli, const json_t *job)
{
    cleanup_strbuf struct strbuf b = {0};
    const char *reason = json_opt_str(job, "reason", NULL);
    const char *state = json_opt_str(job, "state", "?");

    if (cli_print_value(cli, job))
        return;
    if (cli->quiet) {
        (void)printf("%s\n", state);
        return;
    }
    strbuf_printf(&b, "job %s (%s) %s", json_opt_str(job, "name", "?"),
                  json_opt_str(job, "id", "?"), state);
    if (reason) {
        strbuf_puts(&b, ": ");
        output_safe(&b, reason);
    }
    (void)printf("%s\n", b.data ? b.data : "");
}

int job_interrupted(const char *id)
{
    (void)fflush(stdout);
    (void)fprintf(stderr,
                  "\nmeadow: interrupted; the job runs on (`meadow job logs %s -f` follows it, "
                  "`meadow job stop %s` ends it)\n",
                  id, id);
    return CLI_INTERRUPTED;
}

int job_wait(struct cli *cli, const char *what, const char *id, json_t **ret)
{
    char suffix[32];
    struct api *api;
    int code = cli_api(cli, &api);

    if (code != CLI_OK)
        return code;
    (void)snprintf(suffix, sizeof(suffix), "?wait=%ds", WAIT_SECONDS);
    cleanup_free char *path = cli_path("/v1/jobs/", id, suffix);
    const struct api_request req = {.method = "GET",
                                    .path = path,
                                    .timeout_ms = (WAIT_SECONDS + 15) * 1000,
                                    .patience_ms = PATIENCE_MS};
    for (;;) {
        json_t *job = NULL;
        code = cli_request(cli, what, &req, &job);
        if (code != CLI_OK || job_is_over(json_opt_str(job, "state", ""))) {
            *ret = job;
            return code;
        }
        json_decref(job);
    }
}

static int wait_one(struct cli *cli, const struct args *args, const char *ref)
{
    cleanup_json json_t *first = NULL;
    cleanup_json json_t *job = NULL;
    struct api *api;
    cleanup_free char *path = cli_path("/v1/jobs/", ref, "");
    int code = cli_api(cli, &api);

    (void)args;
    if (code == CLI_OK && api_catch_interrupt(api) < 0)
        code = cli_fail(CLI_FAILED, "job wait", "signals can't be caught", NULL);
    if (code == CLI_OK)
        code = cli_get(cli, "job wait", path, &first);
    // From here by id: the name could come to mean a newer job.
    const char *id = json_opt_str(first, "id", ref);
    if (code == CLI_OK)
        code = job_wait(cli, "job wait", id, &job);
    if (code == CLI_INTERRUPTED)
        return job_interrupted(id);
    if (code != CLI_OK)
        return code;
    job_print_end(cli, job);
    return job_exit_status(job);
}

int cmd_job_wait(struct cli *cli, const struct args *args)
{
    return job_each(cli, args, wait_one);
}

// --- hold, release, stop, delete ---

static void print_done(const struct cli *cli, const json_t *job, const char *done)
{
    const char *id = json_opt_str(job, "id", "?");
    if (cli->quiet)
        (void)printf("%s\n", id);
    else
        (void)printf("job %s %s\n", id, json_opt_str(job, "state", done));
}

static int change(struct cli *cli, const char *ref, const char *what, const char *method,
                  const char *suffix, const char *done)
{
    cleanup_json json_t *answer = NULL;
    cleanup_free char *path = cli_path("/v1/jobs/", ref, suffix);
    cleanup_free char *title = cli_format("%s %s", what, ref);
    int code = cli_send(cli, title, method, path, NULL, &answer);
    if (code == CLI_OK && !cli_print_value(cli, answer))
        print_done(cli, answer, done);
    return code;
}

static int stop_one(struct cli *cli, const struct args *args, const char *ref)
{
    (void)args;
    return change(cli, ref, "job stop", "POST", ":stop", "stopping");
}

static int hold_one(struct cli *cli, const struct args *args, const char *ref)
{
    (void)args;
    return change(cli, ref, "job hold", "POST", ":hold", "held");
}

static int release_one(struct cli *cli, const struct args *args, const char *ref)
{
    (void)args;
    return change(cli, ref, "job release", "POST", ":release", "released");
}

static int delete_one(struct cli *cli, const struct args *args, const char *ref)
{
    (void)args;
    return change(cli, ref, "job delete", "DELETE", "", "deleted");
}

int cmd_job_stop(struct cli *cli, const struct args *args)
{
    return job_each(cli, args, stop_one);
}

int cmd_job_hold(struct cli *cli, const struct args *args)
{
    return job_each(cli, args, hold_one);
}

int cmd_job_release(struct cli *cli, const struct args *args)
{
    return job_each(cli, args, release_one);
}

int cmd_job_delete(struct cli *cli, const struct args *args)
{
    return job_each(cli, args, delete_one);
}
