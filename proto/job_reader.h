// SPDX-License-Identifier: Apache-2.0
// Inside the job file's parser only: reading a JSON tree by tables of fields, collecting every
// mistake with its path and place instead of stopping at the first.
#pragma once

#include "common/json_marks.h"
#include "common/yaml.h"
#include "proto/job_spec.h"

#define JOB_READER_STEPS 12      // how deep the known part of a job file nests
#define JOB_READER_TEXT_BYTES 32 // room for a printed number

// One step of the way from the root to the value being read.
struct job_step {
    const json_t *parent; // NULL: not in the file, no place is known
    const char *key;      // NULL: an item of a list
    size_t index;
};

struct job_reader {
    const char *text; // a JSON text, for positions; NULL for YAML, or when there is no text
    size_t len;
    const struct yaml_doc *yaml; // or NULL
    struct json_marks *marks;    // of the JSON text, made at the first mistake; owned
    const json_t *root;          // the whole tree
    const char *name;            // replaces the file's name; or NULL
    struct job_spec *spec;       // being filled; owned until job_spec_parse takes it
    struct job_problems *problems;
    struct job_warnings *warnings;
    struct job_step steps[JOB_READER_STEPS];
    int depth;
    bool failed; // out of memory
};

struct job_field;
typedef void (*job_read_fn)(struct job_reader *r, const struct job_field *f, const json_t *value,
                            void *object);

struct job_field {
    const char *name;
    job_read_fn read;
    size_t offset;        // of the member in `object` that the generic readers below fill
    int64_t min, max;     // for numbers and durations
    const char *expected; // "a whole number from 1 to 10000"
};

// Adds a problem at the current path. `value` (may be NULL: the key itself) gives line and column.
void job_reader_problem(struct job_reader *r, const json_t *value, const char *fmt, ...)
    PRINTF_LIKE(3, 4);
// "found X, expected <expected>".
void job_reader_expected(struct job_reader *r, const json_t *value, const char *expected);
// Adds "<path>: <text>" to the warnings.
void job_reader_warn(struct job_reader *r, const char *fmt, ...) PRINTF_LIKE(2, 3);

// The path of what is read now, one step longer or shorter; `parent` holds the step.
void job_reader_push_key(struct job_reader *r, const json_t *parent, const char *key);
void job_reader_push_index(struct job_reader *r, const json_t *parent, size_t index);
void job_reader_pop(struct job_reader *r);

// The text of a scalar, as its source has it (1.10 stays "1.10"); NULL for mapping, list and null.
// Borrowed from the document or from `room` (JOB_READER_TEXT_BYTES).
const char *job_reader_text(struct job_reader *r, const json_t *value, char *room);
// strdup that remembers a failure in `failed`.
char *job_reader_dup(struct job_reader *r, const char *text);
// calloc that does; NULL also when n is 0.
void *job_reader_alloc(struct job_reader *r, size_t n, size_t size);

// Reads a mapping member by member; unknown keys are problems. `example` shows the form for
// messages.
void job_reader_object(struct job_reader *r, const struct job_field *fields, size_t n,
                       const json_t *value, void *object, const char *example);
// Sorts the problems by place and frees the marks.
void job_reader_finish(struct job_reader *r);

// Generic field readers: int, bool, int64_t milliseconds.
void job_read_int(struct job_reader *r, const struct job_field *f, const json_t *value,
                  void *object);
void job_read_bool(struct job_reader *r, const struct job_field *f, const json_t *value,
                   void *object);
void job_read_duration(struct job_reader *r, const struct job_field *f, const json_t *value,
                       void *object);
