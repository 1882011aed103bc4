// SPDX-License-Identifier: Apache-2.0
// What the job commands share.
#pragma once

#include "cli/cli.h"

// Held requests until the job is over; *ret (caller's) is how it ended. Survives a restart of the
// master. Exit status of the waiting itself.
int job_wait(struct cli *cli, const char *what, const char *id, json_t **ret);
// For each job named by the words, "J_[1-3,7]" being the elements of an array. All are tried but
// after CLI_UNREACHABLE; the first failure's status.
int job_each(struct cli *cli, const struct args *args,
             int (*one)(struct cli *cli, const struct args *args, const char *ref));
// CLI_OK when it succeeded, else CLI_FAILED.
int job_exit_status(const json_t *job);
// Prints "job NAME (ID) succeeded" or why not, in the format wanted.
void job_print_end(const struct cli *cli, const json_t *job);
// How many tasks it has; of one component when `component` is given.
long job_tasks(const json_t *job, const char *component);

// Of a table of jobs, to a NULL; RUNNING is "running/all" of the tasks.
extern const char *const job_headings[];
// Prints the jobs of /v1/jobs that `query` ("?state=...") names, at most `limit` (0 = all), as a
// table, or with --quiet their ids. *ret_older: the master knows no such lines, nothing was printed
// and JSON is to be asked for. Exit status.
int job_rows(struct cli *cli, const char *query, long limit, bool *ret_older);

struct job_logs_options { // NULL, -1 = not given
    bool follow, timestamps;
    const char *component, *stream;
    long index, tail;
};
// Prints the logs of `job` (as /v1/jobs/{j} shows it). Exit status.
int job_logs(struct cli *cli, const char *what, const json_t *job,
             const struct job_logs_options *options);
// Says once that an interrupted follow left the job running; returns CLI_INTERRUPTED.
int job_interrupted(const char *id);
