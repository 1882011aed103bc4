// SPDX-License-Identifier: Apache-2.0
// backup: the master makes it, this writes it. restore: for a master that does not run, by
// meadow-master itself, as it lays files into that one's data folder.
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/local.h"
#include "cli/up_spawn.h"
#include "common/atomic_file.h"
#include "common/cleanup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SYSTEM_CONFIG "/etc/meadow/master.yml"
#define BACKUP_TIMEOUT_MS 3600000

static int write_chunk(const char *data, size_t len, void *userdata)
{
    return write_all(*(int *)userdata, data, len);
}

static char *default_name(void)
{
    char text[40];
    struct tm tm;
    time_t now = time(NULL);
    (void)strftime(text, sizeof(text), "meadow-%Y%m%dT%H%M%SZ.tar", gmtime_r(&now, &tm));
    return cli_strdup(text);
}

static int fetch(struct cli *cli, int *fd)
{
    struct api *api;
    struct api_answer answer = {0};
    struct err e = {""};
    int code = cli_api(cli, &api);
    if (code != CLI_OK)
        return code;
    const struct api_request req = {.method = "POST",
                                    .path = "/v1/backup",
                                    .accept = "application/x-tar",
                                    .timeout_ms = BACKUP_TIMEOUT_MS,
                                    .chunk = write_chunk,
                                    .userdata = fd};
    int r = api_call(api, &req, &answer, &e);
    if (!cli_good(r, &answer))
        code = cli_report(cli, "backup", r, &e, &answer);
    api_answer_free(&answer);
    return code;
}

int cmd_backup(struct cli *cli, const struct args *args)
{
    cleanup_free char *name = args->n_words > 0 ? cli_strdup(args->words[0]) : default_name();
    cleanup_free char *part = cli_format("%s.part", name);
    cleanup_close int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    if (fd < 0)
        return cli_failf(CLI_FAILED, "backup", "name a file in a folder that you may write",
                         "%s: %s", part, strerror(errno));
    int code = fetch(cli, &fd);
    if (code == CLI_OK && (fsync(fd) < 0 || rename(part, name) < 0))
        code = cli_failf(CLI_FAILED, "backup", NULL, "%s: %s", name, strerror(errno));
    if (code != CLI_OK) {
        (void)unlink(part);
        return code;
    }
    if (cli->quiet)
        (void)printf("%s\n", name);
    else
        (void)printf("%s is written; it holds the cluster's keys: keep it where only you read it\n",
                     name);
    return CLI_OK;
}

// The configuration of the master that is to be restored; NULL = none is known.
static char *config_of(const struct args *args)
{
    struct local l;
    struct err e;
    const char *dir = args_value(args, "dir");
    if (args_has(args, "config"))
        return cli_strdup(args_value(args, "config"));
    if (!dir)
        dir = getenv("MEADOW_DIR");
    if (!dir || !*dir)
        return access(SYSTEM_CONFIG, R_OK) == 0 ? cli_strdup(SYSTEM_CONFIG) : NULL;
    if (local_name(dir, &l, &e) < 0)
        return NULL;
    char *path = local_path(&l, "master.yml");
    local_free(&l);
    return path;
}

int cmd_restore(struct cli *cli, const struct args *args)
{
    struct err e = {""};
    cleanup_free char *program = NULL;
    cleanup_free char *config = config_of(args);

    (void)cli;
    if (!config)
        return cli_fail(CLI_FAILED, "restore", "there is no " SYSTEM_CONFIG " here",
                        "name the master's configuration by --config, or a local cluster by --dir");
    if (spawn_find("meadow-master", &program, &e) < 0)
        return cli_fail(CLI_FAILED, "restore", e.text, "install meadow-master on this machine");
    (void)execl(program, "meadow-master", "--config", config, "--restore", args->words[0],
                (char *)NULL);
    return cli_failf(CLI_FAILED, "restore", NULL, "%s: %s", program, strerror(errno));
}
