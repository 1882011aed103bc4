// SPDX-License-Identifier: Apache-2.0
// node join-command, approve, replace, remove, label, drain, resume: what operators do to nodes.
#include "cli/cli.h"
#include "cli/commands.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <stdlib.h>
#include <string.h>

// One line for the new machine's shell: the agent's configuration, readable by root alone (one that
// was there is kept as agent.yml~), and the agent's start, also when it runs already.
static void print_join_line(const json_t *answer)
{
    (void)printf("printf 'master: {url: \"%s\"}\\njoin_token: %s\\n' | "
                 "sudo install -b -m 600 /dev/stdin /etc/meadow/agent.yml && "
                 "sudo systemctl enable meadow-agent && sudo systemctl restart meadow-agent\n",
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
    json_put_bool(body, "approved", args_has(args, "approved"));
    if (args_has(args, "ttl"))
        json_put_str(body, "ttl", args_value(args, "ttl"));
    int code = cli_send(cli, "node join-command", "POST", "/v1/join-tokens", body, &answer);
    if (code != CLI_OK || cli_print_value(cli, answer))
        return code;
    if (!cli->quiet)
        (void)fprintf(stderr, "on the new machine, with meadow installed, %ld time%s until %s%s:\n",
                      uses, uses == 1 ? "" : "s", json_opt_str(answer, "expires_at", "?"),
                      args_has(args, "approved") ? "" : "; then here: meadow node approve NODE");
    print_join_line(answer);
    return CLI_OK;
}

// One verb on each node named.
static int each(struct cli *cli, const struct args *args, const char *what, const char *method,
                const char *verb, const char *done)
{
    int worst = CLI_OK;

    for (size_t i = 0; i < args->n_words; i++) {
        cleanup_json json_t *answer = NULL;
        cleanup_json json_t *body = cli_need(json_object());
        cleanup_free char *path = cli_path("/v1/nodes/", args->words[i], verb);
        int code = cli_send(cli, what, method, path, body, &answer);

        if (code != CLI_OK)
            worst = code;
        else if (!cli_print_value(cli, answer))
            (void)printf("%s%s\n", json_opt_str(answer, "name", ""), cli->quiet ? "" : done);
    }
    return worst;
}

int cmd_node_approve(struct cli *cli, const struct args *args)
{
    return each(cli, args, "node approve", "POST", ":approve", " may get work");
}

int cmd_node_stop_orphans(struct cli *cli, const struct args *args)
{
    return each(cli, args, "node stop-orphans", "POST", ":stop-orphans",
                ": its orphans are stopped");
}

int cmd_node_replace(struct cli *cli, const struct args *args)
{
    return each(cli, args, "node replace", "POST", ":replace",
                ": within an hour another machine may take its place, once");
}

int cmd_node_remove(struct cli *cli, const struct args *args)
{
    return each(cli, args, "node remove", "DELETE", "",
                " is removed: its work is stopped, its certificate revoked");
}

// K=V sets, K- takes away. False: neither.
static bool put_label(json_t *labels, const char *word)
{
    size_t len = strlen(word);
    const char *equals = strchr(word, '=');
    cleanup_free char *key = NULL;

    if (equals && equals > word) {
        key = cli_need(strndup(word, (size_t)(equals - word)));
        json_put_str(labels, key, equals + 1);
        return true;
    }
    if (equals || len < 2 || word[len - 1] != '-')
        return false;
    key = cli_need(strndup(word, len - 1));
    json_put(labels, key, json_null());
    return true;
}

int cmd_node_label(struct cli *cli, const struct args *args)
{
    struct err e;
    cleanup_json json_t *answer = NULL;
    cleanup_json json_t *body = cli_need(json_object());
    json_t *labels = cli_need(json_object());
    cleanup_free char *path = cli_path("/v1/nodes/", args->words[0], "");

    json_put(body, "labels", labels);
    for (size_t i = 1; i < args->n_words; i++)
        if (!put_label(labels, args->words[i])) {
            (void)err_set(&e, -EINVAL, "\"%.80s\": expected KEY=VALUE, or KEY- to take one away",
                          args->words[i]);
            return cli_usage(args, e.text);
        }
    int code = cli_send(cli, "node label", "PATCH", path, body, &answer);
    if (code != CLI_OK || cli_print_value(cli, answer))
        return code;
    (void)printf("%s%s\n", json_opt_str(answer, "name", ""), cli->quiet ? "" : " is labelled");
    return CLI_OK;
}

int cmd_node_drain(struct cli *cli, const struct args *args)
{
    cleanup_json json_t *answer = NULL;
    cleanup_free char *path = cli_path("/v1/nodes/", args->words[0], ":drain");
    cleanup_json json_t *body = cli_need(json_object());

    if (args_has(args, "reason"))
        json_put_str(body, "reason", args_value(args, "reason"));
    if (args_has(args, "deadline"))
        json_put_str(body, "deadline", args_value(args, "deadline"));
    if (args_has(args, "off"))
        json_put_bool(body, "off", true);
    int code = cli_send(cli, "node drain", "POST", path, body, &answer);
    if (code != CLI_OK || cli_print_value(cli, answer))
        return code;
    const char *at = json_opt_str(json_object_get(answer, "drain"), "deadline", NULL);
    (void)printf("%s", json_opt_str(answer, "name", ""));
    if (!cli->quiet && json_opt_i64(answer, "tasks", 0) == 0)
        (void)printf(" gets no new work; nothing runs there");
    else if (!cli->quiet)
        (void)printf(" gets no new work; what runs there %s%s", at ? "is stopped at " : "goes on",
                     at ? at : "");
    (void)printf("\n");
    return CLI_OK;
}

int cmd_node_resume(struct cli *cli, const struct args *args)
{
    return each(cli, args, "node resume", "POST", ":resume", " gets work again");
}
