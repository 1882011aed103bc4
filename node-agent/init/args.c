// SPDX-License-Identifier: Apache-2.0
// Reads the command line by a table: every option takes one value, "--" ends them and the command
// follows.
#include "node-agent/init/args.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define GRACE_DEFAULT_MS 10000
#define LOG_LIMIT_DEFAULT (64 << 20)
#define LOG_LIMIT_MIN 4096
#define HEALTH_INTERVAL_MS 10000
#define HEALTH_TIMEOUT_MS 5000
#define HEALTH_RETRIES 3

static int parse_number(const char *text, int64_t min, int64_t max, int64_t *ret)
{
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (errno || end == text || *end || n < min || n > max)
        return -EINVAL;
    *ret = n;
    return 0;
}

static const char *set_text(struct init_args *a, const char *name, const char *value)
{
    if (strcmp(name, "--out") == 0)
        a->out = value;
    else if (strcmp(name, "--lease") == 0)
        a->lease = value;
    else if (strcmp(name, "--attempt") == 0)
        a->attempt = value;
    else if (strcmp(name, "--boot-id") == 0)
        a->boot_id = value;
    else if (strcmp(name, "--environment") == 0)
        a->environment = value;
    else if (strcmp(name, "--delegated") == 0)
        a->delegated = strcmp(value, "yes") == 0;
    else if (strcmp(name, "--chdir") == 0)
        a->chdir = value;
    else if (strcmp(name, "--health-path") == 0)
        a->health_path = value;
    else if (strcmp(name, "--health-arg") == 0 && a->n_health_command == INIT_HEALTH_ARGS_MAX)
        return "too many --health-arg";
    else if (strcmp(name, "--health-arg") == 0)
        a->health_command[a->n_health_command++] = value;
    else if (strcmp(name, "--cgroup") != 0)
        return "unknown option";
    else if (a->n_cgroups == INIT_CGROUPS_MAX)
        return "too many --cgroup";
    else
        a->cgroups[a->n_cgroups++] = value;
    return NULL;
}

static const char *set_option(struct init_args *a, const char *name, const char *value)
{
    int64_t signo = a->stop_signal, fd = a->lock_fd;
    int64_t keep = (int64_t)a->keep_capabilities;
    const struct {
        const char *name;
        int64_t min, max;
        int64_t *target;
    } numbers[] = {
        {"--stop-signal", 1, SIGRTMAX, &signo},
        {"--grace", 0, INT64_MAX / 2, &a->grace_ms},
        {"--timeout", 0, INT64_MAX / 2, &a->timeout_ms},
        {"--log-limit", 0, INT64_MAX / 2, &a->log_limit},
        {"--echo", 0, INT64_MAX / 2, &a->echo},
        {"--uid", 0, UINT32_MAX - 1, &a->uid},
        {"--gid", 0, UINT32_MAX - 1, &a->gid},
        {"--keep-capabilities", 0, INT64_MAX, &keep},
        {"--lock-fd", 0, 65535, &fd},
        {"--health-port", 1, 65535, &a->health_port},
        {"--health-interval", 1, INT32_MAX, &a->health_interval_ms},
        {"--health-timeout", 1, INT32_MAX, &a->health_timeout_ms},
        {"--health-start-period", 0, INT32_MAX, &a->health_start_period_ms},
        {"--health-retries", 1, INT32_MAX, &a->health_retries},
    };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        if (strcmp(name, numbers[i].name) != 0)
            continue;
        if (parse_number(value, numbers[i].min, numbers[i].max, numbers[i].target) < 0)
            return "an option has a bad number";
        a->stop_signal = (int)signo;
        a->lock_fd = (int)fd;
        a->keep_capabilities = (uint64_t)keep;
        return NULL;
    }
    return set_text(a, name, value);
}

bool init_args_have_health(const struct init_args *a)
{
    return a->n_health_command > 0 || a->health_port > 0;
}

const char *init_args_parse(int argc, char **argv, struct init_args *ret)
{
    struct init_args a = {
        .stop_signal = SIGTERM,
        .grace_ms = GRACE_DEFAULT_MS,
        .log_limit = LOG_LIMIT_DEFAULT,
        .uid = -1,
        .gid = -1,
        .lock_fd = -1,
        .health_path = "/",
        .health_interval_ms = HEALTH_INTERVAL_MS,
        .health_timeout_ms = HEALTH_TIMEOUT_MS,
        .health_retries = HEALTH_RETRIES,
    };
    int i = 1;
    for (; i < argc && strcmp(argv[i], "--") != 0; i += 2) {
        if (i + 1 >= argc)
            return "an option lacks its value";
        const char *wrong = set_option(&a, argv[i], argv[i + 1]);
        if (wrong)
            return wrong;
    }
    if (i + 1 >= argc)
        return "no command (-- CMD ARGS...)";
    if (!a.out || !a.attempt)
        return "--out and --attempt are needed";
    if (a.log_limit == 0)
        a.log_limit = LOG_LIMIT_DEFAULT;
    else if (a.log_limit < LOG_LIMIT_MIN)
        a.log_limit = LOG_LIMIT_MIN;
    a.command = argv + i + 1;
    *ret = a;
    return NULL;
}
