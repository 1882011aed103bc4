// SPDX-License-Identifier: Apache-2.0
// The commands that are alike for everything that is kept in a list: list, show and remove.
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "common/cleanup.h"
#include "common/json.h"

static void print_items(const struct cli *cli, const json_t *items, const struct list_view *view)
{
    struct table *t = cli->quiet ? NULL : cli_need(table_new(view->headings));
    size_t i;
    const json_t *x;

    json_array_foreach (items, i, x) {
        if (t)
            view->row(t, x);
        else
            (void)printf("%s\n", json_opt_str(x, view->key, ""));
    }
    if (t)
        table_print(t, cli->color);
    table_free(t);
}

void cli_print_list(const struct cli *cli, json_t *list, const struct list_view *view)
{
    if (view->sorted)
        cli_sort(list, view->key);
    if (!cli_print_value(cli, list))
        print_items(cli, json_object_get(list, "items"), view);
}

void cli_print_item(const struct cli *cli, json_t *item, const struct list_view *view)
{
    cleanup_json json_t *items = cli_need(json_array());
    if (cli_print_value(cli, item))
        return;
    (void)json_array_append(items, item);
    print_items(cli, items, view);
}

int cli_list(struct cli *cli, const char *what, const char *path, const struct list_view *view)
{
    cleanup_json json_t *list = NULL;
    int code = cli_get(cli, what, path, &list);
    if (code == CLI_OK)
        cli_print_list(cli, list, view);
    return code;
}

int cli_show(struct cli *cli, const char *what, const char *path, const struct list_view *view)
{
    cleanup_json json_t *item = NULL;
    int code = cli_get(cli, what, path, &item);
    if (code == CLI_OK)
        cli_print_item(cli, item, view);
    return code;
}

int cli_remove(struct cli *cli, const char *what, const char *path, const char *name,
               const char *done)
{
    cleanup_json json_t *answer = NULL;
    int code = cli_send(cli, what, "DELETE", path, NULL, &answer);

    if (code == CLI_OK && !cli_print_value(cli, answer))
        (void)printf("%s%s\n", name, cli->quiet ? "" : done);
    return code;
}
