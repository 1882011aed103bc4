// SPDX-License-Identifier: Apache-2.0
// status, dashboard, version: the cluster at a glance.
#include "cli/cli.h"
#include "cli/commands.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "proto/version.h"

#include <stdarg.h>
#include <string.h>

static void line(const char *name, const char *fmt, ...) PRINTF_LIKE(2, 3);
static void line(const char *name, const char *fmt, ...)
{
    cleanup_strbuf struct strbuf b = {0};
    char text[1024] = "";
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    output_safe(&b, text);
    (void)printf("%-9s %s\n", name, b.data ? b.data : "");
}

// "2 ready, 1 lost" of the members that are not 0; `skip` is left out.
static void counts(const json_t *obj, const char *skip, struct strbuf *out)
{
    const char *key;
    json_t *n;

    json_object_foreach ((json_t *)(uintptr_t)obj, key, n) {
        if (json_integer_value(n) == 0 || (skip && strcmp(key, skip) == 0))
            continue;
        strbuf_printf(out, "%s%lld %s", out->len ? ", " : "", (long long)json_integer_value(n),
                      key);
    }
    if (!out->len)
        strbuf_puts(out, "none");
}

static void resource_line(const json_t *r, const char *name,
                          void (*format)(int64_t value, char *out, size_t size))
{
    char total[48], used[48], free_now[48];

    format(json_opt_i64(json_object_get(r, "total"), name, 0), total, sizeof(total));
    format(json_opt_i64(json_object_get(r, "used"), name, 0), used, sizeof(used));
    format(json_opt_i64(json_object_get(r, "free"), name, 0), free_now, sizeof(free_now));
    line(name, "%s free of %s, %s reserved", free_now, total, used);
}

static void format_count(int64_t value, char *out, size_t size)
{
    (void)snprintf(out, size, "%lld", (long long)value);
}

static void print_status(const json_t *c)
{
    cleanup_strbuf struct strbuf nodes = {0}, jobs = {0};
    char age[48];
    size_t i;
    const json_t *w;
    const json_t *r = json_object_get(c, "resources");

    output_age(c, "started_at", NULL, age, sizeof(age));
    counts(json_object_get(c, "nodes"), "total", &nodes);
    counts(json_object_get(c, "jobs"), NULL, &jobs);
    line("cluster", "%s (%s), version %s, master up %s", json_opt_str(c, "name", "?"),
         json_opt_str(c, "id", "?"), json_opt_str(c, "version", "?"), age);
    line("API", "%s", json_opt_str(c, "api", "?"));
    line("nodes", "%s", nodes.data);
    resource_line(r, "cpu", output_cpu);
    resource_line(r, "memory", output_memory);
    resource_line(r, "gpu", format_count);
    line("jobs", "%s", jobs.data);
    const json_t *certs = json_object_get(c, "certificates");
    if (certs)
        line("tls", "the server's certificate: %lld days, the CA: %lld days",
             (long long)json_opt_i64(json_object_get(certs, "server"), "days_left", 0),
             (long long)json_opt_i64(json_object_get(certs, "ca"), "days_left", 0));
    json_array_foreach (json_object_get(c, "warnings"), i, w) {
        line("warning", "%s", json_string_value(w));
    }
}

int cmd_status(struct cli *cli, const struct args *args)
{
    cleanup_json json_t *c = NULL;
    int code = cli_get(cli, "status", "/v1/cluster", &c);

    (void)args;
    if (code != CLI_OK || cli_print_value(cli, c))
        return code;
    if (cli->quiet)
        (void)printf("%s\n", json_opt_str(c, "id", ""));
    else
        print_status(c);
    return CLI_OK;
}

int cmd_dashboard(struct cli *cli, const struct args *args)
{
    cleanup_json json_t *c = NULL;
    int code = cli_get(cli, "dashboard", "/v1/cluster", &c);

    (void)args;
    if (code != CLI_OK || cli_print_value(cli, c))
        return code;
    (void)printf("%s\n", json_opt_str(c, "api", ""));
    return CLI_OK;
}

// The master's version when one is known and answers; this command's own is never held up by it.
int cmd_version(struct cli *cli, const struct args *args)
{
    struct err e = {""};
    struct api_answer answer = {0};
    cleanup_json json_t *master = NULL;
    cleanup_json json_t *all =
        cli_need(json_pack("{s:s,s:n}", "version", MEADOW_VERSION, "master"));
    const struct api_request req = {.method = "GET", .path = "/v1/version", .timeout_ms = 5000};
    struct api *api;

    (void)args;
    int r = cli_api_quiet(cli, &api);
    if (r == 0)
        r = api_call(api, &req, &answer, &e);
    if (cli_good(r, &answer) && json_parse(answer.body, answer.len, &master, &e) == 0)
        json_put(all, "master", json_incref(master));
    api_answer_free(&answer);
    if (cli_print_value(cli, all))
        return CLI_OK;
    (void)printf("%s%s\n", cli->quiet ? "" : "meadow ", MEADOW_VERSION);
    if (!cli->quiet && master)
        (void)printf("master %s (%s)\n", json_opt_str(master, "version", "?"), api_url(cli->api));
    else if (!cli->quiet)
        (void)printf("master not reached\n");
    return CLI_OK;
}
