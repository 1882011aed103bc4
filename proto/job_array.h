// SPDX-License-Identifier: Apache-2.0
// Which elements a job array has: "1-1000%50", "0-15:4", "1,3,7".
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <stddef.h>

#define JOB_ARRAY_MAX 100000 // elements
#define JOB_ARRAY_INDEX_MAX 999999
#define JOB_ARRAY_TEXT_MAX 1000

struct job_array_range {
    int from, to, step; // `to` is one of them
};
struct job_array {
    struct job_array_range *ranges; // ascending
    size_t n_ranges;
    int count; // elements; 0 = no array
    int limit; // so many run at once; 0 = any number
};

// -EINVAL with text, -ENOMEM. job_array_reset frees what it made.
int job_array_parse(const char *text, struct job_array *ret, struct err *e) WARN_UNUSED;
void job_array_reset(struct job_array *a);
// As it would be written; malloc'd, NULL = out of memory.
char *job_array_text(const struct job_array *a);
// The index of the element with this number, 0 <= number < count; and back, -1 = there is none.
int job_array_index(const struct job_array *a, int number);
int job_array_number(const struct job_array *a, int index);

// Whether the text is an element's name "NAME_7"; then the length of NAME, and the index.
bool job_element_split(const char *text, size_t *ret_len, int *ret_index);
// Whether the text has the shape of a job's id, or of an element's.
bool job_id_is(const char *text);
