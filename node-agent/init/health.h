// SPDX-License-Identifier: Apache-2.0
// Whether the command is well, as the job's `health` asks: one check after the other, each by a
// process of its own (probe.h), so that nothing that a check does can hold up the supervisor.
#pragma once

#include "node-agent/init/args.h"
#include "node-agent/init/record.h"

#include <stdbool.h>
#include <stdint.h>

#define HEALTH_TEXT_BYTES 200

struct health {
    const struct init_args *args;
    const struct record *rec;
    bool on;           // the command runs and is to be looked after
    bool well;         // the last word was "healthy"
    bool frozen;       // nothing is judged
    int64_t frozen_ms; // since then
    bool worthless;    // the check under way was frozen meanwhile: its verdict does not count
    int failures;      // one after the other, beyond the start period
    int verdict_fd;    // -1 = no check is under way
    pid_t pid;         // of the check under way
    int64_t next_ms;   // when it begins, or when the one under way is given up (CLOCK_BOOTTIME)
    int64_t counts_from_ms; // failures before this are none: the start period
    char text[HEALTH_TEXT_BYTES];
};

// `verdict_fd` is -1 afterwards.
void health_init(struct health *h, const struct init_args *args, const struct record *rec);
// The command was executed. Does nothing without a check.
void health_begin(struct health *h, int64_t now_ms);
// No more checks; the one under way ends with the command's processes.
void health_end(struct health *h);
void health_freeze(struct health *h, bool frozen, int64_t now_ms);
// When health_look is to be called; 0 = never.
int64_t health_due(const struct health *h);
// Begins the check that is due, or gives up the one under way. True: the command is unhealthy, by
// this for the first time; h->text says why.
bool health_look(struct health *h, int64_t now_ms);
// verdict_fd can be read. True as above.
bool health_verdict(struct health *h, int64_t now_ms);
