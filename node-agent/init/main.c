// SPDX-License-Identifier: Apache-2.0
// meadow-init: supervises one attempt, as pid 1 of its container or as parent of its process.
// Static, libc only, no heap of its own, so that it runs in any image and costs next to nothing. It
// outlives the agent; the two speak through the out folder (proto/AGENT.md) and signals. Exit code:
// that of the command, or 125 when init itself failed.
#include "node-agent/init/args.h"
#include "node-agent/init/cgroup.h"
#include "node-agent/init/environment.h"
#include "node-agent/init/lease.h"
#include "node-agent/init/record.h"
#include "node-agent/init/rights.h"
#include "node-agent/init/supervise.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define INIT_FAILED 125

static void complain(const char *what, const char *why)
{
    (void)dprintf(STDERR_FILENO, "meadow-init: %s: %s\n", what, why);
}

// Without a container there is nobody at our stderr.
static void complain_in(const char *out, const char *what, const char *why)
{
    char path[512];
    complain(what, why);
    if (snprintf(path, sizeof(path), "%s/init.log", out) >= (int)sizeof(path))
        return;
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd >= 0)
        (void)dprintf(fd, "meadow-init: %s: %s\n", what, why);
}

int main(int argc, char **argv)
{
    struct init_args args;
    struct record rec;
    const char *what;
    sigset_t all;
    // First of all, so that no request to stop is lost: whoever started us as a process blocked
    // them before.
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_BLOCK, &all, NULL);
    // An ignored SIGCHLD would make the kernel reap for us and lose the exit code.
    (void)signal(SIGCHLD, SIG_DFL);
    const char *wrong = init_args_parse(argc, argv, &args);
    if (wrong) {
        complain("usage", wrong);
        return INIT_FAILED;
    }
    cgroup_own(&args);
    if (cgroup_open(&args) < 0) {
        complain_in(args.out, "cgroup", strerror(errno));
        return INIT_FAILED;
    }
    int r = args.uid >= 0 && args.chdir ? lease_enter(&args.lease) : 0;
    if (r < 0) {
        complain_in(args.out, "lease", strerror(-r));
        return INIT_FAILED;
    }
    r = rights_drop(&args, &what);
    if (r < 0) {
        complain(what, strerror(-r));
        return INIT_FAILED;
    }
    if (args.environment && (r = environment_read(args.environment)) < 0) {
        complain_in(args.out, "environment", strerror(-r));
        return INIT_FAILED;
    }
    if (getpid() != 1)
        (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    r = record_open(&rec, args.out, args.lock_fd, &what);
    if (r < 0) {
        complain_in(args.out, what, r == -EALREADY ? "the attempt ran before" : strerror(-r));
        return INIT_FAILED;
    }
    return supervise(&args, &rec);
}
