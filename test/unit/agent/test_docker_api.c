// SPDX-License-Identifier: Apache-2.0
// What is said to a container engine and understood from it, without one.
#include "node-agent/runtime/docker_api.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <check.h>
#include <errno.h>
#include <string.h>

static struct runtime_options options = {
    .dirs = {.state = "/state", .run = "/run/m"},
    .cluster_id = "c1",
    .node_id = "n1",
    .node_name = "node-1",
    .init_path = "/usr/lib/meadow/meadow-init",
    .data_dir = "/data",
    .cgroup_parent = "",
};
static const char *uuid_of(int index, void *userdata)
{
    (void)userdata;
    return index == 1 ? "GPU-1" : NULL;
}

static char *command[] = {(char *)(uintptr_t) "python", (char *)(uintptr_t) "x.py", NULL};

static struct attempt_spec spec_of(void)
{
    return (struct attempt_spec){
        .id = "a1",
        .job = (char *)(uintptr_t) "j1",
        .job_name = (char *)(uintptr_t) "name",
        .component = (char *)(uintptr_t) "actor",
        .index = 2,
        .attempt = 3,
        .image = (char *)(uintptr_t) "img:1",
        .command = command,
        .network = NETWORK_BRIDGE,
        .stop_signal = 10,
        .grace_ms = 5500,
    };
}

static const json_t *at(const json_t *j, const char *a, const char *b)
{
    const json_t *x = json_object_get(j, a);
    return b ? json_object_get(x, b) : x;
}

static const char *item(const json_t *list, size_t i)
{
    return json_string_value(json_array_get(list, i));
}

START_TEST(body)
    {
        struct attempt_spec s = spec_of();
        uint16_t port = 20001;
        int gpus[] = {0, 1, 5};
        s.ports = &port;
        s.n_ports = 1;
        s.gpus = gpus;
        s.n_gpus = 3;
        s.resources = (struct resources){.cpu_milli = 1, .memory = 64 << 20};
        options.gpu_uuid = uuid_of;
        cleanup_json json_t *b = docker_create_body(&options, &s);
        ck_assert_str_eq(json_string_value(at(b, "Image", NULL)), "img:1");
        const json_t *entry = at(b, "Entrypoint", NULL);
        ck_assert_str_eq(item(entry, 0), "/run/meadow/init");
        ck_assert_str_eq(item(entry, json_array_size(entry) - 1), "--");
        ck_assert_str_eq(item(at(b, "Cmd", NULL), 1), "x.py");
        ck_assert_int_eq(json_integer_value(at(b, "StopTimeout", NULL)), 7);
        ck_assert_str_eq(json_string_value(at(b, "Labels", "io.meadow.index")), "2");
        ck_assert_str_eq(json_string_value(at(b, "Labels", "io.meadow.number")), "3");
        ck_assert_int_eq(json_integer_value(at(b, "HostConfig", "CpuQuota")), 1000);
        ck_assert_int_eq(json_integer_value(at(b, "HostConfig", "MemorySwap")), 64 << 20);
        ck_assert_str_eq(json_string_value(at(b, "HostConfig", "NetworkMode")), "bridge");
        ck_assert_ptr_nonnull(json_object_get(at(b, "HostConfig", "PortBindings"), "20001/tcp"));
        const json_t *request = json_array_get(at(b, "HostConfig", "DeviceRequests"), 0);
        ck_assert_uint_eq(json_array_size(at(request, "DeviceIDs", NULL)),
                          1); // the simulated and the unknown stay out
        ck_assert_str_eq(item(at(request, "DeviceIDs", NULL), 0), "GPU-1");
        ck_assert_uint_eq(json_array_size(at(b, "HostConfig", "Mounts")), 3);
    }
END_TEST

START_TEST(host_network_names_the_node)
    {
        struct attempt_spec s = spec_of();
        s.network = NETWORK_HOST;
        options.node_address = "10.0.0.5";
        cleanup_json json_t *b = docker_create_body(&options, &s);
        options.node_address = NULL;
        ck_assert_str_eq(json_string_value(at(b, "Hostname", NULL)), "node-1");
        ck_assert_str_eq(item(at(b, "HostConfig", "ExtraHosts"), 0), "node-1:10.0.0.5");
        ck_assert_ptr_null(at(b, "HostConfig", "DeviceRequests"));
        ck_assert_ptr_null(at(b, "HostConfig", "Memory"));
    }
END_TEST

static int minor(const char *text, struct err *e)
{
    cleanup_json json_t *v = json_loads(text, 0, NULL);
    return docker_api_minor(v, e);
}

START_TEST(versions)
    {
        struct err e;
        ck_assert_int_eq(minor("{\"ApiVersion\":\"1.41\",\"MinAPIVersion\":\"1.12\"}", &e), 41);
        ck_assert_int_eq(minor("{\"ApiVersion\":\"1.52\",\"MinAPIVersion\":\"1.44\"}", &e),
                         DOCKER_API_MAX);
        ck_assert_int_eq(minor("{\"ApiVersion\":\"1.40\"}", &e), -EPROTO);
        ck_assert_ptr_nonnull(strstr(e.text, "1.40"));
        ck_assert_int_eq(minor("{\"ApiVersion\":\"1.70\",\"MinAPIVersion\":\"1.60\"}", &e),
                         -EPROTO);
        ck_assert_int_eq(minor("{}", &e), -EPROTO);
        cleanup_json json_t *podman =
            json_loads("{\"Components\":[{\"Name\":\"Podman Engine\"}]}", 0, NULL);
        ck_assert(docker_is_podman(podman));
        ck_assert(!docker_is_podman(NULL));
    }
END_TEST

START_TEST(errors)
    {
        char text[64];
        docker_error_text(404, "{\"message\":\"No such\\nimage\"}", 28, text, sizeof(text));
        ck_assert_str_eq(text, "No such image");
        docker_error_text(500, "{\"cause\":\"broken\"}", 18, text, sizeof(text));
        ck_assert_str_eq(text, "broken");
        docker_error_text(502, "<html>", 6, text, sizeof(text));
        ck_assert_str_eq(text, "the engine answered 502 <html>");
        docker_error_text(502, "<html>\xff", 5, text, sizeof(text)); // no byte behind its end
        ck_assert_str_eq(text, "the engine answered 502 <html");
        docker_error_text(502, "\xff", 1, text, sizeof(text));
        ck_assert_str_eq(text, "the engine answered 502 ?");
        ck_assert(!docker_pull_is_transient("dial tcp 1.2.3.4:443: i/o timeout"));
        ck_assert(docker_pull_is_transient("toomanyrequests: slow down"));
        ck_assert(!docker_pull_is_transient("pull access denied for x"));
    }
END_TEST

START_TEST(references_and_labels)
    {
        const char *const given[] = {"x", "x:1", "reg:5000/x", "reg:5000/x:1", "x@sha256:00"};
        const char *const want[] = {"x:latest", "x:1", "reg:5000/x:latest", "reg:5000/x:1",
                                    "x@sha256:00"};
        for (size_t i = 0; i < 5; i++) {
            cleanup_free char *got = docker_image_reference(given[i]);
            ck_assert_str_eq(got, want[i]);
        }
        cleanup_json json_t *ours = json_pack("{s:s, s:s, s:s}", "io.meadow.cluster", "c1",
                                              "io.meadow.node", "n1", "io.meadow.attempt", "a1");
        ck_assert_str_eq(docker_own_attempt(&options, ours), "a1");
        (void)json_object_set_new(ours, "io.meadow.node", json_string("n2"));
        ck_assert_ptr_null(docker_own_attempt(&options, ours));
        ck_assert_ptr_null(docker_own_attempt(&options, NULL));
        cleanup_free char *filters = docker_filters(&options, false, true);
        ck_assert_str_eq(
            filters,
            "%7B%22label%22%3A%5B%22io.meadow.cluster%3Dc1%22%2C%22io.meadow.node%3Dn1%22%5D%7D");
    }
END_TEST

START_TEST(image_command)
    {
        cleanup_json json_t *image =
            json_loads("{\"Config\":{\"Entrypoint\":[\"a\"],\"Cmd\":[\"b\",\"c\"]}}", 0, NULL);
        cleanup_json json_t *empty =
            json_loads("{\"Config\":{\"Entrypoint\":null,\"Cmd\":null}}", 0, NULL);
        cleanup_json json_t *list = docker_image_command(image);
        ck_assert_uint_eq(json_array_size(list), 3);
        ck_assert_str_eq(item(list, 2), "c");
        ck_assert_ptr_null(docker_image_command(empty));
        ck_assert_ptr_null(docker_image_command(NULL));
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("api");
    tcase_add_test(t, body);
    tcase_add_test(t, host_network_names_the_node);
    tcase_add_test(t, versions);
    tcase_add_test(t, errors);
    tcase_add_test(t, references_and_labels);
    tcase_add_test(t, image_command);
    return run_case("docker_api", t);
}
