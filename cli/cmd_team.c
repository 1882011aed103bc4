// SPDX-License-Identifier: Apache-2.0
// team list, show, set, reset; and the options that users and teams share.
#include "cli/cli.h"
#include "cli/commands.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <stdlib.h>
#include <string.h>

// "cpu=8,memory=16g,gpu=2,jobs=5,tasks=50"; what is left out has no limit.
static json_t *quota_of(const char *text)
{
    json_t *quota = json_object();
    cleanup_free char *copy = cli_need(strdup(text));
    char *save = NULL;
    if (strcmp(text, "none") == 0)
        return quota;
    for (char *part = strtok_r(copy, ",", &save); part; part = strtok_r(NULL, ",", &save)) {
        char *eq = strchr(part, '=');
        char *end = NULL;
        if (!eq) {
            json_put_str(quota, part, ""); // the master says what is wrong
            continue;
        }
        *eq = '\0';
        long long n = strtoll(eq + 1, &end, 10);
        bool whole = end != eq + 1 && !*end;
        json_put(quota, part, whole ? json_integer(n) : json_string(eq + 1));
    }
    return quota;
}

int cli_put_shares(const struct args *args, json_t *body)
{
    struct err e = {""};
    long n = 1;
    if (args_number(args, "weight", 1, 1000000, &n, &e) < 0)
        return cli_usage(args, e.text);
    if (args_has(args, "weight"))
        json_put_i64(body, "weight", n);
    if (args_has(args, "quota"))
        json_put(body, "quota", quota_of(args_value(args, "quota")));
    return CLI_OK;
}

void cli_quota_text(const json_t *quota, struct strbuf *b)
{
    const char *key;
    json_t *v;
    json_object_foreach ((json_t *)(uintptr_t)quota, key, v) {
        if (json_is_null(v))
            continue;
        strbuf_printf(b, "%s%s=", b->len ? "," : "", key);
        if (json_is_string(v))
            strbuf_puts(b, json_string_value(v));
        else
            strbuf_printf(b, "%lld", (long long)json_integer_value(v));
    }
}

static void team_row(struct table *t, const json_t *x)
{
    cleanup_strbuf struct strbuf quota = {0};
    cli_quota_text(json_object_get(x, "quota"), &quota);
    table_cell(t, json_opt_str(x, "name", NULL));
    table_cellf(t, "%lld", (long long)json_opt_i64(x, "users", 0));
    table_cellf(t, "%lld", (long long)json_opt_i64(x, "weight", 1));
    table_cell(t, quota.data);
}

static const char *const headings[] = {"NAME", "USERS", "WEIGHT", "QUOTA", NULL};
static const struct list_view view = {"name", headings, team_row, true};

int cmd_team_list(struct cli *cli, const struct args *args)
{
    (void)args;
    return cli_list(cli, "team list", "/v1/teams", &view);
}

int cmd_team_show(struct cli *cli, const struct args *args)
{
    cleanup_free char *path = cli_path("/v1/teams/", args->words[0], "");
    return cli_show(cli, "team show", path, &view);
}

int cmd_team_set(struct cli *cli, const struct args *args)
{
    cleanup_json json_t *answer = NULL;
    cleanup_json json_t *body = cli_need(json_object());
    cleanup_free char *path = cli_path("/v1/teams/", args->words[0], "");
    int code = cli_put_shares(args, body);
    if (code == CLI_OK && json_object_size(body) == 0)
        return cli_usage(args, "nothing to set");
    if (code == CLI_OK)
        code = cli_send(cli, "team set", "PATCH", path, body, &answer);
    if (code == CLI_OK)
        cli_print_item(cli, answer, &view);
    return code;
}

int cmd_team_reset(struct cli *cli, const struct args *args)
{
    cleanup_free char *path = cli_path("/v1/teams/", args->words[0], "");
    return cli_remove(cli, "team reset", path, args->words[0],
                      " has weight 1 and no quota again; its users stay");
}
