// SPDX-License-Identifier: Apache-2.0
// What a MARO job file may say and this cluster has no use for: read, and named once in the
// warnings.
#include "proto/job_spec_internal.h"

#include "common/cleanup.h"

#include <stdlib.h>

static bool chooses_nothing(enum job_mode mode)
{
    return mode == JOB_MODE_GRASS_LOCAL || mode == JOB_MODE_GRASS_ON_PREMISES ||
           mode == JOB_MODE_GRASS_AZURE || mode == JOB_MODE_K8S_AKS;
}

static void warn_at(struct job_reader *r, const char *key, const char *text)
{
    job_reader_push_key(r, NULL, key);
    job_reader_warn(r, "%s", text);
    job_reader_pop(r);
}

// Process tasks have no image; the file may keep its own for the other modes.
static void drop_image(struct job_reader *r, struct job_component *c)
{
    if (!c->image)
        return;
    job_reader_push_key(r, NULL, "components");
    job_reader_push_key(r, NULL, c->name);
    warn_at(r, "image", "ignored: with `mode: process` tasks are plain processes");
    job_reader_pop(r);
    job_reader_pop(r);
    free(TAKE_PTR(c->image));
}

void maro_warnings(struct job_reader *r)
{
    struct job_spec *spec = r->spec;

    if (chooses_nothing(spec->mode)) {
        job_reader_push_key(r, NULL, "mode");
        job_reader_warn(r, "\"%s\" has no effect: the job runs on this cluster's nodes",
                        job_mode_to_string(spec->mode));
        job_reader_pop(r);
    }
    if (spec->mode != JOB_MODE_PROCESS)
        return;
    for (size_t i = 0; i < spec->n_components; i++)
        drop_image(r, &spec->components[i]);
}
