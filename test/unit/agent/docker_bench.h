// SPDX-License-Identifier: Apache-2.0
// What tests of the Docker runtime share: a driver on the test's engine, its containers, specs with
// the test's image.
#pragma once

#include "test/unit/agent/dockerd_util.h"
#include "test/unit/agent/runtime_util.h"
#include "test/unit/suite.h"

#include <sys/prctl.h>

static char node_id[32];

UNUSED static void open_runtime(void)
{
    struct err e;
    ck_assert_msg(runtime_docker_new(&bench.o, &bench.rt, &e) == 0, "%s", e.text);
    (void)wait_for(SEEN_ENGINE, "");
    (void)wait_for(SEEN_LISTED, "");
}

UNUSED static void setup_closed(void)
{
    bench_init();
    (void)snprintf(node_id, sizeof(node_id), "n%d", (int)getpid());
    bench.o.node_id = node_id;
    bench.o.docker_socket = dockerd.socket;
}

UNUSED static void setup(void)
{
    setup_closed();
    open_runtime();
    ck_assert(last(SEEN_ENGINE, "")->status.has_exit);
}

UNUSED static size_t containers(void)
{
    static char out[1 << 20];
    char path[256];
    size_t n = 0;
    (void)snprintf(path, sizeof(path),
                   "/containers/json?all=1&filters={%%22label%%22:[%%22io.meadow.node=%s%%22]}",
                   node_id);
    ck_assert_int_eq(engine_call(out, sizeof(out), "GET", path), 0);
    for (const char *p = out; (p = strstr(p, "\"Id\":")); p++)
        n++;
    return n;
}

UNUSED static void teardown(void)
{
    bench_end();
    (void)shell(
        NULL, 0,
        "for c in $(curl -sS -g --unix-socket %s "
        "'http://e/containers/json?all=1&filters={%%22label%%22:[%%22io.meadow.node=%s%%22]}' | "
        "grep -o '\"Id\":\"[0-9a-f]*' | "
        "cut -c7-); do curl -sS --unix-socket %s -X DELETE \"http://e/containers/$c?force=1\"; "
        "done",
        dockerd.socket, node_id, dockerd.socket);
}

UNUSED static struct attempt_spec *image_spec(const char *id, const char *script)
{
    struct attempt_spec *s = make_spec(id, script);
    s->image = strdup(TEST_IMAGE);
    s->network = NETWORK_HOST;
    return s;
}

UNUSED static void start_image(const char *id, const char *script)
{
    start_spec(image_spec(id, script));
}

UNUSED static void remove_and_wait(const char *id)
{
    bench.rt->ops->remove(bench.rt, id);
    (void)wait_for(SEEN_REMOVED, id);
}

// Runs the suite made of `with_engine` (only when there can be one) and `without` (may be NULL).
UNUSED static int run_docker_suite(const char *name, TCase *with_engine, TCase *without)
{
    Suite *s = suite_create(name);
    if (without)
        suite_add_tcase(s, without);
    // A replaced engine must not become nobody's child.
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    bool possible = dockerd_start();
    tcase_add_checked_fixture(with_engine, setup, teardown);
    tcase_set_timeout(with_engine, 90);
    if (possible)
        suite_add_tcase(s, with_engine);
    int failed = run_suite(s);
    if (possible)
        dockerd_stop();
    return failed;
}
