// SPDX-License-Identifier: Apache-2.0
// YAML to JSON values with source positions, on libyaml's event API. One loader for job files and
// for configuration.
#pragma once

#include "common/err.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define YAML_MAX_DEPTH 32
#define YAML_MAX_NODES 20000

struct yaml_doc; // the value and a side table: position and source text of every value

// Parses one document. Refuses duplicate keys, anchors, aliases, tags, merge keys, several
// documents, depth > 32, > 20,000 nodes, embedded NUL, bad UTF-8: -EPROTO with "line L, column C:
// ...". Only unquoted null/~/true/false and plain decimal integers and decimals convert; everything
// else stays a string (no, 010, 22:22, 0x1f, 1e3 are strings).
int yaml_parse(const char *text, size_t len, struct yaml_doc **ret, struct err *e) WARN_UNUSED;
void yaml_doc_free(struct yaml_doc *doc); // not yaml_free: libyaml has an internal function of that
                                          // name, which ours would replace
json_t *yaml_root(const struct yaml_doc *doc); // borrowed
// Where a value (a pointer inside yaml_root's tree) stands, 1-based; false when unknown.
bool yaml_position(const struct yaml_doc *doc, const json_t *value, int *ret_line, int *ret_column);
// Where the key of a mapping stands.
bool yaml_key_position(const struct yaml_doc *doc, const json_t *mapping, const char *key,
                       int *ret_line, int *ret_column);
// Source text of an unquoted scalar ("1.10", "010"); NULL for anything else.
const char *yaml_source(const struct yaml_doc *doc, const json_t *value);
