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

int cmd_token_list(struct cli *cli, const struct args *args)
{
    static const char *const headings[] = {"ID",      "NAME",    "USER", "ROLE",
                                           "CREATED", "EXPIRES", "USED", NULL};
    cleanup_json json_t *list = NULL;
    size_t i;
    const json_t *x;
    int code = cli_get(cli, "token list", "/v1/tokens", &list);

    (void)args;
    if (code != CLI_OK || cli_print_value(cli, list))
        return code;
    struct table *t = cli_need(table_new(headings));
    json_array_foreach (json_object_get(list, "items"), i, x) {
        if (cli->quiet)
            (void)printf("%s\n", json_opt_str(x, "id", ""));
        table_cell(t, json_opt_str(x, "id", NULL));
        table_cell(t, json_opt_str(x, "name", NULL));
        table_cell(t, json_opt_str(x, "user", NULL));
        table_cell(t, json_opt_str(x, "role", NULL));
        table_cell(t, json_opt_str(x, "created_at", NULL));
        table_cell(t, json_opt_bool(x, "expired", false) ? "expired"
                                                         : json_opt_str(x, "expires_at", NULL));
        table_cell(t, json_opt_str(x, "used_at", NULL));
    }
    if (!cli->quiet)
        table_print(t, cli->color);
    table_free(t);
    return CLI_OK;
}

int cmd_token_revoke(struct cli *cli, const struct args *args)
{
    cleanup_json json_t *answer = NULL;
    cleanup_free char *path = cli_path("/v1/tokens/", args->words[0], "");
    int code = cli_send(cli, "token revoke", "DELETE", path, NULL, &answer);

    if (code != CLI_OK || cli_print_value(cli, answer))
        return code;
    (void)printf("%s%s\n", args->words[0], cli->quiet ? "" : " revoked");
    return CLI_OK;
}
