// SPDX-License-Identifier: Apache-2.0
// audit: who changed what and who was refused what, oldest of the chosen ones first.
#include "cli/cli.h"
#include "cli/commands.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <string.h>

#define PAGE 1000
#define LIMIT_MAX 1000000

static void print_who(struct strbuf *b, const json_t *x)
{
    const char *address = json_opt_str(x, "address", NULL);
    const char *user = json_opt_str(x, "user", NULL);
    const char *node = json_opt_str(x, "node", NULL);
    output_safe(b, user ? user : node ? node : "nobody");
    if (address) {
        strbuf_puts(b, " from ");
        output_safe(b, address);
    } else {
        strbuf_printf(b, " here (uid %lld)", (long long)json_opt_i64(x, "uid", -1));
    }
}

static void print_entry(const struct cli *cli, const json_t *x)
{
    cleanup_strbuf struct strbuf b = {0};
    const char *object = json_opt_str(x, "object", NULL);
    const char *why = json_opt_str(x, "why", NULL);
    int64_t repeats = json_opt_i64(x, "repeats", 0);

    if (cli->quiet) {
        (void)printf("%lld\n", (long long)json_opt_i64(x, "n", 0));
        return;
    }
    strbuf_printf(&b, "%s  %-7s %3lld  ", json_opt_str(x, "time", "-"),
                  json_opt_str(x, "outcome", "?"), (long long)json_opt_i64(x, "status", 0));
    print_who(&b, x);
    strbuf_puts(&b, ": ");
    output_safe(&b, json_opt_str(x, "method", "?"));
    strbuf_puts(&b, " ");
    output_safe(&b, json_opt_str(x, "path", "?"));
    if (object && !strstr(json_opt_str(x, "path", ""), object)) {
        strbuf_puts(&b, " -> ");
        output_safe(&b, object);
    }
    if (why) {
        strbuf_puts(&b, ": ");
        output_safe(&b, why);
    }
    if (repeats)
        strbuf_printf(&b, " (%lld more)", (long long)repeats);
    (void)printf("%s\n", b.data ? b.data : "");
}

// The newest `limit` pages come newest first; they are put together oldest first.
static int fetch(struct cli *cli, const struct args *args, long limit, int64_t after, bool wait,
                 json_t *ret_items, int64_t *ret_last)
{
    cleanup_free char *before = NULL;
    *ret_last = 0;
    while ((long)json_array_size(ret_items) < limit) {
        struct strbuf path = {0};
        cleanup_json json_t *page = NULL;
        size_t i;
        json_t *x;
        long want = limit - (long)json_array_size(ret_items);
        strbuf_printf(&path, "/v1/audit?limit=%ld&after=%lld%s", want < PAGE ? want : PAGE,
                      (long long)after, wait && !before ? "&wait=20s" : "");
        if (before)
            strbuf_printf(&path, "&before=%s", before);
        if (args_has(args, "user")) {
            strbuf_puts(&path, "&user=");
            api_encode(&path, args_value(args, "user"), false);
        }
        cleanup_free char *text = cli_need(strbuf_take(&path));
        int code = cli_get(cli, "audit", text, &page);
        if (code != CLI_OK)
            return code;
        if (!before)
            *ret_last = json_opt_i64(page, "last", 0);
        json_array_foreach (json_object_get(page, "items"), i, x)
            (void)json_array_insert(ret_items, 0, x);
        const char *next = json_opt_str(page, "next", NULL);
        if (!next)
            break;
        free(before);
        before = cli_strdup(next);
    }
    return CLI_OK;
}

// One value a line (or document), so that a follower's output can be read as it comes.
static void print_all(const struct cli *cli, const json_t *items)
{
    size_t i;
    const json_t *x;
    json_array_foreach (items, i, x) {
        if (cli->format == OUTPUT_JSON) {
            cleanup_free char *text = json_text(x);
            (void)printf("%s\n", text ? text : "");
        } else if (cli->format == OUTPUT_YAML) {
            (void)printf("---\n");
            (void)cli_print_value(cli, x);
        } else {
            print_entry(cli, x);
        }
    }
    (void)fflush(stdout);
}

// Until interrupted or refused.
static int follow(struct cli *cli, const struct args *args, int64_t after)
{
    for (;;) {
        cleanup_json json_t *items = cli_need(json_array());
        int code = fetch(cli, args, LIMIT_MAX, after, true, items, &after);
        if (code != CLI_OK)
            return code;
        print_all(cli, items);
        if (ferror(stdout))
            return cli_output_gone();
    }
}

int cmd_audit(struct cli *cli, const struct args *args)
{
    cleanup_json json_t *items = cli_need(json_array());
    struct err e = {""};
    long limit = 50, after = 0;
    int64_t last;

    if (args_number(args, "limit", 1, LIMIT_MAX, &limit, &e) < 0 ||
        args_number(args, "after", 0, INT32_MAX, &after, &e) < 0)
        return cli_usage(args, e.text);
    int code = fetch(cli, args, limit, after, false, items, &last);
    if (code != CLI_OK)
        return code;
    if (!args_has(args, "follow")) {
        if (!cli_print_value(cli, items))
            print_all(cli, items);
        return CLI_OK;
    }
    print_all(cli, items);
    return follow(cli, args, last);
}
