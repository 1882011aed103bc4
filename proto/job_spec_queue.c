// SPDX-License-Identifier: Apache-2.0
// What a job file says about the queue: `after`, a job, or a list of jobs or of {job, when};
// `array`, its elements; `deadline`, a time or a duration.
#include "proto/job_spec_internal.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/id.h"

#include <stdlib.h>
#include <string.h>

static void read_job(struct job_reader *r, const struct job_field *f, const json_t *value,
                     void *object)
{
    char room[JOB_READER_TEXT_BYTES];
    struct job_after *a = object;
    const char *text = job_reader_text(r, value, room);

    (void)f;
    if (!text || !job_name_is_valid(text))
        job_reader_expected(r, value, "the name or the id of a job");
    else
        a->job = job_reader_dup(r, text);
}

static void read_when(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object)
{
    struct job_after *a = object;
    const char *text = json_string_value(value);
    if (!text || after_when_from_string(text, &a->when) < 0)
        job_reader_expected(r, value, f->expected);
}

static const struct job_field after_fields[] = {
    {"job", read_job, 0, 0, 0, NULL},
    {"when", read_when, 0, 0, 0, "ok, any or failed"},
};

static void add_after(struct job_reader *r, const json_t *value, struct job_spec *spec)
{
    struct job_after a = {0};

    if (json_is_object(value))
        job_reader_object(r, after_fields, ARRAY_SIZE(after_fields), value, &a, "");
    else
        read_job(r, NULL, value, &a);
    if (json_is_object(value) && !json_object_get(value, "job"))
        job_reader_problem(r, value, "`job` is missing: the name or the id of a job");
    for (size_t i = 0; a.job && i < spec->n_after; i++)
        if (strcmp(spec->after[i].job, a.job) == 0)
            job_reader_problem(r, value, "%s is here twice", a.job);
    if (a.job)
        spec->after[spec->n_after++] = a;
}

void job_read_after(struct job_reader *r, const struct job_field *f, const json_t *value,
                    void *object)
{
    struct job_spec *spec = object;
    size_t i;
    json_t *item;
    size_t n = json_is_array(value) ? json_array_size(value) : 1;

    (void)f;
    if (n == 0 || n > JOB_MAX_AFTER || json_is_null(value)) {
        job_reader_expected(r, value, "a job, or a list of 1 to 100 such as [{job: a, when: ok}]");
        return;
    }
    spec->after = job_reader_alloc(r, n, sizeof(*spec->after));
    if (!spec->after)
        return;
    if (!json_is_array(value)) {
        add_after(r, value, spec);
        return;
    }
    json_array_foreach (value, i, item) {
        job_reader_push_index(r, value, i);
        add_after(r, item, spec);
        job_reader_pop(r);
    }
}

void job_read_array(struct job_reader *r, const struct job_field *f, const json_t *value,
                    void *object)
{
    char room[JOB_READER_TEXT_BYTES];
    struct err e = {""};
    struct job_spec *spec = object;
    const char *text = json_is_boolean(value) ? NULL : job_reader_text(r, value, room);

    (void)f;
    if (!text) {
        job_reader_expected(r, value, "indices such as 1-1000%50, 0-15:4 or 1,3,7");
        return;
    }
    int x = job_array_parse(text, &spec->array, &e);
    if (x == -ENOMEM)
        r->failed = true;
    else if (x < 0)
        job_reader_problem(r, value, "%s", e.text);
}

// A time as "2026-12-24T18:00:00Z", or a duration from the submission on.
void job_read_deadline(struct job_reader *r, const struct job_field *f, const json_t *value,
                       void *object)
{
    int64_t ms;
    struct job_spec *spec = object;
    const char *text = json_string_value(value);

    if (!text || !strchr(text, 'T')) {
        job_read_duration(r, f, value, object);
    } else if (clock_parse(text, &ms) < 0 || ms <= 0) {
        job_reader_expected(r, value,
                            "a time such as 2033-05-18T18:00:00Z, or a duration such as 8h");
    } else {
        spec->deadline_ms = ms;
        spec->deadline_fixed = true;
    }
}
