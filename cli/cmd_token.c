// SPDX-License-Identifier: Apache-2.0
// token create, list, revoke.
#include "cli/cli.h"
#include "cli/commands.h"
#include "common/cleanup.h"
#include "common/json.h"

int cmd_token_create(struct cli *cli, const struct args *args)
{
    static const char *const keys[] = {"role", "user", "ttl"};
    cleanup_json json_t *body = cli_need(json_object());
    cleanup_json json_t *answer = NULL;

    json_put_str(body, "name", args->words[0]);
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (args_has(args, keys[i]))
            json_put_str(body, keys[i], args_value(args, keys[i]));
    int code = cli_send(cli, "token create", "POST", "/v1/tokens", body, &answer);
    if (code != CLI_OK || cli_print_value(cli, answer))
        return code;
    if (!cli->quiet)
        (void)fprintf(stderr, "token %s of %s, role %s; it is shown only now:\n",
                      json_opt_str(answer, "id", "?"), json_opt_str(answer, "user", "?"),
                      json_opt_str(answer, "role", "?"));
    (void)printf("%s\n", json_opt_str(answer, "token", ""));
    if (!cli->quiet)
        (void)fprintf(stderr, "log in with it: meadow login %s --fingerprint %s\n",
                      json_opt_str(answer, "master", "?"),
                      json_opt_str(answer, "ca_fingerprint", "?"));
    return CLI_OK;
}

static void token_row(struct table *t, const json_t *x)
{
    table_cell(t, json_opt_str(x, "id", NULL));
    table_cell(t, json_opt_str(x, "name", NULL));
    table_cell(t, json_opt_str(x, "user", NULL));
    table_cell(t, json_opt_str(x, "role", NULL));
    table_cell(t, json_opt_str(x, "created_at", NULL));
    table_cell(t, json_opt_bool(x, "expired", false) ? "expired"
                                                     : json_opt_str(x, "expires_at", NULL));
    table_cell(t, json_opt_str(x, "used_at", NULL));
}

int cmd_token_list(struct cli *cli, const struct args *args)
{
    static const char *const headings[] = {"ID",      "NAME",    "USER", "ROLE",
                                           "CREATED", "EXPIRES", "USED", NULL};
    static const struct list_view view = {"id", headings, token_row, false};
    (void)args;
    return cli_list(cli, "token list", "/v1/tokens", &view);
}

int cmd_token_revoke(struct cli *cli, const struct args *args)
{
    cleanup_free char *path = cli_path("/v1/tokens/", args->words[0], "");
    return cli_remove(cli, "token revoke", path, args->words[0], " revoked");
}
