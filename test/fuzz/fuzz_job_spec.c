// SPDX-License-Identifier: Apache-2.0
// Any bytes as a job file, as YAML and as JSON: no crash, no leak; problems are valid UTF-8 (they
// go into JSON answers); what was accepted has a canonical form that reads back to itself.
#include "common/cleanup.h"
#include "common/json.h"
#include "proto/job_spec.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int good)
{
    if (!good)
        __builtin_trap();
}

static void check_text(const char *text)
{
    cleanup_json json_t *j = json_string(text);
    require(j != NULL);
}

static void check_round_trip(const struct job_spec *spec)
{
    struct job_spec *again = NULL;
    struct err e = {""};
    cleanup_json json_t *j = job_spec_to_json(spec);

    require(job_spec_from_json(j, &again, &e) == 0);
    cleanup_json json_t *back = job_spec_to_json(again);
    cleanup_free char *first = json_text(j);
    cleanup_free char *second = json_text(back);
    require(first && second && strcmp(first, second) == 0);
    require(job_spec_total_tasks(spec) == job_spec_total_tasks(again));
    job_spec_free(again);
}

static void try_format(const uint8_t *data, size_t size, const char *format, const char *name)
{
    struct job_spec *spec = NULL;
    struct job_problems problems = {0};
    struct job_warnings warnings = {0};
    struct err e = {""};
    int r = job_spec_parse((const char *)data, size, format, name, &spec, &problems, &warnings, &e);

    require((r == 0) == (spec != NULL));
    require((r == -EINVAL) == (problems.count > 0));
    require(r == 0 || r == -EINVAL || r == -EPROTO);
    for (size_t i = 0; i < problems.count; i++) {
        check_text(problems.items[i].path);
        check_text(problems.items[i].message);
        require(problems.items[i].message[0] != '\0');
    }
    for (size_t i = 0; i < warnings.count; i++)
        check_text(warnings.items[i]);
    check_text(e.text);
    if (spec)
        check_round_trip(spec);
    job_spec_free(spec);
    job_problems_free(&problems);
    job_warnings_free(&warnings);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_format(data, size, "yaml", NULL);
    try_format(data, size, "json", NULL);
    try_format(data, size, "yaml", "given");
    return 0;
}
