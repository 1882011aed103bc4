// SPDX-License-Identifier: Apache-2.0
// events: the last ones, or with -f those to come (server-sent events; a broken stream goes on
// after the last id seen).
#include "cli/cli.h"
#include "cli/commands.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <string.h>

#define PATIENCE_MS 60000
#define SILENCE_MS 60000 // the master sends a heartbeat every 15 s

struct stream {
    struct cli *cli;
    struct strbuf pending;
    int64_t last_id; // 0 = none seen
};

// The narrowest thing the event is about.
static const char *about(const json_t *ev)
{
    static const char *const keys[] = {"task", "job", "node", "object"};
    for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
        if (json_opt_str(ev, keys[i], NULL))
            return json_opt_str(ev, keys[i], NULL);
    return "-";
}

static void print_event(const struct cli *cli, const json_t *ev)
{
    cleanup_strbuf struct strbuf b = {0};
    const char *reason = json_opt_str(ev, "reason", NULL);
    const char *user = json_opt_str(ev, "user", NULL);

    if (cli->format == OUTPUT_YAML) {
        (void)printf("---\n");
        (void)cli_print_value(cli, ev);
        return;
    }
    if (cli->format == OUTPUT_JSON) {
        cleanup_free char *text = json_text(ev);
        (void)printf("%s\n", text ? text : "");
        return;
    }
    output_safe(&b, about(ev));
    if (json_opt_str(ev, "task", NULL) && json_opt_str(ev, "node", NULL)) {
        strbuf_puts(&b, " on ");
        output_safe(&b, json_opt_str(ev, "node", ""));
    }
    if (reason) {
        strbuf_puts(&b, ": ");
        output_safe(&b, reason);
    }
    if (user) {
        strbuf_puts(&b, " (");
        output_safe(&b, user);
        strbuf_puts(&b, ")");
    }
    (void)printf("%s  %-18s %s\n", json_opt_str(ev, "time", "-"), json_opt_str(ev, "type", "?"),
                 b.data ? b.data : "");
}

// One event of the stream: lines "id: N", "event: X", "data: {...}".
static void take_block(struct stream *s, char *block)
{
    char *rest = NULL;

    for (char *line = strtok_r(block, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        cleanup_json json_t *ev = NULL;
        if (strncmp(line, "data: ", 6) != 0 ||
            json_parse(line + 6, strlen(line + 6), &ev, NULL) < 0)
            continue;
        s->last_id = json_opt_i64(ev, "id", s->last_id);
        print_event(s->cli, ev);
    }
}

static int on_chunk(const char *data, size_t len, void *userdata)
{
    struct stream *s = userdata;
    char *end;

    strbuf_append(&s->pending, data, len);
    while (!s->pending.failed && s->pending.len && (end = strstr(s->pending.data, "\n\n"))) {
        *end = '\0';
        size_t used = (size_t)(end - s->pending.data) + 2;
        take_block(s, s->pending.data);
        strbuf_consume(&s->pending, used);
    }
    return s->pending.failed ? -ENOMEM : fflush(stdout) != 0 ? -EPIPE : 0;
}

static int follow(struct cli *cli, const char *path)
{
    struct err e = {""};
    struct stream s = {.cli = cli};
    struct api *api;
    int code = cli_api(cli, &api);

    if (code == CLI_OK && api_catch_interrupt(api) < 0)
        code = cli_fail(CLI_FAILED, "events", "signals can't be caught", NULL);
    while (code == CLI_OK) {
        char last[64] = "";
        struct api_answer answer = {0};
        struct api_request req = {.method = "GET",
                                  .path = path,
                                  .accept = "text/event-stream",
                                  .timeout_ms = API_NO_TIMEOUT,
                                  .silence_ms = SILENCE_MS,
                                  .patience_ms = PATIENCE_MS,
                                  .chunk = on_chunk,
                                  .userdata = &s};
        if (s.last_id) {
            (void)snprintf(last, sizeof(last), "Last-Event-ID: %lld", (long long)s.last_id);
            req.headers[0] = last;
        }
        int r = api_call(api, &req, &answer, &e);
        strbuf_reset(&s.pending);
        // However it broke off, it goes on; what can't be mended shows at the next try.
        bool again = cli_good(r, &answer) || r == -EIO || r == -ETIMEDOUT || r == -EPROTO;
        if (r == -ECANCELED)
            code = cli_output_gone();
        else if (!again)
            code = cli_report(cli, "events", r, &e, &answer);
        api_answer_free(&answer);
    }
    return code;
}

// The last `limit` ids: the list is oldest first, and its total is the last id.
static int first_id(struct cli *cli, long limit, int64_t *ret_after)
{
    cleanup_json json_t *list = NULL;
    int code = cli_get(cli, "events", "/v1/events?limit=1", &list);

    if (code == CLI_OK) {
        int64_t last = json_opt_i64(list, "total", 0);
        *ret_after = last > limit ? last - limit : 0;
    }
    return code;
}

static int list_events(struct cli *cli, const char *job, int64_t after, long limit)
{
    cleanup_json json_t *list = NULL;
    cleanup_strbuf struct strbuf query = {0};
    size_t i;
    const json_t *ev;

    strbuf_printf(&query, "?limit=%ld&after=%lld", limit, (long long)after);
    if (job) {
        strbuf_puts(&query, "&job=");
        api_encode(&query, job, false);
    }
    cleanup_free char *path = cli_format("/v1/events%s", query.data);
    int code = cli_get(cli, "events", path, &list);
    if (code != CLI_OK || cli_print_value(cli, list))
        return code;
    json_array_foreach (json_object_get(list, "items"), i, ev) {
        print_event(cli, ev);
    }
    return CLI_OK;
}

int cmd_events(struct cli *cli, const struct args *args)
{
    struct err e = {""};
    long limit = 50, after = -1;
    int64_t from = 0;
    const char *job = args_value(args, "job");

    if (args_number(args, "limit", 1, 1000, &limit, &e) < 0 ||
        args_number(args, "after", 0, INT32_MAX, &after, &e) < 0)
        return cli_usage(args, e.text);
    if (args_has(args, "follow")) {
        cleanup_strbuf struct strbuf path = {0};
        strbuf_puts(&path, "/v1/events?");
        if (after >= 0)
            strbuf_printf(&path, "after=%ld&", after);
        if (job) {
            strbuf_puts(&path, "job=");
            api_encode(&path, job, false);
        }
        return follow(cli, path.data);
    }
    // A job's events may be anywhere among the others.
    int code = after >= 0 || job ? CLI_OK : first_id(cli, limit, &from);
    if (after >= 0)
        from = after;
    return code == CLI_OK ? list_events(cli, job, from, job && limit == 50 ? 1000 : limit) : code;
}
