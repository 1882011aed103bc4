// SPDX-License-Identifier: Apache-2.0
// A job that waits for the end of others (`after`). Names are resolved when it is submitted, to
// jobs that are there already: so there can be no circle. A condition that can't be met any more
// ends the job. Each job knows who waits for it: an end costs what depends on it.
#pragma once

#include "master/cluster/model.h"

#include <jansson.h>

// Resolves spec->after into j->after. -EINVAL with text: no such job; -ENOMEM. On failure nothing
// is left. `user`'s jobs are meant by names, anybody's by ids.
int dependency_bind(struct cluster *c, struct job *j, struct err *e) WARN_UNUSED;
// Whether dependency_bind would find all; nothing is kept.
int dependency_check(struct cluster *c, const struct job_spec *spec, const char *user,
                     struct err *e) WARN_UNUSED;
// Of a loaded job, when all are loaded.
void dependency_relink(struct cluster *c, struct job *j);
// Looks at what is decided already; the job may end by that.
void dependency_settle(struct cluster *c, struct job *j);
// The job is over: what waits for it is looked at with the turn's collect.
void dependency_ended(struct cluster *c, struct job *j);
void dependency_collect(struct cluster *c);
void dependency_free(struct job *j);

// [{job, name, when, met}]; NULL when it has none. Also the record's form.
json_t *dependency_view(const struct job *j);
int dependency_from_record(struct job *j, const json_t *list, struct err *e) WARN_UNUSED;
// "waits for job train (jabc...) to succeed", or why it never can start; "" = waits for none.
void dependency_text(const struct job *j, char *out, size_t size);
// The same of a job that is only planned: nothing is bound and no element made.
void dependency_plan_text(struct cluster *c, const struct job_spec *spec, const char *user,
                          char *out, size_t size);
