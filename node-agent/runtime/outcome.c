// SPDX-License-Identifier: Apache-2.0
// Status of an attempt from what meadow-init left in its out folder.
#include "node-agent/runtime/outcome.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/log.h"

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#define INIT_FAILED 125 // exit code of meadow-init when it could not do its work

static void begin(const char *id, enum attempt_state state, struct attempt_status *ret)
{
    *ret = (struct attempt_status){.state = state, .logs = LOGS_OPEN};
    (void)snprintf(ret->id, sizeof(ret->id), "%s", id);
}

void outcome_running(const struct attempt_dirs *d, const char *id, struct attempt_status *ret)
{
    pid_t pid;
    int64_t ms;
    begin(id, ATTEMPT_RUNNING, ret);
    if (attempt_started_read(d, id, &pid, &ms) == 0)
        ret->started_ms = ms;
    ret->health = attempt_health_read(d, id);
}

static bool stop_was_asked(const struct attempt_dirs *d, const char *id)
{
    char path[ATTEMPT_PATH_BYTES];
    attempt_path(d, id, "out/stop", path);
    return access(path, F_OK) == 0;
}

// What the agent wrote of an end that nobody saw has no exit code.
static bool was_seen(enum attempt_cause cause)
{
    return cause != CAUSE_UNKNOWN && cause != CAUSE_NEVER_STARTED && cause != CAUSE_NODE_LOST &&
           cause != CAUSE_ENGINE;
}

int outcome_ended(const struct attempt_dirs *d, const char *id, struct attempt_status *ret)
{
    struct exit_record rec;
    int r = attempt_exit_read(d, id, &rec, NULL);
    if (r < 0)
        return r;
    begin(id, ATTEMPT_ENDED, ret);
    ret->cause = rec.cause;
    ret->health = attempt_health_read(d, id);
    ret->oom = rec.cause == CAUSE_OOM;
    ret->exit_code = rec.code;
    ret->has_exit = was_seen(rec.cause);
    ret->signal = rec.signal;
    ret->started_ms = rec.started_ms;
    ret->ended_ms = rec.ended_ms;
    (void)snprintf(ret->reason, sizeof(ret->reason), "%s", rec.text);
    if (rec.cause == CAUSE_STOPPED && !stop_was_asked(d, id)) {
        // The engine's end, the machine's shutdown, a person: not the master, so this must not
        // count as its stop.
        ret->cause = CAUSE_UNKNOWN;
        (void)snprintf(ret->reason, sizeof(ret->reason), "told to stop by somebody on the node");
    }
    return 0;
}

void outcome_failed(const struct attempt_dirs *d, const char *id, enum attempt_cause cause,
                    const char *reason, struct attempt_status *ret)
{
    outcome_running(d, id, ret);
    ret->state = ATTEMPT_ENDED;
    ret->cause = cause;
    ret->ended_ms = clock_real_ms();
    (void)snprintf(ret->reason, sizeof(ret->reason), "%s", reason);
}

// The first line that meadow-init wrote to out/init.log, or `fallback`.
static void init_text(const struct attempt_dirs *d, const char *id, const char *fallback, char *out,
                      size_t size)
{
    char path[ATTEMPT_PATH_BYTES], text[200];
    attempt_path(d, id, "out/init.log", path);
    cleanup_close int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
    (void)snprintf(out, size, "%s", text[0] ? text : fallback);
}

void outcome_unseen(const struct attempt_dirs *d, const char *id, int init_status,
                    struct attempt_status *ret)
{
    char text[200];
    pid_t pid;
    int64_t ms;
    bool started = attempt_started_read(d, id, &pid, &ms) == 0;
    bool failed = WIFEXITED(init_status) && WEXITSTATUS(init_status) == INIT_FAILED;
    if (started || !failed) {
        outcome_failed(d, id, CAUSE_UNKNOWN, "its supervisor was killed", ret);
        return;
    }
    init_text(d, id, "meadow-init failed", text, sizeof(text));
    outcome_failed(d, id, CAUSE_ENGINE, text, ret);
}

bool outcome_bar_start(const struct attempt_dirs *d, const char *id, enum attempt_cause cause,
                       const char *why)
{
    struct exit_record record;
    struct err e;
    pid_t pid;
    int64_t ms;
    cleanup_close int lock = attempt_lock(d, id);
    if (lock == -EWOULDBLOCK)
        return false;
    if (attempt_exit_read(d, id, &record, NULL) == 0)
        return true;
    if (attempt_started_read(d, id, &pid, &ms) == 0)
        return false;
    if (attempt_verdict_write(d, id, cause, why, &e) < 0)
        log_error("runtime", "attempt %s: %s", id, e.text);
    return true;
}

void outcome_mark_oom(struct attempt_status *s)
{
    s->oom = true;
    if (s->cause == CAUSE_EXIT && s->exit_code == 128 + SIGKILL)
        s->cause = CAUSE_OOM;
}

void outcome_write_stop(const struct attempt_dirs *d, const char *id, int64_t grace_ms)
{
    char path[ATTEMPT_PATH_BYTES], text[32] = "\n";
    attempt_path(d, id, "out/stop", path);
    if (grace_ms >= 0)
        (void)snprintf(text, sizeof(text), "%" PRId64 "\n", grace_ms);
    cleanup_close int fd =
        open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        log_warn("runtime", "attempt %s: cannot write %s: %s", id, path, strerror(errno));
}
