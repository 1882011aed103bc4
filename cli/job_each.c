// SPDX-License-Identifier: Apache-2.0
// The jobs that a command's words name: "J", "J_7", "J_[1-10,20]".
#include "cli/job.h"
#include "common/cleanup.h"
#include "proto/job_array.h"

#include <string.h>

typedef int (*one_fn)(struct cli *cli, const struct args *args, const char *ref);

static int first_of(int so_far, int code)
{
    return so_far == CLI_OK ? code : so_far;
}

static int elements(struct cli *cli, const struct args *args, const char *base, const char *list,
                    one_fn one)
{
    struct err e = {""};
    struct job_array a = {0};
    int result = CLI_OK, code = CLI_OK;
    int r = job_array_parse(list, &a, &e);
    if (r == 0 && a.limit)
        r = err_set(&e, -EINVAL, "%% limits an array when it is submitted");
    if (r < 0) {
        job_array_reset(&a);
        return cli_usage(args, e.text);
    }
    for (int i = 0; i < a.count && code != CLI_UNREACHABLE && code != CLI_INTERRUPTED; i++) {
        cleanup_free char *ref = cli_format("%s%d", base, job_array_index(&a, i));
        code = one(cli, args, ref);
        result = first_of(result, code);
    }
    job_array_reset(&a);
    return result;
}

int job_each(struct cli *cli, const struct args *args, one_fn one)
{
    int result = CLI_OK, code = CLI_OK;
    for (size_t i = 0; i < args->n_words && code != CLI_UNREACHABLE && code != CLI_INTERRUPTED;
         i++) {
        cleanup_free char *base = cli_strdup(args->words[i]);
        char *list = strstr(base, "_[");
        size_t len = strlen(base);
        if (list && base[len - 1] == ']') {
            base[len - 1] = '\0';
            list[1] = '\0';
            code = elements(cli, args, base, list + 2, one);
        } else {
            code = one(cli, args, args->words[i]);
        }
        result = first_of(result, code);
    }
    return result;
}
