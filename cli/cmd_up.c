// SPDX-License-Identifier: Apache-2.0
// meadow up: options, then the steps in order: folder and lock, nodes planned, master, agents, all
// ready, context. Each step does only what is not done, so running it again repairs.
#include "cli/up.h"

#include "cli/commands.h"
#include "cli/context.h"
#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "common/units.h"

#include <dirent.h>
#include <string.h>
#include <sys/stat.h>

// --- options ---

static int check_sizes(const struct up_options *o, struct err *e)
{
    int64_t ignored;
    char *end;

    if (o->runtime && strcmp(o->runtime, "process") != 0 && strcmp(o->runtime, "docker") != 0)
        return err_set(e, -EINVAL, "--runtime: expected process or docker, found \"%.40s\"",
                       o->runtime);
    if (o->cpu && units_parse_cpu(o->cpu, &ignored, e) < 0)
        return err_wrap(e, -EINVAL, "--cpu");
    if (o->memory && units_parse_memory(o->memory, &ignored, e) < 0)
        return err_wrap(e, -EINVAL, "--memory");
    if (!o->gpu)
        return 0;
    long gpus = strtol(o->gpu, &end, 10);
    return *o->gpu == '\0' || *end || gpus < 0 || gpus > 64
               ? err_set(e, -EINVAL, "--gpu: expected a number from 0 to 64, found \"%.40s\"",
                         o->gpu)
               : 0;
}

static int read_options(const struct args *args, struct up_options *o, struct err *e)
{
    long nodes = 0, port = 0, level = -1;
    const char *engine = getenv("DOCKER_HOST");
    const char *dir = getenv("MEADOW_DIR");

    *o = (struct up_options){.dir = args_value(args, "dir"),
                             .runtime = args_value(args, "runtime"),
                             .cpu = args_value(args, "cpu"),
                             .memory = args_value(args, "memory"),
                             .gpu = args_value(args, "gpu"),
                             .docker_socket = args_value(args, "docker-socket")};
    if (args_number(args, "nodes", 1, UP_NODES_MAX, &nodes, e) < 0 ||
        args_number(args, "port", 1, 65535, &port, e) < 0 ||
        args_number(args, "parallel-level", 0, 1000000, &level, e) < 0)
        return -EINVAL;
    o->nodes = (int)nodes;
    o->port = (int)port;
    o->parallel_level = (int)level;
    if (!o->docker_socket && engine && strncmp(engine, "unix://", 7) == 0)
        o->docker_socket = engine + 7;
    if (!o->dir && dir && dir[0])
        o->dir = dir;
    o->dir_given = o->dir != NULL;
    return check_sizes(o, e);
}

// --- the folder ---

static bool is_empty(const char *dir)
{
    DIR *d = opendir(dir);
    const struct dirent *x;
    bool empty = true;

    while (d && (x = readdir(d)))
        if (strcmp(x->d_name, ".") != 0 && strcmp(x->d_name, "..") != 0 &&
            strcmp(x->d_name, "up.lock") != 0)
            empty = false;
    if (d)
        (void)closedir(d);
    return empty;
}

static int make_folders(const struct local *l, struct err *e)
{
    static const struct {
        const char *leaf;
        mode_t mode;
    } folders[] = {{"log", 0750}, {"run", 0700}, {"data", 0755}};
    int r = 0;

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(folders); i++) {
        cleanup_free char *path = local_path(l, folders[i].leaf);
        r = make_dirs(path, folders[i].mode, e);
    }
    return r;
}

// Folder, lock, state. Exit status.
static int open_folder(struct cli *cli, struct local *l, const struct up_options *o, int *ret_lock)
{
    struct err e = {""};
    struct stat st;
    cleanup_free char *mark = local_path(l, "local.json");

    (void)cli;
    if (strlen(l->dir) > LOCAL_DIR_MAX)
        return cli_failf(CLI_FAILED, UP_WHAT, "choose a shorter --dir",
                         "%s: longer than %d characters, too long for sockets", l->dir,
                         LOCAL_DIR_MAX);
    if (stat(l->dir, &st) == 0 && stat(mark, &st) < 0 && !is_empty(l->dir))
        return cli_failf(CLI_FAILED, UP_WHAT, "choose an empty or new --dir",
                         "%s holds other things", l->dir);
    int r = make_dirs(l->dir, 0700, &e);
    if (r == 0)
        r = local_lock(l, ret_lock, &e);
    if (r == 0)
        r = up_plan_nodes(l, o, &e);
    if (r == 0)
        r = make_folders(l, &e);
    return r < 0 ? cli_fail(CLI_FAILED, UP_WHAT, e.text, NULL) : CLI_OK;
}

// --- telling ---

static void set_context(const struct local *l, bool dir_given)
{
    struct err e = {""};
    cleanup_free char *file = context_file();
    cleanup_json json_t *all = NULL;

    if (!file)
        return;
    int r = context_load(file, &all, &e);
    bool none = r == 0 && json_object_size(json_object_get(all, "contexts")) == 0;
    if (r == 0 && (!dir_given || none))
        r = context_set_dir(file, "local", l->dir, &e);
    if (r < 0)
        (void)fprintf(stderr, "warning: the context was not set: %s\n", e.text);
}

// An existing node stays as it was made; whoever asks for another size should know.
static void warn_kept(const struct local *l, const struct up_options *o)
{
    static const char *const keys[] = {"runtime", "cpu", "memory", "gpu"};
    const char *const given[] = {o->runtime, o->cpu, o->memory, o->gpu};
    size_t i, other = 0;
    const json_t *n;

    json_array_foreach (json_object_get(l->state, "nodes"), i, n) {
        bool differs = false;
        for (size_t k = 0; k < ARRAY_SIZE(keys); k++)
            differs |= given[k] && strcmp(given[k], json_opt_str(n, keys[k], "")) != 0;
        other += differs;
    }
    if (other)
        (void)fprintf(stderr,
                      "warning: %zu node%s from before keep%s runtime and size; `meadow down "
                      "--purge` begins anew\n",
                      other, other == 1 ? "" : "s", other == 1 ? "s its" : " their");
    if (o->nodes && (size_t)o->nodes < local_nodes(l))
        (void)fprintf(stderr, "warning: there are %zu nodes from before; `up` takes none away\n",
                      local_nodes(l));
}

static void tell(const struct cli *cli, const struct local *l, const struct up_options *o)
{
    cleanup_free char *ca = local_path(l, "ca.pem");
    cleanup_free char *token = local_path(l, "admin.token");
    cleanup_free char *with_dir = o->dir_given ? cli_format("--dir %s ", l->dir) : cli_strdup("");
    cleanup_json json_t *all =
        cli_need(json_pack("{s:s,s:s,s:s,s:s,s:I}", "api", l->api, "dir", l->dir, "ca", ca,
                           "token_file", token, "nodes", (json_int_t)local_nodes(l)));

    if (cli_print_value(cli, all))
        return;
    if (cli->quiet) {
        (void)printf("%s\n", l->api);
        return;
    }
    (void)printf("the cluster is up: %zu node%s ready\n", local_nodes(l),
                 local_nodes(l) == 1 ? "" : "s");
    (void)printf("  API    %s\n  CA     %s\n  token  %s\n", l->api, ca, token);
    (void)printf("  try    meadow %sjob start examples/hello/job.yml --follow\n", with_dir);
}

int cmd_up(struct cli *cli, const struct args *args)
{
    struct err e = {""};
    struct up_options o;
    struct local l = {0};
    cleanup_close int lock = -1;
    cleanup_free char *home = local_default_dir();

    if (read_options(args, &o, &e) < 0)
        return cli_usage(args, e.text);
    if (!o.dir)
        o.dir = home;
    if (!o.dir)
        return cli_fail(CLI_USAGE, UP_WHAT, "HOME is not set", "give --dir");
    if (local_name(o.dir, &l, &e) < 0)
        return cli_usage(args, e.text);
    int code = open_folder(cli, &l, &o, &lock);
    if (code == CLI_OK)
        code = up_start_master(cli, &l, &o);
    if (code == CLI_OK)
        code = up_meet_master(cli, &l);
    if (code == CLI_OK)
        code = up_start_agents(cli, &l);
    if (code == CLI_OK)
        code = up_wait_nodes(cli, &l);
    if (code == CLI_OK) {
        set_context(&l, o.dir_given);
        warn_kept(&l, &o);
        tell(cli, &l, &o);
    }
    local_free(&l);
    return code;
}
