// SPDX-License-Identifier: Apache-2.0
// A job file on its way to the master: as it is, or changed by --set.
#pragma once

#include "common/err.h"
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define JOB_FILE_LIMIT (1u << 20) // what the master takes

// Whole file, or standard input for "-". Caller frees *ret.
int job_file_read(const char *path, char **ret, size_t *ret_len, struct err *e) WARN_UNUSED;
// By the file's name, else by its first character.
bool job_file_is_json(const char *path, const char *text);
// As a JSON value. Decimals of YAML become their source text, so that 1.10 stays what was written.
// Caller owns *ret.
int job_file_parse(const char *text, size_t len, bool json, json_t **ret,
                   struct err *e) WARN_UNUSED;
// "components.actor.num=4": dots are steps, missing mappings are made, the value is read as YAML. A
// step may hold dots when a member of that name is there.
int job_file_set(json_t *job, const char *assignment, struct err *e) WARN_UNUSED;
