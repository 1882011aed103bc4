// SPDX-License-Identifier: Apache-2.0
// Daemons are started by posix_spawn in sessions of their own. Readiness and death are both events:
// a datagram on the notify socket (told apart by the sender's pid) and the pidfd. Nothing is
// polled.
#include "cli/up_spawn.h"

#include "cli/cli.h"
#include "common/cleanup.h"
#include "common/clock.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

extern char **environ;

struct spawned {
    char name[24];
    pid_t pid;
    int pidfd;
    bool ready;
    off_t log_from; // where its part of the log begins
};

struct spawn_set {
    const struct local *local; // borrowed
    int notify_fd;
    char *notify_path;
    struct spawned *items;
    size_t n;
};

// --- where programs are ---

static char *beside_us(const char *program)
{
    char self[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    self[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(self, '/');
    if (!slash)
        return NULL;
    *slash = '\0';
    return cli_format("%s/%s", self, program);
}

int spawn_find(const char *program, char **ret, struct err *e)
{
    const char *path = getenv("PATH");
    cleanup_free char *all = cli_format("%s:/usr/sbin:/usr/bin", path ? path : "");
    char *rest = NULL;
    char *found = beside_us(program);

    for (char *dir = strtok_r(all, ":", &rest); dir && (!found || access(found, X_OK) < 0);
         dir = strtok_r(NULL, ":", &rest)) {
        free(found);
        found = cli_format("%s/%s", dir, program);
    }
    if (found && access(found, X_OK) == 0) {
        *ret = found;
        return 0;
    }
    free(found);
    return err_set(e, -ENOENT, "%s is neither beside this program nor on PATH", program);
}

// --- the set ---

int spawn_open(const struct local *l, struct spawn_set **ret, struct err *e)
{
    int one = 1;
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    struct spawn_set *s = cli_need(calloc(1, sizeof(*s)));

    s->local = l;
    s->notify_path = local_path(l, "run/up.notify");
    s->notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    (void)snprintf(a.sun_path, sizeof(a.sun_path), "%s", s->notify_path);
    (void)unlink(s->notify_path);
    if (s->notify_fd < 0 ||
        setsockopt(s->notify_fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) < 0 ||
        bind(s->notify_fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
        int r = err_errno(e, -errno, "%s", s->notify_path);
        spawn_free(s);
        return r;
    }
    *ret = s;
    return 0;
}

void spawn_free(struct spawn_set *s)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->items[i].pidfd >= 0)
            (void)close(s->items[i].pidfd);
    if (s->notify_fd >= 0)
        (void)close(s->notify_fd);
    (void)unlink(s->notify_path);
    free(s->notify_path);
    free(s->items);
    free(s);
}

// --- starting ---

// Ours without what belongs to whoever manages us; with the notify socket. Caller frees the list
// and its last text.
static char **make_environment(const struct spawn_set *s)
{
    static const char *const dropped[] = {"NOTIFY_SOCKET=", "JOURNAL_STREAM=", "WATCHDOG_",
                                          "INVOCATION_ID=", "MEADOW_"};
    size_t n = 0, count = 0;

    while (environ[count])
        count++;
    char **out = cli_need(calloc(count + 2, sizeof(*out)));
    for (size_t i = 0; i < count; i++) {
        bool drop = false;
        for (size_t k = 0; k < ARRAY_SIZE(dropped); k++)
            drop |= strncmp(environ[i], dropped[k], strlen(dropped[k])) == 0;
        if (!drop)
            out[n++] = environ[i];
    }
    out[n] = cli_format("NOTIFY_SOCKET=%s", s->notify_path);
    return out;
}

static void free_environment(char **list)
{
    size_t n = 0;
    while (list[n])
        n++;
    free(list[n - 1]);
    free(list);
}

static int set_attributes(posix_spawnattr_t *a)
{
    sigset_t none, all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    int r = posix_spawnattr_setsigmask(a, &none);
    if (r == 0)
        r = posix_spawnattr_setsigdefault(a, &all); // SIGPIPE is ignored here
    if (r == 0)
        r = posix_spawnattr_setflags(a, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK |
                                            POSIX_SPAWN_SETSIGDEF);
    return r;
}

static int set_files(posix_spawn_file_actions_t *f, const char *log, int fd)
{
    int r = posix_spawn_file_actions_addopen(f, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (r == 0)
        r = posix_spawn_file_actions_addopen(f, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_APPEND,
                                             0640);
    if (r == 0)
        r = posix_spawn_file_actions_adddup2(f, STDOUT_FILENO, STDERR_FILENO);
    if (r == 0 && fd >= 0)
        r = posix_spawn_file_actions_adddup2(f, fd, fd); // onto itself: loses close-on-exec
    if (r == 0)
        r = posix_spawn_file_actions_addchdir_np(f, "/");
    return r;
}

static int start(const struct spawn_set *s, const char *binary, const char *name, const char *log,
                 int fd, pid_t *ret_pid)
{
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t files;
    cleanup_free char *config = local_pathf(s->local, "%s.yml", name);
    cleanup_free char *pid_file = local_pathf(s->local, "%s.pid", name);
    const char *argv[] = {binary, "--config", config, "--pid-file", pid_file, NULL};
    char **env = make_environment(s);

    (void)posix_spawnattr_init(&attributes);
    (void)posix_spawn_file_actions_init(&files);
    int r = set_attributes(&attributes);
    if (r == 0)
        r = set_files(&files, log, fd);
    if (r == 0)
        r = posix_spawn(ret_pid, binary, &files, &attributes, (char *const *)(uintptr_t)argv, env);
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&attributes);
    free_environment(env);
    return -r;
}

int spawn_daemon(struct spawn_set *s, const char *binary, const char *name, int fd, struct err *e)
{
    struct stat st;
    cleanup_free char *log = local_pathf(s->local, "log/%s.log", name);
    s->items = cli_need(reallocarray(s->items, s->n + 1, sizeof(*s->items)));
    struct spawned *x = &s->items[s->n];

    *x = (struct spawned){.pidfd = -1, .log_from = stat(log, &st) == 0 ? st.st_size : 0};
    (void)snprintf(x->name, sizeof(x->name), "%s", name);
    int r = start(s, binary, name, log, fd, &x->pid);
    if (r < 0)
        return err_errno(e, r, "starting %s", binary);
    s->n++;
    x->pidfd = (int)syscall(SYS_pidfd_open, x->pid, 0);
    return x->pidfd < 0 ? err_errno(e, -errno, "pidfd_open") : 0;
}

// --- waiting ---

static void take_word(struct spawn_set *s)
{
    char text[4096];
    union {
        char bytes[CMSG_SPACE(sizeof(struct ucred))];
        struct cmsghdr align;
    } control;
    struct iovec v = {text, sizeof(text) - 1};
    struct msghdr m = {
        .msg_iov = &v, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)};
    ssize_t n = recvmsg(s->notify_fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    const struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&m) : NULL;
    struct ucred who;

    if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS)
        return;
    memcpy(&who, CMSG_DATA(c), sizeof(who));
    text[n] = '\0';
    if (strncmp(text, "READY=1", 7) != 0 && !strstr(text, "\nREADY=1"))
        return;
    for (size_t i = 0; i < s->n; i++)
        if (s->items[i].pid == who.pid)
            s->items[i].ready = true;
}

static size_t unready(const struct spawn_set *s, const char **ret_name)
{
    size_t n = 0;
    for (size_t i = s->n; i > 0; i--) {
        if (s->items[i - 1].ready)
            continue;
        *ret_name = s->items[i - 1].name;
        n++;
    }
    return n;
}

static int describe_end(struct spawned *x, struct err *e)
{
    int status = 0;
    if (waitpid(x->pid, &status, WNOHANG) != x->pid)
        return err_set(e, -ECHILD, "it ended");
    if (WIFSIGNALED(status))
        return err_set(e, -ECHILD, "it was killed by signal %d", WTERMSIG(status));
    return err_set(e, -ECHILD, "it ended with status %d", WEXITSTATUS(status));
}

int spawn_wait(struct spawn_set *s, int timeout_ms, const char **ret_name, struct err *e)
{
    int64_t until = clock_mono_ms() + timeout_ms;
    cleanup_free struct pollfd *fds = cli_need(calloc(s->n + 1, sizeof(*fds)));

    fds[0] = (struct pollfd){s->notify_fd, POLLIN, 0};
    for (size_t i = 0; i < s->n; i++)
        fds[i + 1] = (struct pollfd){s->items[i].pidfd, POLLIN, 0};
    while (unready(s, ret_name) > 0) {
        int64_t left = until - clock_mono_ms();
        int r = left > 0 ? poll(fds, s->n + 1, (int)left) : 0;
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return err_set(e, -ETIMEDOUT, "not ready after %d s", timeout_ms / 1000);
        if (fds[0].revents) {
            take_word(s);
            continue; // a word that was said before the end counts
        }
        for (size_t i = 0; i < s->n; i++) {
            if (!fds[i + 1].revents)
                continue;
            *ret_name = s->items[i].name;
            return describe_end(&s->items[i], e);
        }
    }
    return 0;
}

char *spawn_last_words(const struct spawn_set *s, const char *name, int lines)
{
    char text[8192];
    cleanup_free char *log = local_pathf(s->local, "log/%s.log", name);
    cleanup_close int fd = open(log, O_RDONLY | O_CLOEXEC);
    off_t from = 0;

    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->items[i].name, name) == 0)
            from = s->items[i].log_from;
    off_t end = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
    if (end - from > (off_t)sizeof(text) - 1)
        from = end - (off_t)sizeof(text) + 1;
    ssize_t n = fd < 0 ? 0 : pread(fd, text, sizeof(text) - 1, from);
    text[n > 0 ? n : 0] = '\0';
    while (n > 0 && text[n - 1] == '\n')
        text[--n] = '\0';
    char *begin = text + (n > 0 ? n : 0);
    for (; begin > text; begin--)
        if (begin[-1] == '\n' && --lines == 0)
            break;
    return cli_strdup(begin);
}
