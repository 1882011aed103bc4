// SPDX-License-Identifier: Apache-2.0
// Fields of the job file whose behaviour is not there yet. They are known, so that a wrong form is
// reported as such, and a right one is refused by name: a field is never read and ignored.
#include "proto/job_spec_internal.h"

#include "common/cleanup.h"

#include <string.h>

// The last step of the path is the field.
static void refuse(struct job_reader *r)
{
    job_reader_problem(r, NULL, "\"%s\": not supported yet", r->steps[r->depth - 1].key);
}

void job_later_any(struct job_reader *r, const struct job_field *f, const json_t *value,
                   void *object)
{
    (void)f;
    (void)value;
    (void)object;
    refuse(r);
}

void job_later_bool(struct job_reader *r, const struct job_field *f, const json_t *value,
                    void *object)
{
    (void)f;
    (void)object;
    if (json_is_boolean(value))
        refuse(r);
    else
        job_reader_expected(r, value, "true or false");
}

void job_later_weight(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object)
{
    (void)f;
    (void)object;
    if (json_is_number(value) && json_number_value(value) > 0)
        refuse(r);
    else
        job_reader_expected(r, value, "a number above 0");
}

void job_later_names(struct job_reader *r, const struct job_field *f, const json_t *value,
                     void *object)
{
    size_t i;
    json_t *item;

    (void)f;
    (void)object;
    if (!json_is_array(value) || json_array_size(value) == 0) {
        job_reader_expected(r, value, "a list of job names");
        return;
    }
    json_array_foreach (value, i, item) {
        char room[JOB_READER_TEXT_BYTES];
        const char *text = job_reader_text(r, item, room);
        job_reader_push_index(r, value, i);
        if (text)
            (void)job_name_check(r, item, text);
        else
            job_reader_expected(r, item, "a job name");
        job_reader_pop(r);
    }
    refuse(r);
}

// --- mappings with fields of their own; the values are read into these and dropped ---

struct range {
    int min, max;
};

static const struct job_field range_fields[] = {
    {"min", job_read_int, offsetof(struct range, min), 0, JOB_MAX_NUM, NULL},
    {"max", job_read_int, offsetof(struct range, max), 1, JOB_MAX_NUM, NULL},
};

void job_later_num(struct job_reader *r, const json_t *value)
{
    struct range range = {-1, -1};
    size_t before = r->problems->count;

    job_reader_object(r, range_fields, ARRAY_SIZE(range_fields), value, &range, "{min: 1, max: 8}");
    if (r->problems->count == before && (range.min < 0 || range.max < range.min))
        job_reader_problem(r, value, "expected {min: 1, max: 8}, min not above max");
    job_reader_problem(r, NULL, "\"num: {min, max}\": not supported yet; write num: N");
}

static void read_word(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object)
{
    (void)object;
    if (!json_is_string(value) || !*json_string_value(value))
        job_reader_expected(r, value, f->expected);
}

struct resize {
    int64_t grace_ms;
};

static void read_mode(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object)
{
    const char *text = json_string_value(value);

    (void)object;
    if (!text || (strcmp(text, "restart") != 0 && strcmp(text, "live") != 0))
        job_reader_expected(r, value, f->expected);
}

static const struct job_field resize_fields[] = {
    {"mode", read_mode, 0, 0, 0, "restart or live"},
    {"signal", read_word, 0, 0, 0, "a signal such as SIGUSR1"},
    {"grace", job_read_duration, offsetof(struct resize, grace_ms), 0, INT64_C(3600000), NULL},
};

void job_later_resize(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object)
{
    struct resize unused = {0};

    (void)f;
    (void)object;
    job_reader_object(r, resize_fields, ARRAY_SIZE(resize_fields), value, &unused,
                      "a mapping such as {mode: restart, signal: SIGUSR1, grace: 60s}");
    refuse(r);
}
