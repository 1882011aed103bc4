// SPDX-License-Identifier: Apache-2.0
// Job arrays: one record that stands for all elements. An element becomes a job of its own, with
// the id "ARRAY_INDEX", when it is its turn to wait for a place, or when somebody does something to
// it. One at a time waits, since all need the same: when it has its place, the next one is made. So
// what waits costs nothing.
#pragma once

#include "master/cluster/model.h"

#include <jansson.h>

// Of an array, never NULL there.
struct elements {
    struct job **made; // by number (job_array_index); NULL = as the array itself says
    int cursor;        // none before it can be the next; while it is deleted: all before are gone
    int without_logs;  // elements before it have none any more (job_forget_logs)
    struct job *next;  // weak; the one that waits for its first place; NULL = none
    int n[JOB_STATE_MAX]; // made ones by state
};

int array_running(const struct elements *x); // that are neither waiting nor over
// For a new job whose spec has an array. -ENOMEM.
int array_init(struct job *j) WARN_UNUSED;
void array_free(struct job *j);
// The ref "ARRAY_7" or "NAME_7"; user NULL = anybody's. Made, or one that is only looked at
// (job->preview), valid until the next call. NULL = no such element, or out of memory.
struct job *array_find(struct cluster *c, const char *ref, const char *user);
// Chooses who waits for a place next, if any may. To be called when something changed that decides.
void array_next(struct cluster *c, struct job *array);
// The element's state or hold changed.
void array_changed(struct cluster *c, struct job *element, enum job_state before);
// The array's own state follows.
void array_refresh(struct cluster *c, struct job *array);
// Ends what was made; the others end with the array.
void array_end(struct cluster *c, struct job *array, const char *user, const char *reason);
// Whether the element may get a place, as far as its array is concerned.
bool array_admits(const struct job *element);
// All live elements are to be looked at anew.
void array_stale(struct cluster *c, struct job *array);
// Why no element of it, or this element, is looked at; "" = it is.
void array_text(const struct job *j, char *out, size_t size);

// An element's record, when all others are loaded.
int array_element_from_record(struct cluster *c, const json_t *r, struct err *e) WARN_UNUSED;
// {spec, count, pending, running, succeeded, failed, stopped} of an array, {job, index} of an
// element, NULL of others.
json_t *array_view(const struct job *j);
