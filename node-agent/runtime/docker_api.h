// SPDX-License-Identifier: Apache-2.0
// What the Engine API wants to read and what it says: pure functions from and to JSON and text.
#pragma once

#include "node-agent/runtime/runtime.h"

#define DOCKER_LABEL "io.meadow."
#define DOCKER_API_MIN 41 // minor of 1.x
#define DOCKER_API_MAX 47

// The body of containers/create. `image_command` is the image's own entrypoint and command, used
// when the spec has none. Owned by the caller; NULL = out of memory.
json_t *docker_create_body(const struct runtime_options *o, const struct attempt_spec *spec);
// Entrypoint and command of an image inspection, as one array. Owned; NULL = it has neither.
json_t *docker_image_command(const json_t *image);
// Puts the command into a body made for a spec without one.
void docker_set_command(json_t *body, const json_t *command);

// The API minor to speak with an engine, from its /version. -EPROTO with the reason when there is
// none in common.
int docker_api_minor(const json_t *version, struct err *e) WARN_UNUSED;
bool docker_is_podman(const json_t *version);
// What the engine says went wrong: the "message" (podman: "cause") of its answer, else the status.
void docker_error_text(int status, const char *body, size_t len, char *out, size_t size);
// Filters for a listing or events; URL-encoded text, owned by the caller, NULL = out of memory.
char *docker_filters(const struct runtime_options *o, bool events, bool labels);
// Percent-encodes; owned by the caller, NULL = out of memory.
char *docker_encode(const char *text);
// The attempt's id in the labels (object of texts), or NULL unless cluster and node are ours.
const char *docker_own_attempt(const struct runtime_options *o, const json_t *labels);
// "name:latest" for a reference without tag and digest (else every tag would be pulled). Owned;
// NULL = out of memory.
char *docker_image_reference(const char *image);
// Whether a failed pull may succeed later by itself; a name that isn't there, no access and a
// registry that can't be reached at all are the job's fault.
bool docker_pull_is_transient(const char *text);
