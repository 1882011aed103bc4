// SPDX-License-Identifier: Apache-2.0
// meadow down: jobs, agents, master (which ends its Redis), whatever outlived them, and with
// --purge the folder. Works the same when any of them is already dead.
#include "cli/commands.h"
#include "cli/context.h"
#include "cli/down.h"
#include "common/atomic_file.h"
#include "common/cleanup.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHAT "can't stop the cluster"
#define AGENT_MS 10000
#define MASTER_MS 20000
#define REDIS_MS 10000

static int end_daemon(struct cli *cli, const struct local *l, const char *name, int ms)
{
    struct err e = {""};
    pid_t pid = strcmp(name, "redis") == 0 ? local_redis(l) : local_daemon(l, name);
    cleanup_free char *pid_file = local_pathf(l, "%s.pid", name);

    if (pid) {
        cli_progress(cli, "stopping %s", name);
        if (down_end_process(pid, ms, false, &e) < 0)
            return cli_failf(CLI_FAILED, WHAT, "end it by hand", "%s (process %d): %s", name,
                             (int)pid, e.text);
    }
    (void)unlink(pid_file);
    return CLI_OK;
}

static int end_all(struct cli *cli, const struct local *l)
{
    int code = CLI_OK;

    if (local_daemon(l, "master"))
        down_stop_jobs(cli, l);
    for (size_t i = 1; i <= local_nodes(l) && code == CLI_OK; i++) {
        cleanup_free char *name = cli_format("agent-%zu", i);
        code = end_daemon(cli, l, name, AGENT_MS);
    }
    if (code == CLI_OK)
        code = end_daemon(cli, l, "master", MASTER_MS);
    if (code == CLI_OK)
        code = end_daemon(cli, l, "redis", REDIS_MS);
    if (code == CLI_OK)
        down_leftovers(cli, l);
    return code;
}

static int purge(const struct local *l)
{
    struct err e = {""};
    cleanup_free char *file = context_file();

    if (remove_tree(l->dir, &e) < 0)
        return cli_fail(CLI_FAILED, "can't delete the cluster's state", e.text, NULL);
    if (file && context_forget_dir(file, l->dir, &e) < 0)
        (void)fprintf(stderr, "warning: the context was not removed: %s\n", e.text);
    return CLI_OK;
}

static void tell(const struct cli *cli, const struct local *l, bool purged)
{
    cleanup_json json_t *all =
        cli_need(json_pack("{s:s,s:s,s:b}", "dir", l->dir, "state", "down", "purged", purged));

    if (cli_print_value(cli, all) || cli->quiet)
        return;
    (void)printf("the cluster in %s is down%s\n", l->dir,
                 purged ? ", its state is deleted"
                        : "; `meadow up` starts it again with its state");
}

static int run(struct cli *cli, struct local *l, bool wants_purge)
{
    struct err e = {""};
    cleanup_close int lock = -1;
    int r = local_load(l, &e);

    if (r == 0)
        r = local_lock(l, &lock, &e);
    if (r == 0)
        r = local_load(l, &e); // as it is now that nobody else works on it
    if (r == -ENOENT)
        return cli_failf(CLI_FAILED, WHAT, "is this the right --dir?", "%s holds no local cluster",
                         l->dir);
    if (r < 0)
        return cli_fail(CLI_FAILED, WHAT, e.text, NULL);
    int code = end_all(cli, l);
    if (code == CLI_OK && wants_purge)
        code = purge(l);
    if (code == CLI_OK)
        tell(cli, l, wants_purge);
    return code;
}

int cmd_down(struct cli *cli, const struct args *args)
{
    struct err e = {""};
    struct local l = {0};
    cleanup_free char *home = local_default_dir();
    const char *env = getenv("MEADOW_DIR");
    const char *dir = args_has(args, "dir") ? args_value(args, "dir") : env && env[0] ? env : home;

    if (!dir)
        return cli_fail(CLI_USAGE, WHAT, "HOME is not set", "give --dir");
    if (local_name(dir, &l, &e) < 0)
        return cli_usage(args, e.text);
    int code = run(cli, &l, args_has(args, "purge"));
    local_free(&l);
    return code;
}
