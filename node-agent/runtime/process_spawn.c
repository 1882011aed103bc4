// SPDX-License-Identifier: Apache-2.0
// Command line, environment and descriptors of meadow-init. The environment is the spec's alone
// (nothing of the agent's), plus a PATH where there is none and the attempt's id, by which
// leftovers are found.
#include "node-agent/runtime/process_spawn.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "node-agent/runtime/proc_scan.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/file.h>

#define DEFAULT_PATH "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#define LOCK_FD 3 // in the child
#define OPTIONS_MAX (64 + 2 * HEALTH_ARGS_MAX)
#define ENVIRONMENT "out/environment"

struct texts { // a NULL-terminated list of owned texts
    char **items;
    size_t n, capacity;
    bool failed;
};

static void texts_free(struct texts *t)
{
    for (size_t i = 0; i < t->n; i++)
        free(t->items[i]);
    free(t->items);
}
#define cleanup_texts __attribute__((__cleanup__(texts_free)))

static void texts_init(struct texts *t, size_t capacity)
{
    t->items = calloc(capacity + 1, sizeof(*t->items));
    t->capacity = capacity;
    t->failed = !t->items;
}

PRINTF_LIKE(2, 3) static void add(struct texts *t, const char *fmt, ...)
{
    va_list ap;
    if (t->failed || t->n == t->capacity) {
        t->failed = true;
        return;
    }
    va_start(ap, fmt);
    if (vasprintf(&t->items[t->n], fmt, ap) < 0) {
        t->items[t->n] = NULL;
        t->failed = true;
    } else {
        t->n++;
    }
    va_end(ap);
}

static void add_option(struct texts *t, const char *name, int64_t value)
{
    add(t, "%s", name);
    add(t, "%" PRId64, value);
}

static void add_text(struct texts *t, const char *name, const char *path)
{
    add(t, "%s", name);
    add(t, "%s", path);
}

static void add_health(struct texts *t, const struct job_health *h)
{
    for (char *const *p = h->command; p && *p; p++)
        add_text(t, "--health-arg", *p);
    if (h->path) {
        add_option(t, "--health-port", h->port);
        add_text(t, "--health-path", h->path);
    }
    add_option(t, "--health-interval", h->interval_ms);
    add_option(t, "--health-timeout", h->timeout_ms);
    add_option(t, "--health-start-period", h->start_period_ms);
    add_option(t, "--health-retries", h->retries);
}

static void build_argv(const struct runtime_options *o, const struct attempt_spec *spec,
                       const struct cgroup_leaf *cgroup, bool unit, struct texts *t)
{
    char path[ATTEMPT_PATH_BYTES];
    size_t n = 0;
    while (spec->command[n])
        n++;
    texts_init(t, n + OPTIONS_MAX);
    add(t, "%s", o->init_path);
    attempt_path(&o->dirs, spec->id, "out", path);
    add_text(t, "--out", path);
    attempt_run_path(&o->dirs, spec->id, "", path);
    if (spec->lease_ms > 0)
        add_text(t, "--lease", path);
    attempt_path(&o->dirs, spec->id, "work", path);
    add_text(t, "--chdir", path);
    add_text(t, "--attempt", spec->id);
    if (unit) {
        attempt_path(&o->dirs, spec->id, ENVIRONMENT, path);
        add_text(t, "--environment", path);
        add_text(t, "--delegated", "yes");
        if (o->boot_id)
            add_text(t, "--boot-id", o->boot_id);
    }
    for (size_t i = 0; cgroup && i < cgroup->n; i++)
        add_text(t, "--cgroup", cgroup->dirs[i]);
    if (spec->stop_signal > 0)
        add_option(t, "--stop-signal", spec->stop_signal);
    add_option(t, "--grace", spec->grace_ms);
    add_option(t, "--timeout", spec->timeout_ms);
    add_option(t, "--log-limit", spec->log_limit);
    if (geteuid() == 0 && spec->uid >= 0) {
        add_option(t, "--uid", spec->uid);
        add_option(t, "--gid", spec->gid);
    }
    if (spec->health)
        add_health(t, spec->health);
    if (!unit)
        add_option(t, "--lock-fd", LOCK_FD);
    add(t, "--");
    for (size_t i = 0; i < n; i++)
        add(t, "%s", spec->command[i]);
}

static void build_environment(const struct attempt_spec *spec, struct texts *t)
{
    bool path = false;
    texts_init(t, spec->n_env + 2);
    add(t, ATTEMPT_ENV "=%s", spec->id);
    for (size_t i = 0; i < spec->n_env; i++) {
        if (strcmp(spec->env[i].key, ATTEMPT_ENV) == 0)
            continue;
        path |= strcmp(spec->env[i].key, "PATH") == 0;
        add(t, "%s=%s", spec->env[i].key, spec->env[i].value);
    }
    if (!path)
        add(t, DEFAULT_PATH);
}

static int open_lock(const struct runtime_options *o, const char *id, struct err *e)
{
    char path[ATTEMPT_PATH_BYTES];
    attempt_path(&o->dirs, id, "out/init.lock", path);
    cleanup_close int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd < 0 || flock(fd, LOCK_EX | LOCK_NB) < 0)
        return err_errno(e, -errno, "lock %s", path);
    return TAKE_FD(fd);
}

static int spawn(int lock_fd, char **argv, char **envp, pid_t *ret)
{
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    sigset_t all;
    (void)sigfillset(&all);
    int r = posix_spawn_file_actions_init(&files);
    if (r != 0)
        return -r;
    if ((r = posix_spawnattr_init(&attr)) != 0) {
        (void)posix_spawn_file_actions_destroy(&files);
        return -r;
    }
    // The lock first: its number may be one of those that follow.
    r = posix_spawn_file_actions_adddup2(&files, lock_fd, LOCK_FD);
    r = r ? r : posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    r = r ? r : posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    r = r ? r : posix_spawn_file_actions_adddup2(&files, 1, 2);
    r = r ? r : posix_spawn_file_actions_addclosefrom_np(&files, LOCK_FD + 1);
    r = r ? r : posix_spawnattr_setsigmask(&attr, &all);
    r = r ? r : posix_spawnattr_setsigdefault(&attr, &all);
    r = r ? r
          : posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                POSIX_SPAWN_SETSID);
    r = r ? r : posix_spawn(ret, argv[0], &files, &attr, argv, envp);
    (void)posix_spawnattr_destroy(&attr);
    (void)posix_spawn_file_actions_destroy(&files);
    return -r;
}

int process_spawn(const struct runtime_options *o, const struct attempt_spec *spec,
                  const struct cgroup_leaf *cgroup, pid_t *ret_pid, struct err *e)
{
    cleanup_texts struct texts argv = {0}, envp = {0};
    if (!spec->command || !spec->command[0])
        return err_set(e, -EINVAL,
                       "no command: without a container there is no image that could have one");
    build_argv(o, spec, cgroup, false, &argv);
    build_environment(spec, &envp);
    if (argv.failed || envp.failed)
        return err_set(e, -ENOMEM, "out of memory");
    cleanup_close int lock = open_lock(o, spec->id, e);
    if (lock < 0)
        return lock;
    int r = spawn(lock, argv.items, envp.items, ret_pid);
    if (r == -E2BIG)
        return err_set(e, r, "command and environment are too long for the kernel");
    return r < 0 ? err_errno(e, r, "start %s", o->init_path) : 0;
}

static int write_environment(const struct runtime_options *o, const struct attempt_spec *spec,
                             const struct texts *envp, struct err *e)
{
    char path[ATTEMPT_PATH_BYTES];
    int r = 0;
    attempt_path(&o->dirs, spec->id, ENVIRONMENT, path);
    (void)unlink(path);
    cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0 || fchown(fd, (uid_t)spec->uid, (gid_t)spec->gid) < 0)
        return err_errno(e, -errno, "create %s", path);
    for (size_t i = 0; r == 0 && i < envp->n; i++)
        r = write_all(fd, envp->items[i], strlen(envp->items[i]) + 1);
    return r < 0 ? err_errno(e, r, "write %s", path) : 0;
}

int process_spawn_unit(struct transient *t, const struct runtime_options *o,
                       const struct attempt_spec *spec,
                       void (*done)(int result, pid_t pid, const char *why, void *userdata),
                       void *userdata, struct err *e)
{
    cleanup_texts struct texts argv = {0}, envp = {0};
    char text[200];
    if (!spec->command || !spec->command[0])
        return err_set(e, -EINVAL,
                       "no command: without a container there is no image that could have one");
    build_argv(o, spec, NULL, true, &argv);
    build_environment(spec, &envp);
    if (argv.failed || envp.failed)
        return err_set(e, -ENOMEM, "out of memory");
    int r = write_environment(o, spec, &envp, e);
    if (r < 0)
        return r;
    (void)snprintf(text, sizeof(text), "meadow task %.60s/%.60s/%d", spec->job, spec->component,
                   spec->index);
    struct transient_unit unit = {.id = spec->id,
                                  .description = text,
                                  .argv = argv.items,
                                  .limits = spec->resources,
                                  .pids_limit = o->policy ? o->policy->pids_limit : 0};
    return transient_start(t, &unit, done, userdata, e);
}
