// SPDX-License-Identifier: Apache-2.0
// The folder of a local cluster. Daemons hold a lock on their pid file as long as they live, so a
// number left over from an earlier boot is never taken for one of them.
#include "cli/local.h"

#include "cli/cli.h"
#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/file.h>

#define FILE_LIMIT (1u << 20)

char *local_default_dir(void)
{
    const char *home = getenv("HOME");
    return home && home[0] ? cli_format("%s/.local/share/meadow", home) : NULL;
}

static char *absolute(const char *dir)
{
    char real[PATH_MAX], cwd[PATH_MAX];

    if (realpath(dir, real))
        return cli_strdup(real);
    if (dir[0] == '/' || !getcwd(cwd, sizeof(cwd)))
        return cli_strdup(dir);
    return cli_format("%s/%s", cwd, dir);
}

int local_name(const char *dir, struct local *ret, struct err *e)
{
    if (dir[0] == '\0')
        return err_set(e, -EINVAL, "--dir: a folder is missing");
    char *path = absolute(dir);
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/')
        path[--len] = '\0';
    *ret = (struct local){.dir = path, .api = ""};
    return 0;
}

void local_free(struct local *l)
{
    for (size_t i = 0; i < l->n_claims; i++)
        if (l->claims[i] >= 0)
            (void)close(l->claims[i]);
    free(l->claims);
    free(l->dir);
    json_decref(l->state);
    *l = (struct local){0};
}

char *local_path(const struct local *l, const char *leaf)
{
    return cli_format("%s/%s", l->dir, leaf);
}

char *local_pathf(const struct local *l, const char *fmt, ...)
{
    char leaf[PATH_MAX];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(leaf, sizeof(leaf), fmt, ap);
    va_end(ap);
    return local_path(l, leaf);
}

int local_load(struct local *l, struct err *e)
{
    cleanup_free char *path = local_path(l, "local.json");
    cleanup_free char *text = NULL;
    json_t *nodes, *state = NULL;
    size_t len;
    int r = atomic_file_read(path, FILE_LIMIT, &text, &len, e);

    if (r == 0)
        r = json_parse(text, len, &state, e);
    if (r == 0)
        r = json_get_array(state, "nodes", &nodes, e);
    if (r < 0) {
        json_decref(state);
        return r == -ENOENT || r == -ENOTDIR ? err_set(e, -ENOENT, "%s is not there", path)
                                             : err_wrap(e, r, "%s", path);
    }
    json_decref(l->state);
    l->state = state;
    l->api = json_opt_str(state, "api", "");
    return 0;
}

int local_save(const struct local *l, struct err *e)
{
    cleanup_free char *path = local_path(l, "local.json");
    cleanup_strbuf struct strbuf b = {0};

    output_json(&b, l->state);
    return b.failed ? err_set(e, -ENOMEM, "out of memory")
                    : atomic_file_write(path, b.data, b.len, 0600, e);
}

void local_set_api(struct local *l, const char *url, int port)
{
    json_put_str(l->state, "api", url);
    json_put_i64(l->state, "port", port);
    l->api = json_opt_str(l->state, "api", "");
}

int local_lock(const struct local *l, int *ret_fd, struct err *e)
{
    cleanup_free char *path = local_path(l, "up.lock");
    cleanup_close int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd < 0)
        return err_errno(e, -errno, "%s", path);
    while (flock(fd, LOCK_EX) < 0)
        if (errno != EINTR)
            return err_errno(e, -errno, "%s", path);
    *ret_fd = TAKE_FD(fd);
    return 0;
}

static pid_t read_pid(int fd)
{
    char text[32];
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    long pid = strtol(text, NULL, 10);
    return pid > 1 && pid < INT_MAX ? (pid_t)pid : 0;
}

pid_t local_daemon(const struct local *l, const char *name)
{
    cleanup_free char *path = local_pathf(l, "%s.pid", name);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return 0;
    return read_pid(fd);
}

// What /proc/PID/NAME links to; "" when it can't be read.
static void proc_link(pid_t pid, const char *name, char out[PATH_MAX])
{
    char path[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    ssize_t n = readlink(path, out, PATH_MAX - 1);
    out[n > 0 ? n : 0] = '\0';
}

pid_t local_redis(const struct local *l)
{
    char exe[PATH_MAX], cwd[PATH_MAX];
    cleanup_free char *path = local_path(l, "redis.pid");
    cleanup_free char *home = local_path(l, "master");
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    pid_t pid = fd < 0 ? 0 : read_pid(fd);

    if (pid == 0)
        return 0;
    proc_link(pid, "exe", exe);
    proc_link(pid, "cwd", cwd);
    const char *name = strrchr(exe, '/');
    bool ours = name && strncmp(name + 1, "redis", 5) == 0 && strncmp(cwd, home, strlen(home)) == 0;
    return ours ? pid : 0;
}

size_t local_nodes(const struct local *l)
{
    return json_array_size(json_object_get(l->state, "nodes"));
}

bool local_agent_lives(const struct local *l)
{
    for (size_t i = 1; i <= local_nodes(l); i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "agent-%zu", i);
        if (local_daemon(l, name))
            return true;
    }
    return false;
}

void local_keep_claim(struct local *l, size_t node, int fd)
{
    if (node >= l->n_claims) {
        l->claims = cli_need(reallocarray(l->claims, node + 1, sizeof(*l->claims)));
        while (l->n_claims <= node)
            l->claims[l->n_claims++] = -1;
    }
    l->claims[node] = fd;
}

int local_take_claim(struct local *l, size_t node)
{
    return node < l->n_claims ? TAKE_FD(l->claims[node]) : -1;
}
