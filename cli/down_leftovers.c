// SPDX-License-Identifier: Apache-2.0
// Tasks whose agent is dead. A process's supervisor (meadow-init) holds a lock on a file in its
// attempt's folder as long as it lives, and is asked to stop as its agent would: it ends its whole
// tree. Containers are found by the cluster's label.
#include "cli/down.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>

#define GRACE_MS 3000
#define END_MS 10000

// --- processes ---

static bool cmdline_has(pid_t pid, const char *text)
{
    char path[64], line[8192];
    (void)snprintf(path, sizeof(path), "/proc/%d/cmdline", (int)pid);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, line, sizeof(line));
    return n > 0 && memmem(line, (size_t)n, text, strlen(text)) != NULL;
}

// The supervisor of the attempt in `out` when it lives. A container's writes the pid of its own
// namespace: its command line names another folder, so it is not taken for the process of that
// number here.
static pid_t init_of(const char *out)
{
    char text[32] = "";
    cleanup_free char *path = cli_format("%s/init.lock", out);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return 0;
    if (pread(fd, text, sizeof(text) - 1, 0) <= 0)
        return 0;
    long pid = strtol(text, NULL, 10);
    return pid > 1 && pid < INT_MAX && cmdline_has((pid_t)pid, out) ? (pid_t)pid : 0;
}

static void end_attempt(struct cli *cli, const char *out)
{
    struct err e = {""};
    char grace[24];
    cleanup_free char *stop = cli_format("%s/stop", out);
    pid_t pid = init_of(out);

    if (pid == 0)
        return;
    cli_progress(cli, "stopping a task whose agent is gone (process %d)", (int)pid);
    (void)snprintf(grace, sizeof(grace), "%d\n", GRACE_MS);
    if (atomic_file_write(stop, grace, strlen(grace), 0600, &e) < 0)
        cli_progress(cli, "%s", e.text); // then its own grace counts
    (void)kill(pid, SIGCONT);            // it may be frozen by its lease
    if (down_end_process(pid, END_MS, true, &e) < 0)
        (void)fprintf(stderr, "warning: process %d: %s\n", (int)pid, e.text);
}

static void end_attempts(struct cli *cli, const struct local *l)
{
    glob_t g = {0};
    cleanup_free char *pattern = local_path(l, "agent-*/attempts/*/out");

    if (glob(pattern, GLOB_NOSORT, NULL, &g) == 0)
        for (size_t i = 0; i < g.gl_pathc; i++)
            end_attempt(cli, g.gl_pathv[i]);
    globfree(&g);
}

// --- containers ---

static void remove_container(struct api *engine, const char *id)
{
    struct err e = {""};
    struct api_answer answer = {0};
    cleanup_free char *path = cli_path("/v1.41/containers/", id, "?force=1");
    const struct api_request req = {.method = "DELETE", .path = path};

    if (api_call(engine, &req, &answer, &e) < 0)
        (void)fprintf(stderr, "warning: container %.12s: %s\n", id, e.text);
    api_answer_free(&answer);
}

static void remove_containers(struct cli *cli, struct api *engine, const char *cluster)
{
    struct err e = {""};
    struct api_answer answer = {0};
    struct strbuf path = {0};
    cleanup_json json_t *list = NULL;
    size_t i;
    const json_t *x;
    cleanup_free char *filter = cli_format("{\"label\":[\"io.meadow.cluster=%s\"]}", cluster);

    strbuf_puts(&path, "/v1.41/containers/json?all=1&filters=");
    api_encode(&path, filter, false);
    const struct api_request req = {.method = "GET", .path = path.data};
    int r = api_call(engine, &req, &answer, &e);
    if (cli_good(r, &answer) && json_parse(answer.body, answer.len, &list, &e) == 0) {
        json_array_foreach (list, i, x) {
            cli_progress(cli, "removing container %.12s", json_opt_str(x, "Id", ""));
            remove_container(engine, json_opt_str(x, "Id", ""));
        }
    }
    api_answer_free(&answer);
    strbuf_reset(&path);
}

// The engine's socket of the first node that runs containers; NULL when none does. Borrowed.
static const char *engine_socket(const struct local *l)
{
    size_t i;
    const json_t *n;

    json_array_foreach (json_object_get(l->state, "nodes"), i, n) {
        if (strcmp(json_opt_str(n, "runtime", ""), "docker") == 0)
            return json_opt_str(n, "docker_socket", "/run/docker.sock");
    }
    return NULL;
}

static void end_containers(struct cli *cli, const struct local *l)
{
    struct err e = {""};
    struct api *engine = NULL;
    const char *socket = engine_socket(l);
    cleanup_free char *id_file = local_path(l, "master/identity/cluster-id");
    cleanup_free char *cluster = NULL;
    size_t len;

    if (!socket || atomic_file_read(id_file, 256, &cluster, &len, &e) < 0)
        return;
    cluster[strcspn(cluster, " \r\n\"")] = '\0';
    struct api_target t = {.unix_socket = cli_strdup(socket)};
    if (cluster[0] && api_open(&t, &engine, &e) == 0)
        remove_containers(cli, engine, cluster);
    api_close(engine);
    api_target_free(&t);
}

void down_leftovers(struct cli *cli, const struct local *l)
{
    end_attempts(cli, l);
    end_containers(cli, l);
}
