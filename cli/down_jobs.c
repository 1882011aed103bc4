// SPDX-License-Identifier: Apache-2.0
// Stopping the jobs of a local cluster before its daemons, so that the tasks get their signal and
// grace and the record says "stopped". Agents leave tasks running when they end: that is their
// design, and why this comes first.
#include "cli/down.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/units.h"

#include <string.h>

#define ANSWER_MS 10000
#define MARGIN_MS 10000
#define WAIT_MAX_MS 120000

// A quiet call; NULL when it failed.
static json_t *ask(struct cli *cli, const char *method, const char *path, const char *body,
                   unsigned timeout_ms)
{
    struct err e = {""};
    struct api_answer answer = {0};
    json_t *j = NULL;
    const struct api_request req = {.method = method,
                                    .path = path,
                                    .content_type = body ? "application/json" : NULL,
                                    .body = body,
                                    .body_len = body ? strlen(body) : 0,
                                    .timeout_ms = timeout_ms};
    int r = api_call(cli->api, &req, &answer, &e);

    if (!cli_good(r, &answer) || json_parse(answer.body, answer.len, &j, &e) < 0)
        j = NULL;
    api_answer_free(&answer);
    return j;
}

// Tells all to stop, a thousand in one batch of the store; the longest grace among them.
static int64_t stop_all(struct cli *cli)
{
    int64_t longest = 0, grace, stopped = 0;
    cleanup_json json_t *told = NULL;
    const char *next = NULL;

    do {
        cleanup_free char *path = cli_page_path("/v1/jobs:stop", "", 1000, next);
        json_t *page = ask(cli, "POST", path, "{\"state\":\"live\"}", ANSWER_MS);
        json_decref(told);
        told = page;
        next = json_opt_str(told, "next", NULL);
        stopped += json_opt_i64(told, "stopped", 0);
        if (units_parse_duration(json_opt_str(told, "grace", "0s"), &grace, NULL) == 0)
            longest = grace > longest ? grace : longest;
    } while (next);
    if (stopped > 0)
        cli_progress(cli, "stopping %lld job%s", (long long)stopped, stopped == 1 ? "" : "s");
    return longest;
}

// Whether the first thousand that are not over end until then.
static bool await_some(struct cli *cli, int64_t until_ms, bool *ret_none)
{
    cleanup_json json_t *page = ask(cli, "GET", "/v1/jobs?state=live&limit=1000", NULL, ANSWER_MS);
    const json_t *items = json_object_get(page, "items");
    size_t i;
    const json_t *x;

    *ret_none = json_array_size(items) == 0;
    json_array_foreach (items, i, x) {
        int64_t left = until_ms - clock_mono_ms();
        if (left <= 0)
            return false;
        cleanup_free char *suffix = cli_format("?wait=%lldms", (long long)left);
        cleanup_free char *path = cli_path("/v1/jobs/", json_opt_str(x, "id", ""), suffix);
        cleanup_json json_t *job = ask(cli, "GET", path, NULL, (unsigned)left + 5000);
        if (!job)
            return false;
    }
    return true;
}

void down_stop_jobs(struct cli *cli, const struct local *l)
{
    struct err e = {""};
    struct api_target t = {.unix_socket = local_path(l, "run/master.sock"),
                           .origin = cli_strdup("down")};
    int r = api_open(&t, &cli->api, &e);

    api_target_free(&t);
    if (r < 0)
        return;
    int64_t budget = stop_all(cli) + MARGIN_MS;
    int64_t until = clock_mono_ms() + (budget < WAIT_MAX_MS ? budget : WAIT_MAX_MS);
    bool none = !local_agent_lives(l); // nobody would tell of an end
    while (!none && await_some(cli, until, &none))
        ;
    api_close(TAKE_PTR(cli->api));
}
