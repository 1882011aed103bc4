// SPDX-License-Identifier: Apache-2.0
// The three formats of output. Tables are for people, JSON and YAML for programs.
#pragma once

#include "common/strbuf.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum output_format { OUTPUT_TABLE, OUTPUT_JSON, OUTPUT_YAML, OUTPUT_FORMAT_MAX };
// -EINVAL when it is none.
int output_format_from_string(const char *text, enum output_format *ret) WARN_UNUSED;

// Indented JSON with a newline; keys in the order they came.
void output_json(struct strbuf *out, const json_t *value);
// Block style YAML; texts that YAML could read as something else are quoted.
void output_yaml(struct strbuf *out, const json_t *value);

struct table; // columns that are as wide as their widest cell
// Headings, ended by NULL.
struct table *table_new(const char *const *headings);
void table_free(struct table *t);
// The next cell of the row under way; a row is complete when it has as many cells as headings. NULL
// = "-".
void table_cell(struct table *t, const char *text);
void table_cellf(struct table *t, const char *fmt, ...) PRINTF_LIKE(2, 3);
// `width` > 0 cuts lines there (a terminal's); states are coloured when asked for. Control
// characters are shown as '?'.
void table_render(const struct table *t, bool color, unsigned width, struct strbuf *out);
// To standard output, with the terminal's width and no headings when there are no rows ("none" is
// printed on stderr by the caller).
void table_print(const struct table *t, bool color);

// Escape sequence for a job, task or node state ("" = none).
const char *output_state_color(const char *state);
#define OUTPUT_RESET "\033[0m"
// Text that can't move the cursor or recolour the terminal: control characters become '?'. Appends.
void output_safe(struct strbuf *out, const char *text);

// Cells: "3m12s" since a time member (or between two), "-" without; "7.5", "16.0 GiB".
void output_age(const json_t *obj, const char *since, const char *until, char *out, size_t size);
// Between two moments, ms of real time; to 0 = now, from 0 = "-".
void output_span(int64_t from, int64_t to, char *out, size_t size);
void output_cpu(int64_t milli, char *out, size_t size);
void output_memory(int64_t bytes, char *out, size_t size);
