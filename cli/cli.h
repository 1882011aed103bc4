// SPDX-License-Identifier: Apache-2.0
// What every command works with: the output wanted, the way to the master, and how to fail. This is
// a short-lived program: it ends on out of memory.
#pragma once

#include "cli/api.h"
#include "cli/args.h"
#include "cli/output.h"
#include "common/err.h"
#include <jansson.h>
#include <stdbool.h>

enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,
    CLI_USAGE = 2,
    CLI_UNREACHABLE = 3,
    CLI_INTERRUPTED = 130
};

struct cli {
    enum output_format format;
    bool quiet;
    bool color;    // of standard output
    bool progress; // standard error is a terminal and --quiet was not given
    bool no_lines; // what was sent is not the file: its lines mean nothing
    const struct args *args;
    struct api *api; // opened by the first request
};

// Reads the global options. Exit status; errors are printed.
int cli_setup(struct cli *cli, const struct args *args);
void cli_close(struct cli *cli);

// Prints "what / why / what to do" on standard error and returns `code`. `todo` may be NULL.
int cli_fail(int code, const char *what, const char *why, const char *todo);
int cli_failf(int code, const char *what, const char *todo, const char *fmt, ...) PRINTF_LIKE(4, 5);
int cli_usage(const struct args *args,
              const char *why); // CLI_USAGE, with the command's usage as what to do
// A line on standard error, when somebody may be watching.
void cli_progress(const struct cli *cli, const char *fmt, ...) PRINTF_LIKE(2, 3);

// The connection to the master that options, environment and contexts name. Exit status; errors are
// printed.
int cli_api(struct cli *cli, struct api **ret);
// Without a word; 0 or -errno.
int cli_api_quiet(struct cli *cli, struct api **ret) WARN_UNUSED;

// Which of the caller's keys: --key, MEADOW_KEY, "default".
const char *cli_key_name(const struct cli *cli);

// One request and its JSON answer (caller owns *ret; ret may be NULL). Exit status; any failure is
// printed, `what` saying what was tried ("job stop x").
int cli_get(struct cli *cli, const char *what, const char *path, json_t **ret);
int cli_send(struct cli *cli, const char *what, const char *method, const char *path,
             const json_t *body, json_t **ret);
int cli_request(struct cli *cli, const char *what, const struct api_request *req, json_t **ret);
// Every page of a list, as one {items, next: null, total}. At most `limit` items (0 = all). `query`
// begins with '?' or is "".
int cli_get_list(struct cli *cli, const char *what, const char *path, const char *query, long limit,
                 json_t **ret);
// "PATH?QUERY&limit=N&after=A"; `after` NULL = the first page. Caller frees.
char *cli_page_path(const char *path, const char *query, long limit, const char *after);
// Sorts the items of a list by a text member, numbers within it by value (node-2 before node-10).
void cli_sort(json_t *list, const char *key);
// The printed text and exit status of a failed call: transport (r < 0) or an answer that is not
// 2xx.
int cli_report(struct cli *cli, const char *what, int r, const struct err *e,
               const struct api_answer *answer);
// Whether the answer is 2xx.
bool cli_good(int r, const struct api_answer *answer);

// Prints a value as json or yaml. False when the format is table: then the caller prints.
bool cli_print_value(const struct cli *cli, const json_t *value);

// How the items of a list are shown: with --quiet the member `key` of each, else a table.
struct list_view {
    const char *key;
    const char *const *headings; // to a NULL
    void (*row)(struct table *t, const json_t *item);
    bool sorted; // by `key`; else as the master sends them
};
// {items: [...]}, or one item, in the format wanted. Sorts the list when the view says so.
void cli_print_list(const struct cli *cli, json_t *list, const struct list_view *view);
void cli_print_item(const struct cli *cli, json_t *item, const struct list_view *view);
// Asks for a list, or for one item, and prints it. Exit status.
int cli_list(struct cli *cli, const char *what, const char *path, const struct list_view *view);
int cli_show(struct cli *cli, const char *what, const char *path, const struct list_view *view);
// --weight and --quota, of users and teams (cmd_team.c). Exit status.
int cli_put_shares(const struct args *args, json_t *body);
// A quota as --quota takes it.
void cli_quota_text(const json_t *quota, struct strbuf *b);
// DELETE, then prints `name` and, without --quiet, `done` (" removed"). Exit status.
int cli_remove(struct cli *cli, const char *what, const char *path, const char *name,
               const char *done);

// "/v1/jobs/{encoded}suffix"; caller frees.
char *cli_path(const char *prefix, const char *name, const char *suffix);
void *cli_need(void *memory); // ends the program when NULL
char *cli_strdup(const char *text);
char *cli_format(const char *fmt, ...) PRINTF_LIKE(1, 2); // caller frees

// The reader of our output is gone: ends as SIGPIPE would.
int cli_output_gone(void);
// Flushes standard output; ends as SIGPIPE would when the reader is gone, 1 when it can't be
// written.
int cli_finish(int code);
