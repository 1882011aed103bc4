// SPDX-License-Identifier: Apache-2.0
// Requests whose failures are told here, in what / why / what to do, so that commands only pass on
// an exit status; and what is done with the answers of several.
#include "cli/cli.h"

#include "common/cleanup.h"
#include "common/json.h"

#include <stdlib.h>
#include <string.h>

// --- failures of a call ---

bool cli_good(int r, const struct api_answer *answer)
{
    return r == 0 && answer->status >= 200 && answer->status < 300;
}

static int report_transport(const struct cli *cli, const char *what, int r, const struct err *e)
{
    const char *url = api_url(cli->api);
    if (r == -EINTR)
        return CLI_INTERRUPTED;
    if (r == -EPIPE)
        return cli_output_gone();
    if (r == -EACCES)
        return cli_failf(CLI_UNREACHABLE, what, "check --ca, or whether this is the right address",
                         "%s (%s): %.300s", url, api_origin(cli->api), e->text);
    if (r == -ENOMEM || r == -EFBIG || r == -ENOTSUP)
        return cli_fail(CLI_FAILED, what, e->text, NULL);
    const char *todo = strncmp(api_origin(cli->api), "the local", 9) == 0
                           ? "`meadow up` starts it again; its log is log/master.log there"
                           : "is the master running there? see its log";
    return cli_failf(CLI_UNREACHABLE, what, todo, "the master at %s (%s) does not answer: %.300s",
                     url, api_origin(cli->api),
                     r == -ECONNREFUSED ? "nothing listens there" : e->text);
}

static const char *advice(int status)
{
    switch (status) {
    case 400:
        return "correct the request";
    case 401:
        return "give a valid --token (or MEADOW_TOKEN)";
    case 403:
        return "ask somebody with that role";
    case 404:
        return NULL;
    case 409:
        return "use another name, or end what is in the way first";
    case 422:
        return "correct it and try again";
    case 503:
        return "try again in a moment; `meadow status` tells how it is";
    default:
        return status >= 500 ? "see the master's log" : NULL;
    }
}

static void print_mistakes(const json_t *errors, bool lines)
{
    size_t i;
    const json_t *m;

    json_array_foreach (errors, i, m) {
        cleanup_strbuf struct strbuf b = {0};
        int64_t line = lines ? json_opt_i64(m, "line", 0) : 0;
        strbuf_puts(&b, "       ");
        if (line > 0)
            strbuf_printf(&b, "line %lld, ", (long long)line);
        output_safe(&b, json_opt_str(m, "path", ""));
        strbuf_puts(&b, json_opt_str(m, "path", "")[0] ? ": " : "");
        output_safe(&b, json_opt_str(m, "message", ""));
        (void)fprintf(stderr, "%s\n", b.data ? b.data : "");
    }
}

static int report_problem(const struct cli *cli, const char *what, const struct api_answer *answer)
{
    struct err e = {""};
    cleanup_json json_t *p = NULL;
    char status[48];

    if (json_parse(answer->body, answer->len, &p, &e) < 0 || !json_is_object(p)) {
        (void)snprintf(status, sizeof(status), "the answer is %d, without a reason",
                       answer->status);
        return cli_fail(CLI_FAILED, what, status, advice(answer->status));
    }
    const char *detail = json_opt_str(p, "detail", json_opt_str(p, "title", "refused"));
    const json_t *errors = json_object_get(p, "errors");
    if (json_array_size(errors) == 0)
        return cli_fail(CLI_FAILED, what, detail, advice(answer->status));
    (void)cli_fail(CLI_FAILED, what, detail, NULL);
    print_mistakes(errors, !cli->no_lines);
    const char *todo = advice(answer->status);
    if (todo)
        (void)fprintf(stderr, "  try: %s\n", todo);
    return CLI_FAILED;
}

int cli_report(struct cli *cli, const char *what, int r, const struct err *e,
               const struct api_answer *answer)
{
    return r < 0 ? report_transport(cli, what, r, e) : report_problem(cli, what, answer);
}

// --- requests ---

int cli_request(struct cli *cli, const char *what, const struct api_request *req, json_t **ret)
{
    struct err e = {""};
    struct api *api;
    struct api_answer answer = {0};
    json_t *j = NULL;
    int code = cli_api(cli, &api);
    if (code != CLI_OK)
        return code;
    int r = api_call(api, req, &answer, &e);
    if (!cli_good(r, &answer))
        code = cli_report(cli, what, r, &e, &answer);
    else if (json_parse(answer.body, answer.len, &j, &e) < 0)
        code = cli_failf(CLI_FAILED, what, "is this a meadow master?",
                         "the answer is not JSON: %.300s", e.text);
    api_answer_free(&answer);
    if (code == CLI_OK && ret)
        *ret = j;
    else
        json_decref(j);
    return code;
}

int cli_get(struct cli *cli, const char *what, const char *path, json_t **ret)
{
    const struct api_request req = {.method = "GET", .path = path};
    return cli_request(cli, what, &req, ret);
}

int cli_send(struct cli *cli, const char *what, const char *method, const char *path,
             const json_t *body, json_t **ret)
{
    cleanup_free char *text = body ? cli_need(json_text(body)) : NULL;
    const struct api_request req = {.method = method,
                                    .path = path,
                                    .content_type = text ? "application/json" : NULL,
                                    .body = text,
                                    .body_len = text ? strlen(text) : 0};
    return cli_request(cli, what, &req, ret);
}

char *cli_page_path(const char *path, const char *query, long limit, const char *after)
{
    struct strbuf b = {0};
    strbuf_printf(&b, "%s%s%climit=%ld", path, query, query[0] ? '&' : '?', limit);
    if (after) {
        strbuf_puts(&b, "&after=");
        api_encode(&b, after, false);
    }
    return cli_need(strbuf_take(&b));
}

int cli_get_list(struct cli *cli, const char *what, const char *path, const char *query, long limit,
                 json_t **ret)
{
    cleanup_json json_t *items = cli_need(json_array());
    cleanup_json json_t *page = NULL;
    const char *after = NULL;
    json_int_t total = 0;

    do {
        long left = limit ? limit - (long)json_array_size(items) : 1000;
        cleanup_free char *full = cli_page_path(path, query, left < 1000 ? left : 1000, after);
        json_t *next_page = NULL;
        int code = cli_get(cli, what, full, &next_page);
        if (code != CLI_OK)
            return code;
        json_decref(page);
        page = next_page;
        (void)json_array_extend(items, json_object_get(page, "items"));
        total = json_opt_i64(page, "total", 0);
        after = json_opt_str(page, "next", NULL);
    } while (after && (!limit || (long)json_array_size(items) < limit));
    *ret = cli_need(json_pack("{s:O,s:s?,s:I}", "items", items, "next", after, "total", total));
    return CLI_OK;
}

struct sort_item {
    const char *text; // borrowed from value
    json_t *value;
};

static int by_text(const void *a, const void *b)
{
    return strverscmp(((const struct sort_item *)a)->text, ((const struct sort_item *)b)->text);
}

void cli_sort(json_t *list, const char *key)
{
    json_t *items = json_object_get(list, "items");
    json_t *sorted = cli_need(json_array());
    size_t n = json_array_size(items), i;
    json_t *x;
    struct sort_item *all = cli_need(calloc(n + 1, sizeof(*all)));

    json_array_foreach (items, i, x) {
        all[i] = (struct sort_item){json_opt_str(x, key, ""), x};
    }
    qsort(all, n, sizeof(*all), by_text);
    for (i = 0; i < n; i++)
        (void)json_array_append(sorted, all[i].value);
    free(all);
    json_put(list, "items", sorted);
}

bool cli_print_value(const struct cli *cli, const json_t *value)
{
    cleanup_strbuf struct strbuf b = {0};

    if (cli->format == OUTPUT_TABLE)
        return false;
    if (cli->format == OUTPUT_JSON)
        output_json(&b, value);
    else
        output_yaml(&b, value);
    (void)fwrite(b.data ? b.data : "", 1, b.len, stdout);
    return true;
}
