// SPDX-License-Identifier: Apache-2.0
// job show, job explain: one job for people to read.
#include "cli/commands.h"
#include "cli/job.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <string.h>

static void field(const char *name, const char *text)
{
    cleanup_strbuf struct strbuf b = {0};

    if (!text || !text[0])
        return;
    output_safe(&b, text);
    (void)printf("%-10s %s\n", name, b.data ? b.data : "");
}

static void print_head(const struct cli *cli, const json_t *j)
{
    char ran[48];
    const char *state = json_opt_str(j, "state", "?");
    const char *escape = cli->color ? output_state_color(state) : "";

    field("job", json_opt_str(j, "id", NULL));
    field("name", json_opt_str(j, "name", NULL));
    (void)printf("%-10s %s%s%s\n", "state", escape, state, escape[0] ? OUTPUT_RESET : "");
    field("reason", json_opt_str(j, "reason", NULL));
    field("user", json_opt_str(j, "user", NULL));
    (void)printf("%-10s %lld\n", "priority", (long long)json_opt_i64(j, "priority", 0));
    field("submitted", json_opt_str(j, "submitted_at", NULL));
    field("start by", json_opt_str(j, "start_by", NULL));
    field("deadline", json_opt_str(j, "deadline", NULL));
    field("started", json_opt_str(j, "started_at", NULL));
    field("ended", json_opt_str(j, "ended_at", NULL));
    if (json_opt_str(j, "started_at", NULL)) {
        output_age(j, "started_at", "ended_at", ran, sizeof(ran));
        field(json_opt_str(j, "ended_at", NULL) ? "ran for" : "runs for", ran);
    }
}

static const char *spec_text(const json_t *component, const char *key)
{
    return json_opt_str(component, key, NULL);
}

static void print_components(const struct cli *cli, const json_t *j)
{
    static const char *const headings[] = {"COMPONENT", "NUM",   "RUNNING", "SUCCEEDED",
                                           "FAILED",    "IMAGE", NULL};
    const json_t *spec = json_object_get(json_object_get(j, "spec"), "components");
    const char *name;
    json_t *c;
    struct table *t = cli_need(table_new(headings));

    json_object_foreach (json_object_get(j, "components"), name, c) {
        table_cell(t, name);
        table_cellf(t, "%lld", (long long)json_opt_i64(c, "num", 0));
        table_cellf(t, "%lld", (long long)json_opt_i64(c, "running", 0));
        table_cellf(t, "%lld", (long long)json_opt_i64(c, "succeeded", 0));
        table_cellf(t, "%lld", (long long)json_opt_i64(c, "failed", 0));
        table_cell(t, spec_text(json_object_get(spec, name), "image"));
    }
    (void)printf("\n");
    table_print(t, cli->color);
    table_free(t);
}

static void exit_cell(struct table *t, const json_t *task)
{
    const json_t *code = json_object_get(task, "exit_code");
    const char *signal = json_opt_str(task, "signal", NULL);

    if (!json_is_integer(code))
        table_cell(t, NULL);
    else if (json_opt_bool(task, "oom", false))
        table_cellf(t, "%lld (out of memory)", (long long)json_integer_value(code));
    else if (signal)
        table_cellf(t, "%lld (%s)", (long long)json_integer_value(code), signal);
    else
        table_cellf(t, "%lld", (long long)json_integer_value(code));
}

static void gpus_cell(struct table *t, const json_t *task)
{
    cleanup_strbuf struct strbuf b = {0};
    const json_t *uuids = json_object_get(task, "gpu_uuids");
    size_t i;
    const json_t *g;

    json_array_foreach (json_object_get(task, "gpus"), i, g) {
        const char *uuid = json_string_value(json_array_get(uuids, i));
        strbuf_printf(&b, "%s%lld", b.len ? " " : "", (long long)json_integer_value(g));
        if (uuid && *uuid) // as short as it is still told apart by; whole with --json
            strbuf_printf(&b, ":%.12s", uuid);
    }
    table_cell(t, b.data);
}

// "running (healthy)", as docker ps has it.
static void state_cell(struct table *t, const json_t *task)
{
    const char *state = json_opt_str(task, "state", "?");
    const char *health = json_opt_str(task, "health", NULL);

    if (health && strcmp(state, "running") == 0)
        table_cellf(t, "%s (%s)", state, health);
    else
        table_cell(t, state);
}

static void task_row(struct table *t, const json_t *task)
{
    char age[48];

    table_cellf(t, "%s/%lld", json_opt_str(task, "component", "?"),
                (long long)json_opt_i64(task, "index", 0));
    state_cell(t, task);
    table_cell(t, json_opt_str(task, "node", NULL));
    table_cellf(t, "%lld", (long long)json_opt_i64(task, "attempt", 0));
    exit_cell(t, task);
    gpus_cell(t, task);
    output_age(task, "started_at", "ended_at", age, sizeof(age));
    table_cell(t, age);
    table_cell(t, json_opt_str(task, "cause", NULL));
    table_cell(t, json_opt_str(task, "reason", NULL));
}

static void print_tasks(const struct cli *cli, const json_t *j)
{
    static const char *const headings[] = {"TASK", "STATE", "NODE",  "ATTEMPT", "EXIT",
                                           "GPUS", "TIME",  "CAUSE", "REASON",  NULL};
    size_t i;
    const json_t *task;
    struct table *t = cli_need(table_new(headings));

    json_array_foreach (json_object_get(j, "tasks"), i, task) {
        task_row(t, task);
    }
    (void)printf("\n");
    table_print(t, cli->color);
    table_free(t);
}

static void print_array(const json_t *job)
{
    const json_t *a = json_object_get(job, "array");
    if (!a)
        return;
    (void)printf(
        "%-10s %s: %lld pending, %lld running, %lld succeeded, %lld failed, %lld stopped\n",
        "elements", json_opt_str(a, "spec", "?"), (long long)json_opt_i64(a, "pending", 0),
        (long long)json_opt_i64(a, "running", 0), (long long)json_opt_i64(a, "succeeded", 0),
        (long long)json_opt_i64(a, "failed", 0), (long long)json_opt_i64(a, "stopped", 0));
    (void)printf("%-10s meadow job list --array %s\n", "each", json_opt_str(job, "id", "?"));
}

static int show_one(struct cli *cli, const struct args *args, const char *ref)
{
    cleanup_json json_t *job = NULL;
    cleanup_free char *path = cli_path("/v1/jobs/", ref, "");
    int code = cli_get(cli, "job show", path, &job);

    (void)args;
    if (code != CLI_OK || cli_print_value(cli, job))
        return code;
    if (cli->quiet) {
        (void)printf("%s\n", json_opt_str(job, "id", ""));
        return CLI_OK;
    }
    print_head(cli, job);
    print_array(job);
    print_components(cli, job);
    if (json_opt_bool(job, "hidden", false))
        (void)printf("\nWhat it runs, its tasks and logs are shown to %s and to operators.\n",
                     json_opt_str(job, "user", "its owner"));
    else if (!json_object_get(job, "array"))
        print_tasks(cli, job);
    return CLI_OK;
}

int cmd_job_show(struct cli *cli, const struct args *args)
{
    return job_each(cli, args, show_one);
}

// --- explain ---

static void print_blocker(const json_t *b)
{
    char amount[48];
    const char *what = json_opt_str(b, "resource", json_opt_str(b, "reason", "?"));
    int64_t short_by = json_opt_i64(b, "short_by", 0);
    long long nodes = (long long)json_opt_i64(b, "nodes", 0);

    if (strcmp(what, "cpu") == 0)
        output_cpu(short_by, amount, sizeof(amount));
    else if (strcmp(what, "memory") == 0)
        output_memory(short_by, amount, sizeof(amount));
    else
        (void)snprintf(amount, sizeof(amount), "%lld", (long long)short_by);
    (void)printf("  %s on %lld node%s", what, nodes, nodes == 1 ? "" : "s");
    if (short_by > 0)
        (void)printf(", short by %s%s", amount, strcmp(what, "cpu") == 0 ? " cores" : "");
    (void)printf("\n");
}

static void print_ahead(const json_t *ahead)
{
    size_t i;
    const json_t *id;

    if (json_array_size(ahead) == 0)
        return;
    (void)printf("\nahead of it:");
    json_array_foreach (ahead, i, id) {
        (void)printf(" %s", json_string_value(id));
    }
    (void)printf("\n");
}

static void print_node_reasons(const struct cli *cli, const json_t *nodes, long long total)
{
    static const char *const headings[] = {"NODE", "WHY NOT HERE", NULL};
    size_t i, k;
    const json_t *n, *reason;
    struct table *t = cli_need(table_new(headings));

    json_array_foreach (nodes, i, n) {
        cleanup_strbuf struct strbuf b = {0};
        json_array_foreach (json_object_get(n, "reasons"), k, reason) {
            strbuf_printf(&b, "%s%s", b.len ? "; " : "", json_string_value(reason));
        }
        table_cell(t, json_opt_str(n, "node", NULL));
        table_cell(t, b.data);
    }
    if (json_array_size(nodes) > 0) {
        (void)printf("\n");
        table_print(t, cli->color);
    }
    if (total > (long long)json_array_size(nodes))
        (void)printf("and %lld nodes more\n", total - (long long)json_array_size(nodes));
    table_free(t);
}

static void print_reservation(const json_t *r)
{
    const char *by = json_opt_str(r, "starts_by", NULL);
    if (!json_is_object(r))
        return;
    (void)printf("%-10s job %s is the head of the queue", "reserved", json_opt_str(r, "job", "?"));
    if (by)
        (void)printf(", and starts at the latest at %s if time limits are kept", by);
    (void)printf("%s\n", json_opt_bool(r, "strict", false) ? "; its nodes are held for it" : "");
}

static int explain_one(struct cli *cli, const struct args *args, const char *ref)
{
    cleanup_json json_t *x = NULL;
    char age[48];
    size_t i;
    const json_t *b;
    cleanup_free char *path = cli_path("/v1/jobs/", ref, "/explain");
    int code = cli_get(cli, "job explain", path, &x);

    (void)args;
    if (code != CLI_OK || cli_print_value(cli, x))
        return code;
    output_age(x, "since", NULL, age, sizeof(age));
    field("job", json_opt_str(x, "job", NULL));
    (void)printf("%-10s %s, submitted %s ago\n", "state", json_opt_str(x, "state", "?"), age);
    field("summary", json_opt_str(x, "summary", NULL));
    print_reservation(json_object_get(x, "reservation"));
    if (cli->quiet)
        return CLI_OK;
    const json_t *blockers = json_object_get(x, "blockers");
    if (json_array_size(blockers) > 0)
        (void)printf("\nwhat is short:\n");
    json_array_foreach (blockers, i, b) {
        print_blocker(b);
    }
    print_ahead(json_object_get(x, "ahead"));
    print_node_reasons(cli, json_object_get(x, "nodes"), json_opt_i64(x, "nodes_total", 0));
    return CLI_OK;
}

int cmd_job_explain(struct cli *cli, const struct args *args)
{
    return job_each(cli, args, explain_one);
}
