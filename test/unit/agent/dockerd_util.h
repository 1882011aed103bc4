// SPDX-License-Identifier: Apache-2.0
// A dockerd of the test's own in a temporary folder, with a small image from the machine's busybox.
// Without root or dockerd the tests that need it are skipped with a message.
#pragma once

#include "test/unit/agent/init_util.h"

#include "common/err.h"

#include <fcntl.h>
#include <sys/stat.h>

#define TEST_IMAGE "meadow-test:1"

struct dockerd {
    char dir[64];
    char socket[96];
    pid_t pid;
};

static struct dockerd dockerd;

// Runs a shell command; its exit code. The output goes to `out` when given.
UNUSED PRINTF_LIKE(3, 4) static int shell(char *out, size_t size, const char *fmt, ...)
{
    char command[2048];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(command, sizeof(command), fmt, ap);
    va_end(ap);
    FILE *p = popen(command, "r");
    if (!p)
        return -1;
    size_t n = out ? fread(out, 1, size - 1, p) : 0;
    if (out)
        out[n] = '\0';
    int status = pclose(p);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// GET or another method on the engine, by curl.
UNUSED static int engine_call(char *out, size_t size, const char *method, const char *path)
{
    return shell(out, size,
                 "curl -sS -g --max-time 60 --retry 20 --retry-delay 1 --retry-connrefused "
                 "--unix-socket %s -X %s 'http://e%s'",
                 dockerd.socket, method, path);
}

UNUSED static void dockerd_spawn(void)
{
    char text[256], log[96], stale[96];
    (void)snprintf(log, sizeof(log), "%s/log", dockerd.dir);
    (void)unlink(dockerd.socket);
    // containerd dies with a killed dockerd, but may stay a zombie for a while, which dockerd takes
    // for a living one.
    (void)snprintf(stale, sizeof(stale), "%s/exec/containerd/containerd.pid", dockerd.dir);
    (void)unlink(stale);
    dockerd.pid = fork();
    if (dockerd.pid == 0) {
        char data[96], exec_root[96], pid[96], host[128];
        int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0644);
        (void)setsid();
        (void)dup2(fd, 1);
        (void)dup2(fd, 2);
        (void)snprintf(data, sizeof(data), "%s/data", dockerd.dir);
        (void)snprintf(exec_root, sizeof(exec_root), "%s/exec", dockerd.dir);
        (void)snprintf(pid, sizeof(pid), "%s/pid", dockerd.dir);
        (void)snprintf(host, sizeof(host), "unix://%s", dockerd.socket);
        (void)unlink(pid);
        (void)execlp("dockerd", "dockerd", "--data-root", data, "--exec-root", exec_root, "-p", pid,
                     "-H", host, "--iptables=false", "--bridge=none", NULL);
        _exit(127);
    }
    char events[4096]; // no ck_assert here: main() comes by too
    cleanup_close int fd = inotify_init1(IN_CLOEXEC);
    (void)inotify_add_watch(fd, dockerd.dir, IN_CREATE);
    while (access(dockerd.socket, F_OK) < 0 && read(fd, events, sizeof(events)) > 0)
        ;
    (void)engine_call(text, sizeof(text), "GET", "/_ping");
}

// One image from the tree in img.tar; `changes` is a URL-encoded Dockerfile line, or "".
static bool import_image(const char *name, const char *changes)
{
    char out[1024];
    return shell(out, sizeof(out),
                 "curl -sS --unix-socket %s -X POST --data-binary @%s/img.tar -H 'Content-Type: "
                 "application/x-tar' "
                 "'http://e/images/create?fromSrc=-&repo=%s&tag=1%s'",
                 dockerd.socket, dockerd.dir, name, changes) == 0 &&
           strstr(out, "sha256:");
}

UNUSED static bool make_images(void)
{
    return shell(NULL, 0,
                 "cd %s && mkdir -p img/bin img/tmp && cp /bin/busybox img/bin/ && for a in sh cat "
                 "echo sleep head "
                 "tail env touch id kill true setsid hostname ls; do ln -sf busybox img/bin/$a; "
                 "done && "
                 "tar -C img -c . > img.tar",
                 dockerd.dir) == 0 &&
           import_image("meadow-test", "") && import_image("meadow-user", "&changes=USER%201234") &&
           import_image("meadow-own",
                        "&changes=ENTRYPOINT%20%5B%22/bin/"
                        "sh%22,%22-c%22%5D&changes=CMD%20%5B%22echo%20the%20image%22%5D");
}

UNUSED static void dockerd_stop(void)
{
    char path[96], line[32] = "";
    (void)snprintf(path, sizeof(path), "%s/pid", dockerd.dir);
    FILE *f = fopen(path, "r"); // a test may have replaced the one that we started
    pid_t pid = f && fgets(line, sizeof(line), f) ? (pid_t)atoi(line) : dockerd.pid;
    if (f)
        (void)fclose(f);
    if (pid != dockerd.pid)
        (void)waitpid(dockerd.pid, NULL, 0);
    (void)kill(pid, SIGTERM);
    (void)waitpid(pid, NULL, 0);
    while (waitpid(-1, NULL, WNOHANG) > 0) // what a killed engine left to us
        ;
    // An engine that was killed leaves mounts and the parents of its containers.
    (void)shell(NULL, 0, "test/lib/dockerd.sh stop %s", dockerd.dir);
    remove_folder(dockerd.dir);
}

// False (and a message) when containers cannot be tested here.
UNUSED static bool dockerd_start(void)
{
    if (geteuid() != 0 ||
        shell(NULL, 0, "command -v dockerd curl >/dev/null && test -x /bin/busybox") != 0) {
        printf("skipped: containers (needs root, dockerd, curl and busybox)\n");
        return false;
    }
    (void)snprintf(dockerd.dir, sizeof(dockerd.dir), "/tmp/meadow-test-XXXXXX");
    if (!mkdtemp(dockerd.dir))
        return false;
    (void)snprintf(dockerd.socket, sizeof(dockerd.socket), "%s/s", dockerd.dir);
    dockerd_spawn();
    if (make_images())
        return true;
    printf("failed: no test image could be made\n");
    dockerd_stop();
    exit(1);
}
