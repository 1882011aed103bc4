// SPDX-License-Identifier: Apache-2.0
// user add, list, show, set, remove.
#include "cli/cli.h"
#include "cli/commands.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <stdlib.h>
#include <string.h>

// "exec,data-write" as a list; "none" as an empty one.
static json_t *rights_list(const char *text)
{
    json_t *list = cli_need(json_array());
    cleanup_free char *copy = cli_strdup(text);
    char *rest = NULL;
    if (strcmp(text, "none") == 0)
        return list;
    for (char *word = strtok_r(copy, ", ", &rest); word; word = strtok_r(NULL, ", ", &rest))
        (void)json_array_append_new(list, cli_need(json_string(word)));
    return list;
}

static int put_numbers(const struct args *args, json_t *body)
{
    static const char *const keys[] = {"uid", "gid"};
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
        struct err e = {""};
        long n = -1;
        const char *text = args_value(args, keys[i]);
        if (text && strcmp(text, "none") == 0)
            json_put(body, keys[i], json_null());
        else if (args_number(args, keys[i], 0, 4294967294, &n, &e) < 0)
            return cli_usage(args, e.text);
        else if (text)
            json_put_i64(body, keys[i], n);
    }
    return CLI_OK;
}

static int change(struct cli *cli, const struct args *args, json_t *body)
{
    const char *team = args_value(args, "team");
    int code = put_numbers(args, body);

    if (code != CLI_OK)
        return code;
    if (args_has(args, "enable") && args_has(args, "disable"))
        return cli_usage(args, "--enable and --disable contradict each other");
    if (args_has(args, "role"))
        json_put_str(body, "role", args_value(args, "role"));
    if (args_has(args, "rights"))
        json_put(body, "rights", rights_list(args_value(args, "rights")));
    if (team)
        json_put_str(body, "team", strcmp(team, "none") == 0 ? NULL : team);
    code = cli_put_shares(args, body);
    if (code != CLI_OK)
        return code;
    if (args_has(args, "enable") || args_has(args, "disable"))
        json_put_bool(body, "disabled", args_has(args, "disable"));
    (void)cli;
    return CLI_OK;
}

static void rights_text(const json_t *user, char *out, size_t size)
{
    size_t i, n = 0;
    const json_t *x;
    out[0] = '\0';
    json_array_foreach (json_object_get(user, "rights"), i, x) {
        (void)snprintf(out + n, size - n, "%s%s", i ? "," : "", json_string_value(x));
        n = strlen(out);
    }
    if (n == 0)
        (void)snprintf(out, size, "-");
}

static void number_text(const json_t *user, const char *key, char *out, size_t size)
{
    int64_t n = json_opt_i64(user, key, -1);
    (void)snprintf(out, size, n < 0 ? "-" : "%lld", (long long)n);
}

static void user_row(struct table *t, const json_t *x)
{
    char rights[64], uid[24], gid[24];
    cleanup_strbuf struct strbuf quota = {0};
    cli_quota_text(json_object_get(x, "quota"), &quota);
    rights_text(x, rights, sizeof(rights));
    number_text(x, "uid", uid, sizeof(uid));
    number_text(x, "gid", gid, sizeof(gid));
    table_cell(t, json_opt_str(x, "name", NULL));
    table_cell(t, json_opt_str(x, "role", NULL));
    table_cell(t, rights);
    table_cell(t, json_opt_str(x, "team", NULL));
    table_cellf(t, "%lld", (long long)json_opt_i64(x, "weight", 1));
    table_cell(t, quota.data);
    table_cell(t, uid);
    table_cell(t, gid);
    table_cell(t, json_opt_bool(x, "disabled", false) ? "disabled" : "active");
    table_cell(t, json_opt_str(x, "created_at", NULL));
}

static const char *const user_headings[] = {"NAME", "ROLE", "RIGHTS", "TEAM",    "WEIGHT", "QUOTA",
                                            "UID",  "GID",  "STATE",  "CREATED", NULL};
static const struct list_view users_view = {"name", user_headings, user_row, true};

static int send_change(struct cli *cli, const char *what, const char *method, const char *path,
                       const json_t *body)
{
    cleanup_json json_t *answer = NULL;
    int code = cli_send(cli, what, method, path, body, &answer);
    if (code == CLI_OK)
        cli_print_item(cli, answer, &users_view);
    return code;
}

int cmd_user_add(struct cli *cli, const struct args *args)
{
    cleanup_json json_t *body = cli_need(json_object());
    json_put_str(body, "name", args->words[0]);
    int code = change(cli, args, body);
    return code != CLI_OK ? code : send_change(cli, "user add", "POST", "/v1/users", body);
}

int cmd_user_set(struct cli *cli, const struct args *args)
{
    cleanup_json json_t *body = cli_need(json_object());
    cleanup_free char *path = cli_path("/v1/users/", args->words[0], "");
    int code = change(cli, args, body);
    if (code == CLI_OK && json_object_size(body) == 0)
        return cli_usage(args, "nothing to set");
    return code != CLI_OK ? code : send_change(cli, "user set", "PATCH", path, body);
}

int cmd_user_list(struct cli *cli, const struct args *args)
{
    (void)args;
    return cli_list(cli, "user list", "/v1/users", &users_view);
}

int cmd_user_show(struct cli *cli, const struct args *args)
{
    cleanup_free char *path = cli_path("/v1/users/", args->words[0], "");
    return cli_show(cli, "user show", path, &users_view);
}

int cmd_user_remove(struct cli *cli, const struct args *args)
{
    cleanup_free char *path = cli_path("/v1/users/", args->words[0], "");
    return cli_remove(cli, "user remove", path, args->words[0],
                      " removed, with all tokens and keys");
}
