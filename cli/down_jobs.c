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
static json_t *ask(struct cli *cli, const char *method, const char *path, unsigned timeout_ms)
{
    struct err e = {""};
    struct api_answer answer = {0};
    json_t *j = NULL;
    const struct api_request req = {.method = method, .path = path, .timeout_ms = timeout_ms};
    int r = api_call(cli->api, &req, &answer, &e);

    if (!cli_good(r, &answer) || json_parse(answer.body, answer.len, &j, &e) < 0)
        j = NULL;
    api_answer_free(&answer);
    return j;
}

static int64_t duration_of(const json_t *v)
{
    int64_t ms = 10000;
    if (json_is_string(v) && units_parse_duration(json_string_value(v), &ms, NULL) < 0)
        ms = 10000;
    if (json_is_integer(v))
        ms = json_integer_value(v) * 1000;
    return ms;
}

// The longest grace of its components.
static int64_t grace_of(const json_t *job)
{
    int64_t longest = 0;
    const char *name;
    json_t *c;

    json_object_foreach (json_object_get(json_object_get(job, "spec"), "components"), name, c) {
        int64_t ms = duration_of(json_object_get(json_object_get(c, "stop"), "grace"));
        longest = ms > longest ? ms : longest;
    }
    return longest;
}

// Stops each of the list; the longest grace among them.
static int64_t stop_all(struct cli *cli, const json_t *items)
{
    int64_t grace = 0;
    size_t i;
    const json_t *x;

    json_array_foreach (items, i, x) {
        const char *id = json_opt_str(x, "id", "");
        cleanup_free char *stop = cli_path("/v1/jobs/", id, ":stop");
        cleanup_free char *show = cli_path("/v1/jobs/", id, "");
        cleanup_json json_t *stopped = ask(cli, "POST", stop, ANSWER_MS);
        cleanup_json json_t *job = ask(cli, "GET", show, ANSWER_MS);
        int64_t ms = grace_of(job);
        grace = ms > grace ? ms : grace;
        if (!stopped && !job) // no use asking for the others
            break;
    }
    return grace;
}

static void await_all(struct cli *cli, const json_t *items, int64_t budget_ms)
{
    int64_t until = clock_mono_ms() + budget_ms;
    size_t i;
    const json_t *x;

    json_array_foreach (items, i, x) {
        int64_t left = until - clock_mono_ms();
        if (left <= 0)
            return;
        cleanup_free char *suffix = cli_format("?wait=%lldms", (long long)left);
        cleanup_free char *path = cli_path("/v1/jobs/", json_opt_str(x, "id", ""), suffix);
        cleanup_json json_t *job = ask(cli, "GET", path, (unsigned)left + 5000);
        if (!job)
            return;
    }
}

static json_t *live_jobs(struct cli *cli)
{
    cleanup_json json_t *page = ask(cli, "GET", "/v1/jobs?state=live&limit=1000", ANSWER_MS);
    return json_incref(json_object_get(page, "items"));
}

void down_stop_jobs(struct cli *cli, const struct local *l)
{
    struct err e = {""};
    struct api_target t = {.unix_socket = local_path(l, "run/master.sock"),
                           .origin = cli_strdup("down")};
    int r = api_open(&t, &cli->api, &e);

    api_target_free(&t);
    for (int round = 0; r == 0 && round < 100; round++) { // pages of a thousand
        cleanup_json json_t *items = live_jobs(cli);
        size_t n = json_array_size(items);
        if (n == 0)
            break;
        cli_progress(cli, "stopping %zu job%s", n, n == 1 ? "" : "s");
        int64_t budget = stop_all(cli, items) + MARGIN_MS;
        if (!local_agent_lives(l))
            break; // nobody would tell of an end
        await_all(cli, items, budget < WAIT_MAX_MS ? budget : WAIT_MAX_MS);
        if (n < 1000)
            break;
    }
    api_close(TAKE_PTR(cli->api));
}
