// SPDX-License-Identifier: Apache-2.0
// Health of a task: the check as a job asks for it and as an attempt carries it, and what came of
// it.
#pragma once

#include "common/err.h"
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define HEALTH_ARGS_MAX 64    // as many as meadow-init takes
#define HEALTH_PATH_MAX 1024  // bytes
#define HEALTH_INDEX_BOUND 16 // ports below this are indexes into the task's own

// Either a command or an HTTP request.
struct job_health {
    char **command;     // NULL-terminated argv, or NULL
    bool command_shell; // it was a text: {"/bin/sh", "-c", text}
    char *path;         // of the request; NULL = none
    int64_t port; // below HEALTH_INDEX_BOUND an index into the task's ports; an attempt has the
                  // port itself
    int64_t interval_ms, timeout_ms, start_period_ms;
    int64_t retries;
};

void job_health_free(struct job_health *h); // frees the struct too; NULL allowed
// A copy with this port; NULL = out of memory.
struct job_health *job_health_copy(const struct job_health *h, int64_t port);
// As an attempt's spec has it on the wire.
json_t *job_health_to_json(const struct job_health *h);
// `j` NULL: none, *ret is NULL. -EPROTO, -ENOMEM.
int job_health_from_json(const json_t *j, struct job_health **ret, struct err *e) WARN_UNUSED;

enum health_word {
    HEALTH_WORD_NONE, // nobody asks
    HEALTH_WORD_STARTING,
    HEALTH_WORD_HEALTHY,
    HEALTH_WORD_UNHEALTHY,
    HEALTH_WORD_MAX,
};
// The words on the wire.
const char *health_word_to_string(enum health_word w);
int health_word_from_string(const char *text, enum health_word *ret) WARN_UNUSED; // -EINVAL
