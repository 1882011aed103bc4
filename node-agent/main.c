// SPDX-License-Identifier: Apache-2.0
// meadow-agent: options, configuration, loop.
#include "node-agent/agent.h"

#include "common/cleanup.h"
#include "common/daemon.h"
#include "common/log.h"
#include "proto/version.h"

#include <getopt.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define DEFAULT_CONFIG "/etc/meadow/agent.yml"
#define INSTALLED_INIT "/usr/lib/meadow/meadow-init"

struct program {
    const char *config_path; // NULL = defaults
    const char *pid_file;
    bool check_only;
    struct agent_config config;
    struct agent *agent;
};

static int usage(FILE *to, int code)
{
    (void)fprintf(
        to, "usage: meadow-agent [--config FILE] [--check-config] [--pid-file FILE] [--version]\n");
    return code;
}

// -1 = go on, else the exit status.
static int parse_options(int argc, char **argv, struct program *p)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},   {"check-config", no_argument, NULL, 'k'},
        {"pid-file", required_argument, NULL, 'p'}, {"version", no_argument, NULL, 'v'},
        {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
        if (c == 'c')
            p->config_path = optarg;
        else if (c == 'p')
            p->pid_file = optarg;
        else if (c == 'k')
            p->check_only = true;
        else if (c == 'v')
            return printf("meadow-agent %s\n", MEADOW_VERSION) < 0;
        else
            return c == 'h' ? usage(stdout, 0) : usage(stderr, 2);
    }
    if (optind < argc)
        return usage(stderr, 2);
    if (!p->config_path && access(DEFAULT_CONFIG, R_OK) == 0)
        p->config_path = DEFAULT_CONFIG;
    return -1;
}

static void find_init(const struct agent_config *c, char out[PATH_MAX])
{
    char self[PATH_MAX - 16];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    char *slash;

    if (c->init_path) {
        (void)snprintf(out, PATH_MAX, "%s", c->init_path);
        return;
    }
    self[n > 0 ? n : 0] = '\0';
    slash = strrchr(self, '/');
    if (slash) {
        *slash = '\0';
        (void)snprintf(out, PATH_MAX, "%s/meadow-init", self);
        if (access(out, X_OK) == 0)
            return;
    }
    (void)snprintf(out, PATH_MAX, "%s", INSTALLED_INIT);
}

static void on_stop(void *userdata)
{
    struct program *p = userdata;
    agent_stop(p->agent);
}

static void on_reload(void *userdata)
{
    struct program *p = userdata;
    struct agent_config fresh;
    enum log_level level;
    struct err e;

    if (agent_config_load(p->config_path, &fresh, &e) < 0) {
        log_error("agent", "reload: %s; nothing was changed", e.text);
        return;
    }
    if (log_level_from_string(fresh.log_level, &level) == 0)
        log_set_level(level);
    log_info("agent", "reloaded: log_level is %s; any other change needs a restart",
             fresh.log_level);
    agent_config_free(&fresh);
}

static int run(struct program *p)
{
    uv_loop_t loop;
    struct daemon *daemon = NULL;
    char init_path[PATH_MAX];
    struct err e;

    if (uv_loop_init(&loop) < 0)
        return 1;
    find_init(&p->config, init_path);
    struct daemon_options d = {.loop = &loop,
                               .pid_file = p->pid_file,
                               .stop = on_stop,
                               .reload = on_reload,
                               .userdata = p};
    int r = daemon_new(&d, &daemon, &e);
    if (r == 0) {
        struct agent_options o = {.loop = &loop,
                                  .config = &p->config,
                                  .init_path = init_path,
                                  .sysroot = "",
                                  .daemon = daemon};
        r = agent_start(&o, &p->agent, &e);
    }
    if (r == 0) {
        log_info("agent", "meadow-agent %s started as %s", MEADOW_VERSION, p->config.name);
        daemon_ready(daemon, "started");
    } else {
        log_error("agent", "%s", e.text);
        if (p->agent)
            agent_stop(p->agent);
    }
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    daemon_close(daemon);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    agent_free(p->agent);
    if (uv_loop_close(&loop) < 0)
        log_warn("agent", "handles were left open");
    return r < 0;
}

int main(int argc, char **argv)
{
    struct program p = {0};
    enum log_level level = LOG_LEVEL_INFO;
    struct err e;
    int code = parse_options(argc, argv, &p);

    if (code >= 0)
        return code;
    log_setup("meadow-agent", level);
    if (agent_config_load(p.config_path, &p.config, &e) < 0) {
        (void)fprintf(stderr, "meadow-agent: %s\n", e.text);
        return 1;
    }
    if (log_level_from_string(p.config.log_level, &level) == 0)
        log_set_level(level);
    (void)mallopt(M_ARENA_MAX, 1); // the few workers don't contend for memory
    (void)umask(022);
    daemon_raise_files();
    code =
        p.check_only ? printf("%s: ok\n", p.config_path ? p.config_path : "defaults") < 0 : run(&p);
    agent_config_free(&p.config);
    return code;
}
