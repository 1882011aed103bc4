// SPDX-License-Identifier: Apache-2.0
// Probes on a made-up sysroot and on this machine; missing files give zeroes.
#include "node-agent/hardware/hardware.h"
#include "node-agent/node_report.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "node-agent/address.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>

static char top[] = "/tmp/meadow-hw-XXXXXX";

static void setup(void)
{
    ck_assert_ptr_nonnull(mkdtemp(top));
}

static void teardown(void)
{
    struct err e;
    ck_assert_int_eq(remove_tree(top, &e), 0);
}

static void put(const char *leaf, const char *text)
{
    char path[256];
    struct err e;
    (void)snprintf(path, sizeof(path), "%s%s", top, leaf);
    *strrchr(path, '/') = '\0';
    ck_assert_int_eq(make_dirs(path, 0700, &e), 0);
    path[strlen(path)] = '/';
    ck_assert_int_eq(atomic_file_write(path, text, strlen(text), 0600, &e), 0);
}

START_TEST(cpu)
    {
        struct hardware_cpu c;
        struct cpu_sample before;
        struct cpu_sample now;

        put("/proc/cpuinfo", "processor\t: 0\nmodel name\t: Fast CPU @ 3\n\nprocessor\t: 1\nmodel "
                             "name\t: Fast CPU @ 3\n");
        hardware_cpu(top, &c);
        ck_assert_int_eq(c.count, 2);
        ck_assert_str_eq(c.model, "Fast CPU @ 3");
        put("/proc/stat", "cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 1 1 1 1\n");
        hardware_cpu_sample(top, &before);
        put("/proc/stat", "cpu  60 0 10 130 0 0 0 0 0 0\n");
        hardware_cpu_sample(top, &now);
        ck_assert_double_eq_tol(hardware_cpu_percent(&before, &now), 50.0, 0.01);
        ck_assert_double_eq_tol(hardware_cpu_percent(&now, &now), 0.0, 0.01);
    }
END_TEST

START_TEST(memory_and_cgroup)
    {
        struct hardware_memory m;

        put("/proc/meminfo", "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    400 kB\n");
        hardware_memory(top, &m);
        ck_assert_int_eq(m.total, 1024000);
        ck_assert_int_eq(m.available, 409600);
        put("/sys/fs/cgroup/memory.max", "max\n");
        hardware_memory(top, &m);
        ck_assert_int_eq(m.total, 1024000);
        put("/sys/fs/cgroup/memory.max", "300000\n");
        hardware_memory(top, &m);
        ck_assert_int_eq(m.total, 300000);
        ck_assert_int_eq(m.available, 300000);
    }
END_TEST

START_TEST(net_and_load)
    {
        struct hardware_net n;

        put("/proc/net/dev",
            "Inter-|   Receive                                                |  Transmit\n"
            " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets "
            "errs\n"
            "    lo: 999 1 0 0 0 0 0 0 999 1 0 0 0 0 0 0\n"
            "  eth0:100 1 0 0 0 0 0 0 200 1 0 0 0 0 0 0\n"
            "veth12: 50 1 0 0 0 0 0 0 50 1 0 0 0 0 0 0\n"
            "  eth1: 10 1 0 0 0 0 0 0 20 1 0 0 0 0 0 0\n");
        hardware_net(top, &n);
        ck_assert_uint_eq(n.rx, 110);
        ck_assert_uint_eq(n.tx, 220);
        put("/proc/loadavg", "1.25 0.5 0.1 1/100 1234\n");
        ck_assert_double_eq_tol(hardware_load1(top), 1.25, 0.001);
    }
END_TEST

START_TEST(system_names)
    {
        struct hardware_system s;

        put("/etc/os-release", "ID=debian\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n");
        put("/etc/machine-id", "0123456789abcdef0123456789abcdef\n");
        put("/proc/sys/kernel/random/boot_id", "11111111-2222-3333-4444-555555555555\n");
        put("/proc/sys/kernel/osrelease", "6.1.0-test\n");
        hardware_system(top, &s);
        ck_assert_str_eq(s.os, "Debian GNU/Linux 12 (bookworm)");
        ck_assert_str_eq(s.machine_id, "0123456789abcdef0123456789abcdef");
        ck_assert_str_eq(s.boot_id, "11111111-2222-3333-4444-555555555555");
        ck_assert_str_eq(s.kernel, "6.1.0-test");
    }
END_TEST

START_TEST(nothing_there)
    {
        struct hardware_memory m;
        struct hardware_net n;
        struct hardware_cpu c;
        struct hardware_disk d;
        struct cpu_sample sample;

        hardware_memory(top, &m);
        hardware_net(top, &n);
        hardware_cpu(top, &c);
        hardware_cpu_sample(top, &sample);
        hardware_disk("/nonexistent", &d);
        ck_assert_int_eq(m.total, 0);
        ck_assert_uint_eq(n.rx, 0);
        ck_assert_int_ge(c.count, 1);
        ck_assert_uint_eq(sample.total, 0);
        ck_assert_int_eq(d.total, 0);
        ck_assert_double_eq_tol(hardware_load1(top), 0, 0.001);
    }
END_TEST

START_TEST(report_of_this_machine)
    {
        static char label[] = "zone=a";
        static char *label_list[] = {label, NULL};
        static char runtime[] = "process";
        struct gpu_list gpus;
        struct agent_config config = {.cpu_milli = AGENT_ALL,
                                      .memory = AGENT_ALL,
                                      .gpu = 2,
                                      .runtime = runtime,
                                      .state_dir = top,
                                      .labels = label_list,
                                      .ports_first = 20000,
                                      .ports_count = 100};
        struct cpu_sample last = {0, 0};

        gpu_simulate(2, &gpus);
        struct node_facts f = {.config = &config,
                               .sysroot = "",
                               .address = "10.0.0.1",
                               .gpus = &gpus,
                               .engine = ENGINE_DOWN,
                               .engine_reason = "no daemon"};
        cleanup_json json_t *j = node_report(&f);
        const json_t *resources = json_object_get(j, "resources");
        ck_assert_int_ge(json_opt_i64(resources, "cpu", 0), 1000);
        ck_assert_int_gt(json_opt_i64(resources, "memory", 0), 0);
        ck_assert_int_eq(json_opt_i64(resources, "gpu", 0), 2);
        ck_assert_str_eq(json_opt_str(json_object_get(j, "labels"), "zone", ""), "a");
        ck_assert(!json_opt_bool(j, "ready", true));
        ck_assert_str_eq(json_opt_str(j, "reason", ""), "no daemon");
        cleanup_json json_t *u = node_usage(&f, &last, NULL);
        ck_assert_int_gt(json_opt_i64(u, "disk_free", 0), 0);
        ck_assert_uint_eq(json_array_size(json_object_get(u, "gpus")), 2);
        ck_assert_uint_gt(last.total, 0);
    }
END_TEST

static void take_address(const char *address, void *userdata)
{
    (void)snprintf(userdata, ADDRESS_BYTES, "%s", address);
}

START_TEST(urls_and_addresses)
    {
        char host[64];
        char port[8];
        char found[ADDRESS_BYTES] = "?";
        struct err e;
        uv_loop_t loop;

        ck_assert_int_eq(
            address_split_url("https://master.lan:7420/x", host, sizeof(host), port, &e), 0);
        ck_assert_str_eq(host, "master.lan");
        ck_assert_str_eq(port, "7420");
        ck_assert_int_eq(address_split_url("https://[::1]:80", host, sizeof(host), port, &e), 0);
        ck_assert_str_eq(host, "::1");
        ck_assert_str_eq(port, "80");
        ck_assert_int_eq(address_split_url("https://h", host, sizeof(host), port, &e), 0);
        ck_assert_str_eq(port, "443");
        ck_assert_int_eq(address_split_url("https://:1", host, sizeof(host), port, &e), -EINVAL);
        ck_assert_int_eq(address_split_url("https://[::1", host, sizeof(host), port, &e), -EINVAL);
        ck_assert_int_eq(uv_loop_init(&loop), 0);
        ck_assert_int_eq(address_find(&loop, "https://127.0.0.1:7420", take_address, found, &e), 0);
        (void)uv_run(&loop, UV_RUN_DEFAULT);
        ck_assert_str_eq(found, "127.0.0.1");
        ck_assert_int_eq(uv_loop_close(&loop), 0);
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("hardware");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, cpu);
    tcase_add_test(tc, memory_and_cgroup);
    tcase_add_test(tc, net_and_load);
    tcase_add_test(tc, system_names);
    tcase_add_test(tc, nothing_there);
    tcase_add_test(tc, report_of_this_machine);
    tcase_add_test(tc, urls_and_addresses);
    return run_case("hardware", tc);
}
