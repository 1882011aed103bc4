// SPDX-License-Identifier: Apache-2.0
// Small files of the agent's state that can be made anew: a damaged one is set aside, never
// deleted.
#pragma once

#include "common/err.h"
#include <jansson.h>
#include <stddef.h>

// Reads a JSON object. *ret is NULL when there is none, or when what was there is damaged and was
// set aside. Fails when the file can't be read at all.
int state_file_read(const char *path, size_t limit, json_t **ret, struct err *e) WARN_UNUSED;
// Sets a file aside in which something is wrong, and says so in the log. A failure is one of the
// disk.
int state_file_damaged(const char *path, const char *why, struct err *e) WARN_UNUSED;
