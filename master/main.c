// SPDX-License-Identifier: Apache-2.0
// meadow-master: reads its arguments and configuration, runs the master on a loop, tells its
// service manager how it goes.
#include "common/daemon.h"
#include "common/json_pool.h"
#include "common/log.h"
#include "master/backup/archive.h"
#include "master/master.h"
#include "proto/version.h"

#include <getopt.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct arguments {
    const char *config;
    const char *pid_file;
    bool check;
    const char *backup, *restore; // archives
};

static const char usage[] =
    "usage: meadow-master [--config FILE] [--check-config] [--pid-file FILE] [--version] [--help]\n"
    "       meadow-master [--config FILE] --backup FILE | --restore FILE\n"
    "\n"
    "The master of a meadow cluster: keeps the state, answers the API, places jobs.\n"
    "  --config FILE    configuration (default: built-in defaults; see master.yml.sample)\n"
    "  --check-config   read it, say what is wrong, and end\n"
    "  --pid-file FILE  write the process id there (over the configuration's pid_file)\n"
    "  --backup FILE    write a backup of the running master, keys included, and end\n"
    "  --restore FILE   lay a backup into the empty data folder, and end\n";

// 0 = go on, 1 = done (help, version), 2 = wrong usage.
static int parse(int argc, char **argv, struct arguments *a)
{
    static const struct option options[] = {
        {"config", required_argument, NULL, 'c'},   {"check-config", no_argument, NULL, 'k'},
        {"pid-file", required_argument, NULL, 'p'}, {"version", no_argument, NULL, 'v'},
        {"backup", required_argument, NULL, 'b'},   {"restore", required_argument, NULL, 'r'},
        {"help", no_argument, NULL, 'h'},           {NULL, 0, NULL, 0}};
    int c;
    while ((c = getopt_long(argc, argv, "c:h", options, NULL)) != -1) {
        switch (c) {
        case 'c':
            a->config = optarg;
            break;
        case 'k':
            a->check = true;
            break;
        case 'p':
            a->pid_file = optarg;
            break;
        case 'b':
            a->backup = optarg;
            break;
        case 'r':
            a->restore = optarg;
            break;
        case 'v':
            (void)puts("meadow-master " MEADOW_VERSION);
            return 1;
        case 'h':
            (void)fputs(usage, stdout);
            return 1;
        default:
            (void)fputs(usage, stderr);
            return 2;
        }
    }
    if (optind < argc) {
        (void)fprintf(stderr, "meadow-master: unexpected argument %s\n%s", argv[optind], usage);
        return 2;
    }
    return 0;
}

static void on_ended(int result, void *userdata)
{
    *(int *)userdata = result;
}

static int run(const struct master_config *config)
{
    uv_loop_t loop;
    struct master *m = NULL;
    struct err e = {""};
    int result = 0;
    if (uv_loop_init(&loop) < 0)
        return EXIT_FAILURE;
    int r = master_start(&loop, config, on_ended, &result, &m, &e);
    if (r < 0)
        log_error("master", "start: %s", e.text);
    (void)uv_run(&loop, UV_RUN_DEFAULT); // ends when every handle is closed
    master_free(m);
    (void)uv_loop_close(&loop);
    return r < 0 || result < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static int archive(const struct arguments *a, const struct master_config *config)
{
    struct err e = {""};
    int r =
        a->backup ? archive_write(config, a->backup, &e) : archive_restore(config, a->restore, &e);
    if (r == 0)
        return EXIT_SUCCESS;
    (void)fprintf(stderr, "%s\n", e.text);
    return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct arguments a = {0};
    struct master_config config;
    struct err e = {""};
    enum log_level level = LOG_LEVEL_INFO;
    json_pool_start();
    int r = parse(argc, argv, &a);
    if (r)
        return r == 2 ? 2 : EXIT_SUCCESS;
    if (master_config_load(a.config, &config, &e) < 0) {
        (void)fprintf(stderr, "meadow-master: %s\n", e.text);
        return EXIT_FAILURE;
    }
    if (a.check) {
        (void)puts("the configuration is good");
        master_config_free(&config);
        return EXIT_SUCCESS;
    }
    if (a.backup || a.restore) {
        r = archive(&a, &config);
        master_config_free(&config);
        return r;
    }
    if (a.pid_file) {
        free(config.pid_file);
        config.pid_file = strdup(a.pid_file);
    }
    if (log_level_from_string(config.log_level, &level) < 0)
        level = LOG_LEVEL_INFO; // the loader checked it
    log_setup("meadow-master", level);
    daemon_raise_files();
    (void)mallopt(M_ARENA_MAX, 1); // the loop's few helper threads don't contend for memory
    r = run(&config);
    master_config_free(&config);
    return r;
}
