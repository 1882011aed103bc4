// SPDX-License-Identifier: Apache-2.0
// node list, node show.
#include "cli/cli.h"
#include "cli/commands.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "common/units.h"

static int64_t amount(const json_t *node, const char *which, const char *resource)
{
    return json_opt_i64(json_object_get(json_object_get(node, "resources"), which), resource, 0);
}

// Its state's, else why it is drained, and until when.
static void node_reason(struct table *t, const json_t *n)
{
    const json_t *drain = json_object_get(n, "drain");
    const char *reason = json_opt_str(n, "reason", NULL);
    const char *why = json_opt_str(drain, "reason", "");
    const char *at = json_opt_str(drain, "deadline", NULL);

    if (reason || !json_is_object(drain))
        table_cell(t, reason);
    else
        table_cellf(t, "%s%s%s%s%s%s", why, *why ? " (" : "", json_opt_str(drain, "by", ""),
                    at ? ", deadline " : "", at ? at : "", *why ? ")" : "");
}

static void node_row(struct table *t, const json_t *n)
{
    char free_now[48], total[48], age[UNITS_TEXT_BYTES] = "";
    bool draining = json_opt_bool(n, "draining", false);
    const json_t *report = json_object_get(n, "report_age_ms");

    table_cell(t, json_opt_str(n, "name", NULL));
    table_cellf(t, "%s%s", json_opt_str(n, "state", "?"),
                !draining                         ? ""
                : json_opt_i64(n, "tasks", 0) > 0 ? ",draining"
                                                  : ",drained");
    table_cell(t, json_opt_str(n, "address", NULL));
    table_cell(t, json_opt_str(n, "runtime", NULL));
    output_cpu(amount(n, "free", "cpu"), free_now, sizeof(free_now));
    output_cpu(amount(n, "total", "cpu"), total, sizeof(total));
    table_cellf(t, "%s/%s", free_now, total);
    output_memory(amount(n, "free", "memory"), free_now, sizeof(free_now));
    output_memory(amount(n, "total", "memory"), total, sizeof(total));
    table_cellf(t, "%s/%s", free_now, total);
    table_cellf(t, "%lld/%lld", (long long)amount(n, "free", "gpu"),
                (long long)amount(n, "total", "gpu"));
    table_cellf(t, "%lld", (long long)json_opt_i64(n, "tasks", 0));
    if (json_is_integer(report))
        units_human_duration(json_integer_value(report), age);
    table_cell(t, age);
    node_reason(t, n);
}

static const char *const headings[] = {"NAME",
                                       "STATE",
                                       "ADDRESS",
                                       "RUNTIME",
                                       "CPU free/total",
                                       "MEMORY free/total",
                                       "GPU free/total",
                                       "TASKS",
                                       "REPORT",
                                       "REASON",
                                       NULL};
static const struct list_view view = {"name", headings, node_row, true};

int cmd_node_list(struct cli *cli, const struct args *args)
{
    cleanup_json json_t *list = NULL;
    int code = cli_get_list(cli, "node list", "/v1/nodes", "", 0, &list);

    (void)args;
    if (code == CLI_OK)
        cli_print_list(cli, list, &view);
    return code;
}

// The hardware report as it came, as YAML, below the row.
static void print_hardware(const json_t *node)
{
    cleanup_strbuf struct strbuf b = {0};
    cleanup_json json_t *more = cli_need(json_object());
    static const char *const keys[] = {"id",
                                       "drain",
                                       "approved",
                                       "labels",
                                       "agent_version",
                                       "certificate",
                                       "clock_skew_ms",
                                       "joined_at",
                                       "replaceable_until",
                                       "hardware",
                                       "usage",
                                       "images"};

    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        json_t *v = json_object_get(node, keys[i]);
        if (v && !json_is_null(v))
            json_put(more, keys[i], json_incref(v));
    }
    output_yaml(&b, more);
    (void)printf("\n%s", b.data ? b.data : "");
}

// What an orphan takes of its node.
static void print_holds(const json_t *holds)
{
    char cpu[UNITS_TEXT_BYTES], memory[UNITS_TEXT_BYTES];
    if (!json_is_object(holds))
        return;
    units_format_cpu(json_opt_i64(holds, "cpu", 0), cpu);
    units_format_memory(json_opt_i64(holds, "memory", 0), memory);
    (void)printf(", has cpu %s, memory %s, gpu %lld", cpu, memory,
                 (long long)json_opt_i64(holds, "gpu", 0));
}

static void print_orphans(const json_t *node)
{
    size_t i;
    const json_t *o;

    json_array_foreach (json_object_get(node, "orphans"), i, o) {
        if (i == 0)
            (void)printf("\nof jobs that the master does not know (`meadow node stop-orphans %s` "
                         "ends them):\n",
                         json_opt_str(node, "name", ""));
        (void)printf("  attempt %s of job %s, kept until %s%s", json_opt_str(o, "attempt", "?"),
                     json_opt_str(o, "job", "?"), json_opt_str(o, "until", "?"),
                     json_opt_bool(o, "stopping", false) ? ", being stopped" : "");
        print_holds(json_object_get(o, "holds"));
        (void)printf("\n");
    }
}

int cmd_node_show(struct cli *cli, const struct args *args)
{
    cleanup_json json_t *node = NULL;
    cleanup_free char *path = cli_path("/v1/nodes/", args->words[0], "");
    int code = cli_get(cli, "node show", path, &node);

    if (code != CLI_OK)
        return code;
    cli_print_item(cli, node, &view);
    if (cli->format == OUTPUT_TABLE && !cli->quiet) {
        print_orphans(node);
        print_hardware(node);
    }
    return CLI_OK;
}
