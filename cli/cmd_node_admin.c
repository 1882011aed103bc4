// SPDX-License-Identifier: Apache-2.0
// node join-command, drain, resume: what operators do to nodes.
#include "cli/cli.h"
#include "cli/commands.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <stdlib.h>

// One line for the new machine's shell: the agent's configuration, readable by root alone, and its
// start.
static void print_join_line(const json_t *answer)
{
    (void)printf("printf 'master: {url: \"%s\"}\\njoin_token: %s\\n' | "
                 "sudo install -m 600 /dev/stdin /etc/meadow/agent.yml && "
                 "sudo systemctl enable --now meadow-agent\n",
                 json_opt_str(answer, "master", ""), json_opt_str(answer, "token", ""));
}

int cmd_node_join_command(struct cli *cli, const struct args *args)
{
    struct err e = {""};
    long uses = 10;
    cleanup_json json_t *body = cli_need(json_object());
    cleanup_json json_t *answer = NULL;

    if (args_number(args, "uses", 1, 100000, &uses, &e) < 0)
        return cli_usage(args, e.text);
    json_put_i64(body, "uses", uses);
    json_put_bool(body, "approved", true);
    if (args_has(args, "ttl"))
        json_put_str(body, "ttl", args_value(args, "ttl"));
    int code = cli_send(cli, "node join-command", "POST", "/v1/join-tokens", body, &answer);
    if (code != CLI_OK || cli_print_value(cli, answer))
        return code;
    if (!cli->quiet)
        (void)fprintf(stderr, "on the new machine, with meadow installed, %ld time%s until %s:\n",
                      uses, uses == 1 ? "" : "s", json_opt_str(answer, "expires_at", "?"));
    print_join_line(answer);
    return CLI_OK;
}

static int set_draining(struct cli *cli, const struct args *args, const char *what,
                        const char *verb, const json_t *body, const char *done)
{
    cleanup_json json_t *answer = NULL;
    cleanup_free char *path = cli_path("/v1/nodes/", args->words[0], verb);
    int code = cli_send(cli, what, "POST", path, body, &answer);

    if (code != CLI_OK || cli_print_value(cli, answer))
        return code;
    (void)printf("%s%s\n", json_opt_str(answer, "name", ""), cli->quiet ? "" : done);
    return CLI_OK;
}

int cmd_node_drain(struct cli *cli, const struct args *args)
{
    cleanup_json json_t *body = cli_need(json_object());

    if (args_has(args, "reason"))
        json_put_str(body, "reason", args_value(args, "reason"));
    return set_draining(cli, args, "node drain", ":drain", body,
                        " gets no new work; what runs there goes on");
}

int cmd_node_resume(struct cli *cli, const struct args *args)
{
    cleanup_json json_t *body = cli_need(json_object());

    return set_draining(cli, args, "node resume", ":resume", body, " gets work again");
}
