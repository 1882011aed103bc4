// SPDX-License-Identifier: Apache-2.0
// Ending a process and knowing that it ended: by its pidfd, so that a number used again is never
// waited for or killed.
#include "cli/down.h"

#include "common/cleanup.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>

#define KILL_MS 5000

// The children of a process, from the kernel's list of its main thread.
static size_t children_of(pid_t pid, pid_t *out, size_t max)
{
    char path[80], text[4096];
    size_t n = 0;
    (void)snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
    text[len > 0 ? len : 0] = '\0';
    for (char *p = text; n < max && *p;) {
        char *end;
        long child = strtol(p, &end, 10);
        if (end == p)
            break;
        out[n++] = (pid_t)child;
        p = end;
    }
    return n;
}

static void kill_tree(pid_t pid, int depth)
{
    pid_t children[256];
    size_t n = depth < 16 ? children_of(pid, children, ARRAY_SIZE(children)) : 0;

    (void)kill(pid, SIGSTOP); // so that it starts no more while we look
    for (size_t i = 0; i < n; i++)
        kill_tree(children[i], depth + 1);
    (void)kill(pid, SIGKILL);
}

// Whether it is over within the bound.
static bool over(int pidfd, int ms)
{
    struct pollfd p = {pidfd, POLLIN, 0};
    int r;
    do {
        r = poll(&p, 1, ms);
    } while (r < 0 && errno == EINTR);
    return r > 0;
}

int down_end_process(pid_t pid, int term_ms, bool tree, struct err *e)
{
    cleanup_close int fd = (int)syscall(SYS_pidfd_open, pid, 0);

    if (fd < 0)
        return errno == ESRCH ? 0 : err_errno(e, -errno, "pidfd_open");
    if (syscall(SYS_pidfd_send_signal, fd, SIGTERM, NULL, 0) < 0)
        return errno == ESRCH ? 0 : err_errno(e, -errno, "SIGTERM");
    if (over(fd, term_ms))
        return 0;
    if (tree)
        kill_tree(pid, 0);
    (void)syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0);
    return over(fd, KILL_MS) ? 0 : err_set(e, -ETIMEDOUT, "it does not end");
}
