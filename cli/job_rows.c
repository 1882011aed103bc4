// SPDX-License-Identifier: Apache-2.0
// Jobs as a table, from lines of tab-separated values: no JSON of thousands of jobs is made, sent
// or read for that.
#include "cli/cli.h"
#include "cli/job.h"
#include "common/cleanup.h"
#include "common/clock.h"

#include <string.h>

#define ROWS "text/tab-separated-values"
#define PAGE 10000L

enum column {
    ID,
    NAME,
    STATE,
    USER,
    PRIORITY,
    RUNNING,
    TASKS,
    SUBMITTED,
    STARTED,
    ENDED,
    REASON,
    COLUMNS
};
static const char *const columns[COLUMNS] = {"id",         "name",     "state", "user",
                                             "priority",   "running",  "tasks", "submitted_at",
                                             "started_at", "ended_at", "reason"};

const char *const job_headings[] = {"ID",      "NAME", "STATE",  "USER", "PRIO",
                                    "RUNNING", "AGE",  "REASON", NULL};

// Cuts the first line off *text into its cells, in place; those that are missing are "". False when
// there is no line.
static bool cut_line(char **text, char *ret[COLUMNS])
{
    static char none[1];
    char *line = strsep(text, "\n");
    if (!line || !line[0])
        return false;
    for (int i = 0; i < COLUMNS; i++) {
        char *cell = strsep(&line, "\t");
        ret[i] = cell ? cell : none;
    }
    return true;
}

static bool is_head(char *const cells[COLUMNS])
{
    for (int i = 0; i < COLUMNS; i++)
        if (strcmp(cells[i], columns[i]) != 0)
            return false;
    return true;
}

static void put_row(struct table *t, char *const cells[COLUMNS])
{
    char age[48];
    int64_t since = 0;
    if (clock_parse(cells[SUBMITTED], &since) < 0)
        since = 0;
    output_span(since, 0, age, sizeof(age));
    for (int i = ID; i <= PRIORITY; i++)
        table_cell(t, cells[i]);
    table_cellf(t, "%s/%s", cells[RUNNING], cells[TASKS]);
    table_cell(t, age);
    table_cell(t, cells[REASON]);
}

struct listing {
    struct table *table; // NULL: ids only
    long rows;
    bool older;    // the master is: nothing was printed
    char last[64]; // the id of the last row
};

// Takes the answer's text apart. The number of rows, or -EPROTO.
static long take_rows(struct listing *l, char *text)
{
    char *cells[COLUMNS];
    long n = 0;
    if (!cut_line(&text, cells) || !is_head(cells))
        return -EPROTO;
    for (; cut_line(&text, cells); n++) {
        if (l->table)
            put_row(l->table, cells);
        else
            (void)printf("%s\n", cells[ID]);
        (void)snprintf(l->last, sizeof(l->last), "%s", cells[ID]);
    }
    l->rows += n;
    return n;
}

// An older master knows JSON only, and refuses a page as long as these.
static bool is_older(const struct listing *l, const struct api_answer *answer)
{
    bool good = answer->status == 200;
    return l->rows == 0 &&
           (good ? strncmp(answer->content_type, ROWS, strlen(ROWS)) != 0 : answer->status == 400);
}

static int get_rows(struct cli *cli, struct listing *l, const char *path, long *ret_n)
{
    struct err e = {""};
    struct api *api;
    struct api_answer answer = {0};
    const struct api_request req = {.method = "GET", .path = path, .accept = ROWS};
    int code = cli_api(cli, &api);
    if (code != CLI_OK)
        return code;
    int r = api_call(api, &req, &answer, &e);
    if (r == 0 && is_older(l, &answer))
        l->older = true; // or its request is wrong: then the one for JSON is told so
    else if (!cli_good(r, &answer))
        code = cli_report(cli, "job list", r, &e, &answer);
    else if ((*ret_n = take_rows(l, answer.body)) < 0)
        code = cli_fail(CLI_FAILED, "job list", "the answer is no list of jobs",
                        "is this a meadow master? `meadow version` shows both versions");
    api_answer_free(&answer);
    return code;
}

int job_rows(struct cli *cli, const char *query, long limit, bool *ret_older)
{
    struct listing l = {.table = cli->quiet ? NULL : cli_need(table_new(job_headings))};
    long n = 0, want;
    int code;
    do {
        want = limit && limit - l.rows < PAGE ? limit - l.rows : PAGE;
        cleanup_free char *path = cli_page_path("/v1/jobs", query, want, l.rows ? l.last : NULL);
        code = get_rows(cli, &l, path, &n);
    } while (code == CLI_OK && !l.older && n == want && (!limit || l.rows < limit));
    *ret_older = l.older;
    if (code == CLI_OK && l.table && !l.older)
        table_print(l.table, cli->color);
    table_free(l.table);
    return code;
}
