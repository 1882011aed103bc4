// SPDX-License-Identifier: Apache-2.0
// GPUs with the stub library: cards, "N/A", a driver that is not loaded, a library that hangs;
// simulated cards; AMD by a sysroot.
#include "node-agent/hardware/gpu.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

static char top[] = "/tmp/meadow-gpu-XXXXXX";
static char library[64];
static uv_loop_t loop;
static unsigned changes;

static void build_stub(void)
{
    char command[256];
    const char *cc = getenv("CC");

    ck_assert_ptr_nonnull(mkdtemp(top));
    (void)snprintf(library, sizeof(library), "%s/libnvml_stub.so", top);
    (void)snprintf(command, sizeof(command), "%s -shared -fPIC -o %s test/lib/nvml_stub.c",
                   cc ? cc : "cc", library);
    ck_assert_msg(system(command) == 0, "%s", command);
}

static void remove_stub(void)
{
    struct err e;
    ck_assert_int_eq(remove_tree(top, &e), 0);
}

static void set(const char *name, const char *value)
{
    ck_assert_int_eq(setenv(name, value, 1), 0);
}

START_TEST(nvml_cards)
    {
        struct nvml *nvml = NULL;
        struct gpu_list list;

        set("STUB_GPUS", "3");
        ck_assert_int_eq(gpu_nvml_probe(&nvml, library, &list), 0);
        ck_assert_uint_eq(list.n, 3);
        ck_assert_str_eq(list.items[2].name, "Stub GPU");
        ck_assert_ptr_nonnull(strstr(list.items[2].uuid, "GPU-stub-"));
        ck_assert_str_ne(list.items[1].uuid, list.items[2].uuid);
        ck_assert_int_eq(list.items[0].memory, INT64_C(16) << 30);
        ck_assert_int_eq(list.items[0].utilization, 37);
        ck_assert_int_eq(list.items[0].temperature, 61);
        set("STUB_NA", "1");
        ck_assert_int_eq(gpu_nvml_probe(&nvml, library, &list), 0);
        ck_assert_uint_eq(list.n, 3);
        ck_assert_int_eq(list.items[0].utilization, -1);
        ck_assert_int_eq(list.items[0].memory, 0);
        cleanup_json json_t *usage = gpu_list_usage_to_json(&list);
        ck_assert(json_is_null(json_object_get(json_array_get(usage, 0), "temperature")));
        gpu_nvml_close(nvml);
    }
END_TEST

START_TEST(nvml_failures)
    {
        struct nvml *nvml = NULL;
        struct gpu_list list;

        ck_assert_int_eq(gpu_nvml_probe(&nvml, "/nonexistent.so", &list), -ENOENT);
        ck_assert_ptr_null(nvml);
        ck_assert_int_eq(gpu_nvml_probe(&nvml, "libjansson.so.4", &list),
                         -EIO); // no such functions in it
        gpu_nvml_close(TAKE_PTR(nvml));
        set("STUB_INIT", "9");
        ck_assert_int_eq(gpu_nvml_probe(&nvml, library, &list), -ENOENT);
        set("STUB_INIT", "15");
        ck_assert_int_eq(gpu_nvml_probe(&nvml, library, &list), -EIO);
        ck_assert_ptr_nonnull(strstr(list.reason, "GPU state unknown"));
        ck_assert_ptr_nonnull(strstr(list.reason, "GPU is lost"));
        set("STUB_INIT", "0");
        set("STUB_COUNT_FAIL", "1");
        ck_assert_int_eq(gpu_nvml_probe(&nvml, library, &list), -EIO);
        ck_assert_ptr_null(nvml); // begins anew next time
        set("STUB_COUNT_FAIL", "0");
        ck_assert_int_eq(gpu_nvml_probe(&nvml, library, &list), 0);
        gpu_nvml_close(nvml);
    }
END_TEST

static void changed(void *userdata)
{
    (void)userdata;
    changes++;
    uv_stop(&loop);
}

static void late(uv_timer_t *timer)
{
    (void)timer;
    ck_abort_msg("no answer from the probe");
}

static struct gpu_probe *probe(const char *lib, int64_t configured, unsigned timeout_ms)
{
    struct gpu_probe *p = NULL;
    struct err e;
    struct gpu_probe_options o = {.loop = &loop,
                                  .nvml_library = lib,
                                  .sysroot = top,
                                  .configured = configured,
                                  .timeout_ms = timeout_ms,
                                  .changed = changed};
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_msg(gpu_probe_new(&o, &p, &e) == 0, "%s", e.text);
    return p;
}

static void wait_for_change(void)
{
    uv_timer_t bound;
    (void)uv_timer_init(&loop, &bound);
    (void)uv_timer_start(&bound, late, 20000, 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&bound, NULL);
    (void)uv_run(&loop, UV_RUN_NOWAIT); // before the handle leaves the stack
}

static void finish(struct gpu_probe *p)
{
    gpu_probe_close(p);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0)
        ;
    ck_assert_int_eq(uv_loop_close(&loop), 0);
}

START_TEST(probe_finds_and_bounds)
    {
        struct gpu_probe *p = probe(library, 1, 0);
        wait_for_change();
        ck_assert_uint_eq(gpu_probe_list(p)->n, 1); // of two, as configured
        ck_assert(!gpu_probe_list(p)->simulated);
        finish(p);
    }
END_TEST

START_TEST(probe_simulates_without_cards)
    {
        struct gpu_probe *p = probe("/nonexistent.so", 3, 0);
        wait_for_change();
        ck_assert_uint_eq(gpu_probe_list(p)->n, 3);
        ck_assert(gpu_probe_list(p)->simulated);
        ck_assert_str_eq(gpu_probe_list(p)->items[2].uuid, "simulated-2");
        finish(p);
        p = probe("/nonexistent.so", -1, 0);
        wait_for_change();
        ck_assert_uint_eq(gpu_probe_list(p)->n, 0);
        ck_assert_str_eq(gpu_probe_list(p)->reason, "no NVIDIA driver here");
        finish(p);
        p = probe(library, 0, 0); // none wanted: not even looked at
        ck_assert_uint_eq(gpu_probe_list(p)->n, 0);
        finish(p);
    }
END_TEST

START_TEST(hanging_library_stops_nobody)
    {
        set("STUB_HANG", "1");
        struct gpu_probe *p = probe(library, 2, 50);
        wait_for_change();
        ck_assert_uint_eq(gpu_probe_list(p)->n, 0);
        ck_assert_ptr_nonnull(strstr(gpu_probe_list(p)->reason, "GPU state unknown"));
        gpu_probe_refresh(p); // the hanging thread is the only one there ever is
        finish(p);
    }
END_TEST

static void put(const char *leaf, const char *text)
{
    char path[256];
    struct err e;
    (void)snprintf(path, sizeof(path), "%s/sys/class/drm/%s", top, leaf);
    *strrchr(path, '/') = '\0';
    ck_assert_int_eq(make_dirs(path, 0700, &e), 0);
    path[strlen(path)] = '/';
    ck_assert_int_eq(atomic_file_write(path, text, strlen(text), 0600, &e), 0);
}

START_TEST(amd_by_sysfs)
    {
        struct gpu_list list;

        ck_assert_int_eq(gpu_amd_probe(top, &list), -ENOENT);
        put("card0/device/vendor", "0x8086\n");
        put("card1/device/vendor", "0x1002\n");
        put("card1/device/unique_id", "abc123\n");
        put("card1/device/mem_info_vram_total", "17179869184\n");
        put("card1/device/gpu_busy_percent", "12\n");
        put("card1/device/hwmon/hwmon3/temp1_input", "54000\n");
        put("card1-DP-1/device/vendor", "0x1002\n");
        ck_assert_int_eq(gpu_amd_probe(top, &list), 0);
        ck_assert_uint_eq(list.n, 1);
        ck_assert_str_eq(list.items[0].uuid, "GPU-abc123");
        ck_assert_int_eq(list.items[0].memory, INT64_C(17179869184));
        ck_assert_int_eq(list.items[0].memory_used, -1);
        ck_assert_int_eq(list.items[0].utilization, 12);
        ck_assert_int_eq(list.items[0].temperature, 54);
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("gpu");
    tcase_set_timeout(tc, 30);
    tcase_add_checked_fixture(tc, build_stub, remove_stub);
    tcase_add_test(tc, nvml_cards);
    tcase_add_test(tc, nvml_failures);
    tcase_add_test(tc, probe_finds_and_bounds);
    tcase_add_test(tc, probe_simulates_without_cards);
    tcase_add_test(tc, hanging_library_stops_nobody);
    tcase_add_test(tc, amd_by_sysfs);
    return run_case("gpu", tc);
}
