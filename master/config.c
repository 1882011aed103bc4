// SPDX-License-Identifier: Apache-2.0
// The master's configuration as a table.
#include "master/config.h"

#include "common/cleanup.h"
#include "common/config.h"
#include "common/log.h"
#include "master/store/redis_address.h"

#include <inttypes.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>

#define CERT_MAX_MS INT64_C(315360000000) // ten years, as the CA's
#define AT(member) offsetof(struct master_config, member)

static const struct config_field fields[] = {
    {"name", CONFIG_STRING, AT(name), "meadow", 0, 0},
    {"data_dir", CONFIG_STRING, AT(data_dir), "/var/lib/meadow/master", 0, 0},
    {"run_dir", CONFIG_STRING, AT(run_dir), "/run/meadow", 0, 0},
    {"shared_data", CONFIG_STRING, AT(shared_data), "/var/lib/meadow/data", 0, 0},
    {"listen.address", CONFIG_STRING, AT(listen_address), "0.0.0.0", 0, 0},
    {"listen.port", CONFIG_INT, AT(listen_port), "7420", 0, 65535},
    {"socket_group", CONFIG_STRING, AT(socket_group), NULL, 0, 0},
    {"advertise", CONFIG_STRING, AT(advertise), NULL, 0, 0},
    {"names", CONFIG_STRING_LIST, AT(names), NULL, 0, 0},
    {"tls.cert", CONFIG_STRING, AT(tls_cert), NULL, 0, 0},
    {"tls.key", CONFIG_STRING, AT(tls_key), NULL, 0, 0},
    {"tls.ca", CONFIG_STRING, AT(tls_ca), NULL, 0, 0},
    {"tls.min_version", CONFIG_STRING, AT(tls_min_version), "1.3", 0, 0},
    {"certificates.node", CONFIG_DURATION_MS, AT(node_cert_ms), "90d", 3000, CERT_MAX_MS},
    {"certificates.server", CONFIG_DURATION_MS, AT(server_cert_ms), "90d", 3000, CERT_MAX_MS},
    {"pid_file", CONFIG_STRING, AT(pid_file), NULL, 0, 0},
    {"redis_url", CONFIG_STRING, AT(redis_url), NULL, 0, 0},
    {"redis_server", CONFIG_STRING, AT(redis_server), NULL, 0, 0},
    {"redis_pid_file", CONFIG_STRING, AT(redis_pid_file), NULL, 0, 0},
    {"redis_log", CONFIG_STRING, AT(redis_log), NULL, 0, 0},
    {"sync_interval", CONFIG_DURATION_MS, AT(sync_interval_ms), "2s", 200, 600000},
    {"lease", CONFIG_DURATION_MS, AT(lease_ms), "60s", 1000, 86400000},
    {"stop_lease", CONFIG_DURATION_MS, AT(stop_lease_ms), "10m", 0, 86400000},
    {"orphans", CONFIG_DURATION_MS, AT(orphans_ms), "1h", 0, 2592000000},
    {"default_resources.cpu", CONFIG_CPU, AT(default_cpu), "1", 0, 0},
    {"default_resources.memory", CONFIG_MEMORY, AT(default_memory), "1g", 0, 0},
    {"scheduling.half_life", CONFIG_DURATION_MS, AT(scheduling.half_life_ms), "7d", 60000,
     2073600000},
    {"scheduling.hold_after", CONFIG_DURATION_MS, AT(scheduling.hold_after_ms), "6h", 1000,
     2073600000},
    {"scheduling.assume_timeout", CONFIG_DURATION_MS, AT(scheduling.assume_timeout_ms), "0s", 0,
     2073600000},
    {"scheduling.node_tasks", CONFIG_INT, AT(scheduling.node_tasks), "0", 0, 100000},
    {"scheduling.parallel_level", CONFIG_INT, AT(scheduling.parallel_level), "0", 0, 1000000},
    {"scheduling.job_tasks", CONFIG_INT, AT(scheduling.job_tasks), "100000", 1, 100000},
    {"scheduling.max_priority.user", CONFIG_INT, AT(scheduling.max_priority[ROLE_USER]), "100", 0,
     100},
    {"scheduling.max_priority.operator", CONFIG_INT, AT(scheduling.max_priority[ROLE_OPERATOR]),
     "100", 0, 100},
    {"scheduling.max_priority.admin", CONFIG_INT, AT(scheduling.max_priority[ROLE_ADMIN]), "100", 0,
     100},
    {"history.jobs", CONFIG_INT, AT(history_jobs), "50000", 0, 100000000},
    {"history.logs", CONFIG_MEMORY, AT(history_logs), "20g", 0, 0},
    {"history.age", CONFIG_DURATION_MS, AT(history_age_ms), "90d", 0, CERT_MAX_MS},
    {"log_limit", CONFIG_MEMORY, AT(log_limit), "64m", 1 << 20, INT64_C(1) << 40},
    {"disk.warn", CONFIG_INT, AT(disk_warn_percent), "80", 1, 100},
    {"disk.full", CONFIG_INT, AT(disk_full_percent), "90", 1, 100},
    {"set_aside.failures", CONFIG_INT, AT(aside_failures), "3", 0, 1000000},
    {"set_aside.pause", CONFIG_DURATION_MS, AT(aside_pause_ms), "1m", 100, 86400000},
    {"set_aside.max_pause", CONFIG_DURATION_MS, AT(aside_max_pause_ms), "30m", 100, 86400000},
    {"max_connections", CONFIG_INT, AT(max_connections), "6000", 10, 1000000},
    {"sealed_rate", CONFIG_INT, AT(sealed_rate), "100", 1, 1000000},
    {"backup.every", CONFIG_DURATION_MS, AT(backup_every_ms), NULL, 0, 0},
    {"backup.keep", CONFIG_INT, AT(backup_keep), "7", 1, 10000},
    {"backup.to", CONFIG_STRING, AT(backup_to), NULL, 0, 0},
    {"limits.connections", CONFIG_INT, AT(limits.connections), "2000", 10, 1000000},
    {"limits.address_connections", CONFIG_INT, AT(limits.address_connections), "256", 0, 1000000},
    {"limits.handshakes", CONFIG_INT, AT(limits.handshakes), "1024", 16, 100000},
    {"limits.address_handshakes", CONFIG_INT, AT(limits.address_handshakes), "128", 0, 100000},
    {"limits.handshake_timeout", CONFIG_DURATION_MS, AT(limits.handshake_ms), "10s", 1000, 120000},
    {"limits.header_timeout", CONFIG_DURATION_MS, AT(limits.header_ms), "10s", 1000, 600000},
    {"limits.body_timeout", CONFIG_DURATION_MS, AT(limits.body_ms), "60s", 1000, 3600000},
    {"limits.idle_timeout", CONFIG_DURATION_MS, AT(limits.idle_ms), "2m", 1000, 3600000},
    {"limits.address_rate", CONFIG_INT, AT(limits.address_rate), "500", 0, 1000000},
    {"limits.address_burst", CONFIG_INT, AT(limits.address_burst), "2000", 1, 1000000},
    {"limits.identity_rate", CONFIG_INT, AT(limits.identity_rate), "200", 0, 1000000},
    {"limits.identity_burst", CONFIG_INT, AT(limits.identity_burst), "1000", 1, 1000000},
    {"log_level", CONFIG_STRING, AT(log_level), "info", 0, 0},
};

static int check_tls(const struct master_config *c, struct err *e)
{
    if (strcmp(c->tls_min_version, "1.3") != 0 && strcmp(c->tls_min_version, "1.2") != 0)
        return err_set(e, -EINVAL, "tls.min_version: expected \"1.3\" or \"1.2\", found \"%.40s\"",
                       c->tls_min_version);
    if (!c->tls_cert != !c->tls_key)
        return err_set(e, -EINVAL, "tls.%s: needed with tls.%s", c->tls_cert ? "key" : "cert",
                       c->tls_cert ? "cert" : "key");
    if (c->tls_cert && !c->tls_ca)
        return err_set(
            e, -EINVAL,
            "tls.ca: needed with tls.cert: agents and commands trust the cluster's CA and "
            "what stands in that file, nothing else");
    return 0;
}

// A password is for the master's eyes: as ssh does with keys, a file that others may read is
// refused.
static int check_redis(const char *path, const struct master_config *c, struct err *e)
{
    struct redis_address a = {0};
    struct stat st;
    int r = c->redis_url ? redis_address_parse(c->redis_url, &a, e) : 0;
    bool secret = a.password != NULL;
    redis_address_free(&a);
    if (r < 0)
        return err_wrap(e, r, "redis_url");
    if (secret && stat(path, &st) == 0 && st.st_mode & S_IRWXO)
        return err_set(e, -EACCES,
                       "%s holds the password of redis_url, but anybody may read it: "
                       "chmod o-rwx %s",
                       path, path);
    if (c->redis_url && c->backup_to)
        return err_set(e, -EINVAL,
                       "backup: is for the master's own Redis: with redis_url back up that "
                       "server with its own tools, and identity/ of data_dir");
    return 0;
}

int master_config_load(const char *path, struct master_config *ret, struct err *e)
{
    enum log_level level;
    struct master_config c = {0};
    int r = config_load(path, fields, ARRAY_SIZE(fields), &c, e);
    if (r < 0)
        return r;
    r = check_tls(&c, e);
    if (r == 0)
        r = check_redis(path, &c, e);
    if (r < 0) {
        master_config_free(&c);
        return r;
    }
    if (log_level_from_string(c.log_level, &level) < 0) {
        r = err_set(e, -EINVAL, "log_level: expected error, warn, info or debug, found \"%.40s\"",
                    c.log_level);
        master_config_free(&c);
        return r;
    }
    if ((c.backup_every_ms > 0) != (c.backup_to != NULL)) {
        r = err_set(e, -EINVAL, "backup: `every` and `to` (a folder) go together");
        master_config_free(&c);
        return r;
    }
    c.path = path;
    int64_t least = 4 * c.sync_interval_ms + 5000;
    if (c.lease_ms < least) {
        r = err_set(e, -EINVAL,
                    "lease: expected at least four times sync_interval and 5s (%" PRId64 " ms)",
                    least);
        master_config_free(&c);
        return r;
    }
    *ret = c;
    return 0;
}

void master_config_reload(const struct master_config *c)
{
    struct master_config fresh;
    struct err e = {""};
    enum log_level level;
    if (master_config_load(c->path, &fresh, &e) < 0) {
        log_error("config", "reload: %s; nothing of it was applied", e.text);
        return;
    }
    if (log_level_from_string(fresh.log_level, &level) == 0)
        log_set_level(level);
    log_info("config", "reloaded: log_level is %s; any other change needs a restart",
             fresh.log_level);
    master_config_free(&fresh);
}

void master_config_free(struct master_config *c)
{
    config_free(fields, ARRAY_SIZE(fields), c);
}
