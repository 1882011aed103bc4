// SPDX-License-Identifier: Apache-2.0
// Any bytes as what a container engine answers: version, image, labels, errors; and as the image's
// name and the attempt that becomes a body for it.
#include "common/cleanup.h"
#include "common/json.h"
#include "node-agent/runtime/docker_api.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int good)
{
    if (!good)
        __builtin_trap();
}

static const struct runtime_options options = {.cluster_id = "caaaaaaaaaaaa",
                                               .node_id = "naaaaaaaaaaaa",
                                               .node_name = "node-1",
                                               .init_path = "/usr/lib/meadow/meadow-init",
                                               .data_dir = "/var/lib/meadow/data",
                                               .cgroup_parent = "",
                                               .total_cpu_milli = 4000};

static void try_text(const char *text, size_t size)
{
    char out[256];
    docker_error_text(500, text, size, out, sizeof(out));
    require(strlen(out) < sizeof(out));
    cleanup_json json_t *j = json_string(out);
    require(j != NULL); // it goes into reports
    cleanup_free char *copy = strndup(text, size);
    cleanup_free char *reference = docker_image_reference(copy);
    cleanup_free char *encoded = docker_encode(copy);
    require(reference && encoded);
    require(encoded[strspn(encoded, "%-._~0123456789abcdefghijklmnopqrstuvwxyz"
                                    "ABCDEFGHIJKLMNOPQRSTUVWXYZ")] == '\0');
    (void)docker_pull_is_transient(copy);
}

static void try_spec(const json_t *j, const json_t *image)
{
    struct attempt_spec *spec = NULL;
    if (attempt_spec_from_json(j, &spec, NULL) < 0)
        return;
    json_t *body = docker_create_body(&options, spec);
    if (body && image)
        docker_set_command(body, image);
    free(body ? json_text(body) : NULL);
    json_decref(body);
    attempt_spec_free(spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct err e = {""};
    cleanup_json json_t *j = NULL;
    try_text((const char *)data, size);
    j = json_loadb((const char *)data, size, 0, NULL); // as the driver reads an engine's answer
    if (!j)
        return 0;
    int minor = docker_api_minor(j, &e);
    require(minor < 0 || (minor >= DOCKER_API_MIN && minor <= DOCKER_API_MAX));
    (void)docker_is_podman(j);
    (void)docker_own_attempt(&options, j);
    cleanup_json json_t *command = docker_image_command(j);
    try_spec(j, command);
    try_spec(json_object_get(j, "spec"), command);
    return 0;
}
