// SPDX-License-Identifier: Apache-2.0
// What the master learns about this machine.
#include "node-agent/node_report.h"

#include "common/json.h"
#include "proto/version.h"

#include <string.h>

int64_t node_total_cpu_milli(const char *sysroot)
{
    struct hardware_cpu cpu;

    hardware_cpu(sysroot, &cpu);
    return (int64_t)cpu.count * 1000;
}

static json_t *resources(const struct node_facts *f, const struct hardware_memory *memory)
{
    const struct agent_config *c = f->config;
    json_t *j = json_object();

    json_put_i64(j, "cpu",
                 c->cpu_milli == AGENT_ALL ? node_total_cpu_milli(f->sysroot) : c->cpu_milli);
    json_put_i64(j, "memory", c->memory == AGENT_ALL ? memory->total : c->memory);
    json_put_i64(j, "gpu", (int64_t)f->gpus->n);
    return j;
}

static json_t *engine(const struct node_facts *f)
{
    json_t *j = f->engine_info ? json_deep_copy(f->engine_info) : json_object();

    json_put_bool(j, "ok", f->engine == ENGINE_UP);
    json_put_str(j, "reason", f->engine_reason);
    return j;
}

static json_t *labels(char *const *list)
{
    json_t *j = json_object();

    for (char *const *p = list; p && *p; p++) {
        const char *equals = strchr(*p, '=');
        (void)json_object_setn_new(j, *p, (size_t)(equals - *p), json_string(equals + 1));
    }
    return j;
}

static void put_hardware(json_t *j, const struct node_facts *f)
{
    struct hardware_cpu cpu;
    struct hardware_memory memory;
    struct hardware_disk disk;

    hardware_cpu(f->sysroot, &cpu);
    hardware_memory(f->sysroot, &memory);
    hardware_disk(f->config->state_dir, &disk);
    json_put_i64(j, "cpus", cpu.count);
    json_put_str(j, "cpu_model", cpu.model);
    json_put_i64(j, "memory", memory.total);
    json_t *room = json_object();
    json_put_i64(room, "total", disk.total);
    json_put_i64(room, "free", disk.free);
    json_put(j, "disk", room);
    json_put(j, "gpus", gpu_list_to_json(f->gpus));
    json_put_str(j, "gpu_reason", f->gpus->reason);
    json_put(j, "resources", resources(f, &memory));
}

static void put_system(json_t *j, const struct node_facts *f)
{
    struct hardware_system s;

    hardware_system(f->sysroot, &s);
    json_put_str(j, "hostname", s.hostname);
    json_put_str(j, "kernel", s.kernel);
    json_put_str(j, "os", s.os);
    json_put_str(j, "machine_id", s.machine_id);
}

json_t *node_report(const struct node_facts *f)
{
    json_t *j = json_object();
    json_t *ports = json_object();

    put_system(j, f);
    json_put_str(j, "address", f->address);
    json_put_str(j, "agent_version", MEADOW_VERSION);
    json_put_str(j, "runtime", f->config->runtime);
    put_hardware(j, f);
    json_put(j, "engine", engine(f));
    json_put_i64(ports, "first", f->config->ports_first);
    json_put_i64(ports, "count", f->config->ports_count);
    json_put(j, "ports", ports);
    json_put(j, "labels", labels(f->config->labels));
    json_put_bool(j, "ready", f->engine == ENGINE_UP);
    json_put_str(j, "reason",
                 f->engine == ENGINE_UP     ? ""
                 : f->engine == ENGINE_DOWN ? f->engine_reason
                                            : "the agent is starting");
    return j;
}

json_t *node_usage(const struct node_facts *f, struct cpu_sample *last_cpu, json_t *tasks)
{
    json_t *j = json_object();
    struct cpu_sample cpu;
    struct hardware_memory memory;
    struct hardware_disk disk;
    struct hardware_net net;

    hardware_cpu_sample(f->sysroot, &cpu);
    hardware_memory(f->sysroot, &memory);
    hardware_disk(f->config->state_dir, &disk);
    hardware_net(f->sysroot, &net);
    json_put(j, "cpu_percent", json_real(hardware_cpu_percent(last_cpu, &cpu)));
    *last_cpu = cpu;
    json_put_i64(j, "memory_used", memory.total - memory.available);
    json_put(j, "load1", json_real(hardware_load1(f->sysroot)));
    json_put_i64(j, "disk_free", disk.free);
    json_put_i64(j, "net_rx", (int64_t)net.rx);
    json_put_i64(j, "net_tx", (int64_t)net.tx);
    json_put(j, "gpus", gpu_list_usage_to_json(f->gpus));
    json_put(j, "tasks", tasks ? tasks : json_object());
    return j;
}
