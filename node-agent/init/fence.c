// SPDX-License-Identifier: Apache-2.0
// Freezing takes the control group's freezer where the agent made us one; in a container, where it
// is out of reach, and without a group, SIGSTOP to each process until none runs. The watch on the
// folder exists only while the lease is over or longer than usual: watches are few on a machine.
#include "node-agent/init/fence.h"

#include "node-agent/init/cgroup.h"
#include "node-agent/init/children.h"
#include "node-agent/init/lease.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <time.h>
#include <unistd.h>

#define FREEZE_MS 2000  // the master waits a second more (FREEZE_MARGIN_MS)
#define GROUP_MS 800    // of it for the control group, before signals are tried
#define RECHECK_MS 1000 // when the kernel has no watch left for us

void fence_init(struct fence *f, const struct init_args *args)
{
    // A lease that is not there yet (no room for it, or not granted) is over.
    *f = (struct fence){.args = args, .deadline_ms = args->lease ? 0 : INT64_MAX, .inotify_fd = -1};
    // A machine that is a container itself can have another one in each mount namespace.
    if (args->boot_id) {
        (void)snprintf(f->boot_id, sizeof(f->boot_id), "%s", args->boot_id);
        return;
    }
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, f->boot_id, sizeof(f->boot_id) - 1) : -1;
    f->boot_id[n > 0 ? n : 0] = '\0';
    f->boot_id[strcspn(f->boot_id, "\n")] = '\0';
    if (fd >= 0)
        (void)close(fd);
}

static void look(struct fence *f)
{
    struct lease l;
    if (lease_read(f->args->lease, &l) < 0)
        return;
    // Without /proc there is no boot id to compare; then a reboot has ended us anyway.
    bool ours = strcmp(l.attempt, f->args->attempt) == 0 &&
                (!f->boot_id[0] || strcmp(l.boot_id, f->boot_id) == 0);
    f->deadline_ms = ours ? l.deadline_boot_ms : 0;
    f->lease_ms = l.lease_ms;
}

static void watch(struct fence *f)
{
    if (f->inotify_fd >= 0)
        return;
    f->inotify_fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    if (f->inotify_fd >= 0 &&
        inotify_add_watch(f->inotify_fd, f->args->lease, IN_MOVED_TO | IN_CLOSE_WRITE) < 0) {
        (void)close(f->inotify_fd);
        f->inotify_fd = -1;
    }
}

static void unwatch(struct fence *f)
{
    if (f->inotify_fd >= 0)
        (void)close(f->inotify_fd);
    f->inotify_fd = -1;
}

// Whether a change of the file must be seen at once: it may thaw us, or it may take back a longer
// lease than usual, which the timer alone would notice too late.
static bool must_watch(const struct fence *f, int64_t now_ms)
{
    if (f->deadline_ms == INT64_MAX)
        return false;
    return now_ms >= f->deadline_ms || (f->lease_ms > 0 && f->deadline_ms - now_ms > f->lease_ms);
}

bool fence_valid(struct fence *f, int64_t now_ms)
{
    if (!f->args->lease)
        return true;
    look(f);
    if (must_watch(f, now_ms)) {
        watch(f);
        look(f);
    }
    if (!must_watch(f, now_ms))
        unwatch(f);
    return now_ms < f->deadline_ms;
}

int64_t fence_due(const struct fence *f, int64_t now_ms)
{
    if (f->deadline_ms == INT64_MAX)
        return 0;
    if (must_watch(f, now_ms) && f->inotify_fd < 0)
        return now_ms + RECHECK_MS;
    return now_ms < f->deadline_ms ? f->deadline_ms : 0;
}

void fence_drain(struct fence *f)
{
    char room[1024] __attribute__((aligned(__alignof__(struct inotify_event))));
    bool gone = false;
    ssize_t n;
    while ((n = read(f->inotify_fd, room, sizeof(room))) > 0)
        for (char *p = room; p < room + n;) {
            const struct inotify_event *ev = (const struct inotify_event *)(void *)p;
            gone |= (ev->mask & IN_IGNORED) != 0;
            p += sizeof(*ev) + ev->len;
        }
    if (gone) // the folder was removed: another one may come in its place
        unwatch(f);
}

static int64_t now_ms(void)
{
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

// A process stops when it is scheduled next: nothing tells us, so it gets the processor.
static bool freeze_until(const struct fence *f, int64_t end_ms)
{
    // The freezer of cgroup v1 may have to be asked again for what was forked meanwhile.
    while (!(f->by_group ? cgroup_freeze(f->args, true) && cgroup_frozen(f->args)
                         : child_stop_all())) {
        if (now_ms() > end_ms)
            return false;
        (void)sched_yield();
    }
    return true;
}

int fence_freeze(struct fence *f)
{
    int64_t start = now_ms();
    f->frozen = true;
    f->by_group = cgroup_freeze(f->args, true);
    if (f->by_group && freeze_until(f, start + GROUP_MS))
        return 0;
    if (f->by_group)
        (void)cgroup_freeze(f->args, false);
    f->by_group = false;
    return freeze_until(f, start + FREEZE_MS) ? 0 : -ETIME;
}

void fence_thaw(struct fence *f)
{
    if (f->by_group)
        (void)cgroup_freeze(f->args, false);
    else
        child_continue_all();
    f->frozen = false;
}
