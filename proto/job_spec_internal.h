// SPDX-License-Identifier: Apache-2.0
// What the files of the job file's parser share. Nobody else includes this.
#pragma once

#include "proto/job_reader.h"

#define JOB_MAX_COMPONENTS 100
#define JOB_MAX_NUM 10000
#define JOB_MAX_TASKS 100000
#define JOB_MAX_MOUNTS 32
#define JOB_MAX_PORTS 15
#define JOB_MAX_ATTEMPTS 1000000
#define JOB_MAX_PRIORITY 100
#define JOB_DEFAULT_PRIORITY 50
#define JOB_NAME_CHARS 63
#define JOB_ARRAY_NAME_CHARS 56 // its elements' names are "NAME_999999" at the longest
// One argument or variable of a program (MAX_ARG_STRLEN of Linux, less its NUL).
#define JOB_MAX_ARG 131071
#define JOB_MAX_LIMIT_MS INT64_C(315360000000) // ten years, as `timeout`
#define JOB_MAX_IMAGE 512
#define JOB_MAX_PATH 4095
#define JOB_MIN_MEMORY (INT64_C(6) << 20)
#define JOB_MAX_GPU 1024

#define JOB_DEFAULT_ATTEMPTS 3
#define JOB_DEFAULT_BACKOFF_MS 1000
#define JOB_DEFAULT_MAX_BACKOFF_MS 60000
#define JOB_DEFAULT_GRACE_MS 10000

// Fills r->spec from the tree: field by field, then the rules that need more than one field.
void job_spec_read(struct job_reader *r, const json_t *root);
void job_spec_check(struct job_reader *r, const json_t *root);
// Warnings for what a MARO file may say and this cluster has no use for.
void maro_warnings(struct job_reader *r);

// [A-Za-z0-9][A-Za-z0-9._-]{0,62}
bool job_name_is_valid(const char *name);
// Says what is wrong with a job's name (at the current path), or nothing.
bool job_name_check(struct job_reader *r, const json_t *value, const char *name);

// Absolute, at least one character below "/", without "..", control characters and ':'.
bool job_path_ok(const char *p, size_t len);

// Field readers of a component, for its table.
void job_read_component(struct job_reader *r, const json_t *value, struct job_component *c);
void job_read_command(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object);
void job_read_health(struct job_reader *r, const struct job_field *f, const json_t *value,
                     void *object);
// Once the ports are known.
void job_health_check(struct job_reader *r, const json_t *component, const struct job_component *c);
void job_read_mount(struct job_reader *r, const struct job_field *f, const json_t *value,
                    void *object);
void job_read_mounts(struct job_reader *r, const struct job_field *f, const json_t *value,
                     void *object);
void job_read_resources(struct job_reader *r, const struct job_field *f, const json_t *value,
                        void *object);
void job_read_restart(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object);
void job_read_secrets(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object);
void job_read_stop(struct job_reader *r, const struct job_field *f, const json_t *value,
                   void *object);

// Field readers of the top level.
void job_read_deadline(struct job_reader *r, const struct job_field *f, const json_t *value,
                       void *object);
void job_read_array(struct job_reader *r, const struct job_field *f, const json_t *value,
                    void *object);
void job_read_after(struct job_reader *r, const struct job_field *f, const json_t *value,
                    void *object);

// Fields that are known, whose form is checked, and which are then refused as "not supported yet".
void job_later_num(struct job_reader *r, const json_t *value);
void job_later_any(struct job_reader *r, const struct job_field *f, const json_t *value,
                   void *object);
void job_later_bool(struct job_reader *r, const struct job_field *f, const json_t *value,
                    void *object);
void job_later_weight(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object);
void job_later_names(struct job_reader *r, const struct job_field *f, const json_t *value,
                     void *object);
void job_read_constraints(struct job_reader *r, const struct job_field *f, const json_t *value,
                          void *object);
// After all fields: what the component wants of its cards joins the conditions on the node.
void job_add_cards(struct job_reader *r, struct job_component *c);
// Where tasks are beside each other (job_spec_beside.c); the first two fill the member at the
// field's offset.
void job_read_gang(struct job_reader *r, const struct job_field *f, const json_t *value,
                   void *object);
void job_read_beside(struct job_reader *r, const struct job_field *f, const json_t *value,
                     void *object);
void job_check_beside(struct job_reader *r, const struct job_component *c);
void job_check_named(struct job_reader *r);
#define JOB_MAX_NAMED 100 // times that a job names others
void job_later_resize(struct job_reader *r, const struct job_field *f, const json_t *value,
                      void *object);
