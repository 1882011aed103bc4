// SPDX-License-Identifier: Apache-2.0
// The folders and files of an attempt. A claim is exclusive, and durable with all folders above it
// before anything is started; one that a crash cut short counts as none. What lies in out/ may have
// been written by the task itself, so links, pipes and oversized files there are never followed.
#include "node-agent/attempt_dir.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/strbuf.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#define CLAIM_LIMIT (4u << 20)
#define RECORD_BYTES 1024
#define RECORD_ROOM 512 // as meadow-init reserves it
#define LEASE_LINE 160

static void path_in(const char *top, const char *id, const char *leaf, char out[ATTEMPT_PATH_BYTES])
{
    (void)snprintf(out, ATTEMPT_PATH_BYTES, "%s/attempts/%s%s%s", top, id, *leaf ? "/" : "", leaf);
}

void attempt_path(const struct attempt_dirs *d, const char *id, const char *leaf,
                  char out[ATTEMPT_PATH_BYTES])
{
    path_in(d->state, id, leaf, out);
}

void attempt_run_path(const struct attempt_dirs *d, const char *id, const char *leaf,
                      char out[ATTEMPT_PATH_BYTES])
{
    path_in(d->run, id, leaf, out);
}

static int sync_folder(const char *path, struct err *e)
{
    cleanup_close int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd) < 0)
        return err_errno(e, -errno, "sync folder %s", path);
    return 0;
}

// As root, everything that the task and its init write belongs to the task's user, and nobody else
// may look in. Any other agent can't give files away: there the folders above are closed instead,
// and an engine's container may write whoever it is.
static bool gives_away(const struct attempt_spec *spec)
{
    return geteuid() == 0 && spec->uid >= 0;
}

static int make_own(const struct attempt_spec *spec, const char *path, mode_t otherwise,
                    struct err *e)
{
    mode_t mode = gives_away(spec) ? 0700 : otherwise;
    int r = make_dirs(path, mode, e);
    if (r < 0)
        return r;
    // Also where it is there already (a claim that a crash cut short).
    if (chmod(path, mode) < 0 ||
        (gives_away(spec) && lchown(path, (uid_t)spec->uid, (gid_t)spec->gid) < 0))
        return err_errno(e, -errno, "give %s to uid %" PRId64, path, spec->uid);
    return 0;
}

static int make_folders(const struct attempt_dirs *d, const struct attempt_spec *spec,
                        struct err *e)
{
    char path[ATTEMPT_PATH_BYTES];
    mode_t above = gives_away(spec) ? 0711 : 0700;
    (void)snprintf(path, sizeof(path), "%s/attempts", d->state);
    int r = make_dirs(path, above, e);
    attempt_path(d, spec->id, "", path);
    if (r == 0)
        r = make_dirs(path, above, e);
    attempt_path(d, spec->id, "work", path);
    if (r == 0)
        r = make_own(spec, path, 0700, e);
    attempt_path(d, spec->id, "out", path);
    if (r == 0)
        r = make_own(spec, path, 0777, e);
    attempt_run_path(d, spec->id, "", path);
    return r < 0 ? r : make_dirs(path, 0755, e);
}

// Files that meadow-init needs before it starts the command, made here (off the agent's loop) with
// their room: what is not created later cannot wait for a disk that is busy syncing. For any user,
// as the folder is.
static int make_records(const struct attempt_dirs *d, const struct attempt_spec *spec,
                        struct err *e)
{
    static const char *const names[] = {"out/init.lock", "out/started.tmp", "out/exit.tmp"};
    static const char room[RECORD_ROOM];
    char path[ATTEMPT_PATH_BYTES];
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        attempt_path(d, spec->id, names[i], path);
        cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0666);
        int r = fd < 0 ? -errno : write_all(fd, room, sizeof(room));
        if (r == 0 && fchmod(fd, gives_away(spec) ? 0600 : 0666) < 0)
            r = -errno;
        if (r == 0 && gives_away(spec) && fchown(fd, (uid_t)spec->uid, (gid_t)spec->gid) < 0)
            r = -errno;
        if (r < 0)
            return err_errno(e, r, "create %s", path);
    }
    return 0;
}

// The claim ends with a newline: one without it was cut by a crash before it was durable, so
// nothing was started.
static int write_claim(const struct attempt_dirs *d, const struct attempt_spec *spec,
                       const char *text, struct err *e)
{
    const char *id = spec->id;
    char path[ATTEMPT_PATH_BYTES];
    attempt_path(d, id, "claim.json", path);
    cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(e, -errno, "claim attempt %s", id);
    int r = make_records(d, spec, e);
    if (r < 0)
        return r;
    r = write_all(fd, text, strlen(text));
    r = r ? r : write_all(fd, "\n", 1);
    if (r == 0 && fsync(fd) < 0)
        r = -errno;
    if (r < 0)
        return err_errno(e, r, "write %s", path);
    attempt_path(d, id, "", path);
    r = sync_folder(path, e);
    if (r == 0) {
        *strrchr(path, '/') = '\0';
        r = sync_folder(path, e);
    }
    return r;
}

int attempt_claim(const struct attempt_dirs *d, const struct attempt_spec *spec, struct err *e)
{
    cleanup_json json_t *json = attempt_spec_to_json(spec);
    if (d->boot_id[0])
        json_put_str(json, "boot_id", d->boot_id);
    cleanup_free char *text = json ? json_text(json) : NULL;
    if (!text)
        return err_set(e, -ENOMEM, "claim attempt %s: out of memory", spec->id);
    int r = make_folders(d, spec, e);
    return r < 0 ? r : write_claim(d, spec, text, e);
}

static int read_claim(const struct attempt_dirs *d, const char *id, json_t **ret, struct err *e)
{
    char path[ATTEMPT_PATH_BYTES];
    cleanup_free char *text = NULL;
    size_t len;
    attempt_path(d, id, "claim.json", path);
    int r = atomic_file_read(path, CLAIM_LIMIT, &text, &len, e);
    return r < 0 ? r : json_parse(text, len, ret, e);
}

// 0: of this boot; 1: of an earlier one; -1: not known.
static int compare_boot(const struct attempt_dirs *d, const char *id)
{
    cleanup_json json_t *json = NULL;
    struct err e;
    if (!d->boot_id[0] || read_claim(d, id, &json, &e) < 0)
        return -1;
    const char *boot_id = json_opt_str(json, "boot_id", NULL);
    return boot_id ? strcmp(boot_id, d->boot_id) != 0 : -1;
}

bool attempt_of_earlier_boot(const struct attempt_dirs *d, const char *id)
{
    return compare_boot(d, id) == 1;
}

bool attempt_of_this_boot(const struct attempt_dirs *d, const char *id)
{
    return compare_boot(d, id) == 0;
}

int attempt_claim_read(const struct attempt_dirs *d, const char *id, struct attempt_spec **ret,
                       struct err *e)
{
    cleanup_json json_t *json = NULL;
    int r = read_claim(d, id, &json, e);
    if (r == -ENOENT)
        return r;
    if (r == 0)
        r = attempt_spec_from_json(json, ret, e);
    return r < 0 ? err_wrap(e, r == -ENOMEM ? r : -EPROTO, "claim of attempt %s", id) : 0;
}

// Opens a file of out/ for reading: a regular one, or an error; never waits.
static int open_out(const struct attempt_dirs *d, const char *id, const char *leaf)
{
    char path[ATTEMPT_PATH_BYTES];
    struct stat st;
    attempt_path(d, id, leaf, path);
    int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ELOOP ? -EPROTO : -errno;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        (void)close(fd);
        return -EPROTO;
    }
    return fd;
}

static int read_record(const struct attempt_dirs *d, const char *id, const char *leaf,
                       char out[RECORD_BYTES])
{
    cleanup_close int fd = open_out(d, id, leaf);
    if (fd < 0)
        return fd;
    ssize_t n = pread(fd, out, RECORD_BYTES - 1, 0);
    if (n < 0)
        return -errno;
    out[n] = '\0';
    return 0;
}

static bool has_started(const struct attempt_dirs *d, const char *id)
{
    char line[RECORD_BYTES];
    pid_t pid;
    return attempt_init_alive(d, id, &pid) || read_record(d, id, "out/started", line) == 0 ||
           read_record(d, id, "out/exit", line) == 0;
}

// One that was cut is none, unless it did its work: then it was damaged later.
static bool has_claim(const struct attempt_dirs *d, const char *id)
{
    char path[ATTEMPT_PATH_BYTES], last = 0;
    struct stat st;
    attempt_path(d, id, "claim.json", path);
    cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fstat(fd, &st) < 0)
        return true;
    bool whole =
        fd >= 0 && st.st_size > 0 && (pread(fd, &last, 1, st.st_size - 1) != 1 || last == '\n');
    return whole || has_started(d, id);
}

static int list_folder(DIR *dir, const struct attempt_dirs *d, struct strbuf *ids)
{
    const struct dirent *entry;
    errno = 0;
    while ((entry = readdir(dir))) {
        char id[ATTEMPT_ID_BYTES] = "";
        size_t len = strlen(entry->d_name);
        if (entry->d_name[0] == '.' || len >= sizeof(id))
            continue;
        memcpy(id, entry->d_name, len);
        if (has_claim(d, id))
            strbuf_append(ids, id, sizeof(id));
        errno = 0;
    }
    return -errno;
}

int attempt_claims_list(const struct attempt_dirs *d, char (**ret)[ATTEMPT_ID_BYTES], size_t *ret_n,
                        struct err *e)
{
    char path[ATTEMPT_PATH_BYTES];
    cleanup_strbuf struct strbuf ids = {0};
    (void)snprintf(path, sizeof(path), "%s/attempts", d->state);
    DIR *dir = opendir(path);
    if (!dir && errno != ENOENT)
        return err_errno(e, -errno, "list %s", path);
    if (dir) {
        int r = list_folder(dir, d, &ids);
        (void)closedir(dir);
        if (r < 0)
            return err_errno(e, r, "list %s", path);
    }
    size_t n = ids.len / ATTEMPT_ID_BYTES;
    char *items = strbuf_take(&ids);
    if (!items)
        return err_set(e, -ENOMEM, "list %s: out of memory", path);
    *ret = (char(*)[ATTEMPT_ID_BYTES])(void *)items;
    *ret_n = n;
    return 0;
}

int attempt_remove(const struct attempt_dirs *d, const char *id, struct err *e)
{
    char path[ATTEMPT_PATH_BYTES];
    if (!*id || strchr(id, '/') || id[0] == '.')
        return err_set(e, -EINVAL, "\"%s\" is no attempt id", id);
    attempt_run_path(d, id, "", path);
    int r = remove_tree(path, e);
    if (r < 0)
        return r;
    attempt_path(d, id, "", path);
    return remove_tree(path, e);
}

int attempt_exit_read(const struct attempt_dirs *d, const char *id, struct exit_record *ret,
                      struct err *e)
{
    char line[RECORD_BYTES], cause[32];
    struct exit_record rec = {0};
    int at = -1;
    int r = read_record(d, id, "out/exit", line);
    if (r < 0)
        return err_errno(e, r, "exit record of attempt %s", id);
    if (sscanf(line, "%d %d %31s %" SCNd64 " %" SCNd64 "%n", &rec.code, &rec.signal, cause,
               &rec.started_ms, &rec.ended_ms, &at) != 5 ||
        at < 0 || attempt_cause_from_string(cause, &rec.cause) < 0 || !strchr(line, '\n'))
        return err_set(e, -EPROTO, "exit record of attempt %s is damaged", id);
    const char *text = line + at + (line[at] == ' ');
    (void)snprintf(rec.text, sizeof(rec.text), "%.*s", (int)strcspn(text, "\n"), text);
    rec.logs_lost = strstr(text, "\nlogs lost\n") != NULL;
    *ret = rec;
    return 0;
}

int attempt_started_read(const struct attempt_dirs *d, const char *id, pid_t *ret_pid,
                         int64_t *ret_ms)
{
    char line[RECORD_BYTES];
    int pid;
    int64_t ms;
    int r = read_record(d, id, "out/started", line);
    if (r < 0)
        return r;
    if (sscanf(line, "%d %" SCNd64, &pid, &ms) != 2)
        return -EPROTO;
    *ret_pid = pid;
    *ret_ms = ms;
    return 0;
}

enum health_word attempt_health_read(const struct attempt_dirs *d, const char *id)
{
    char line[RECORD_BYTES];
    enum health_word word;
    if (read_record(d, id, "out/health", line) < 0)
        return HEALTH_WORD_NONE;
    line[strcspn(line, "\n")] = '\0';
    return health_word_from_string(line, &word) == 0 ? word : HEALTH_WORD_NONE;
}

bool attempt_init_alive(const struct attempt_dirs *d, const char *id, pid_t *ret_pid)
{
    char text[32] = "";
    int pid = 0;
    cleanup_close int fd = open_out(d, id, "out/init.lock");
    if (fd < 0 || flock(fd, LOCK_SH | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return false;
    // The lock can be held a moment before the pid is in the file: 0 then.
    if (pread(fd, text, sizeof(text) - 1, 0) <= 0 || sscanf(text, "%d", &pid) != 1 || pid < 0)
        pid = 0;
    *ret_pid = pid;
    return true;
}

int attempt_lock(const struct attempt_dirs *d, const char *id)
{
    cleanup_close int fd = open_out(d, id, "out/init.lock");
    if (fd < 0)
        return fd;
    return flock(fd, LOCK_EX | LOCK_NB) < 0 ? -errno : TAKE_FD(fd);
}

int attempt_verdict_write(const struct attempt_dirs *d, const char *id, enum attempt_cause cause,
                          const char *text, struct err *e)
{
    char path[ATTEMPT_PATH_BYTES], line[RECORD_ROOM];
    int64_t now = clock_real_ms();
    attempt_path(d, id, "out", path);
    if (access(path, F_OK) < 0)
        return 0;
    attempt_path(d, id, "out/exit", path);
    int len = snprintf(line, sizeof(line), "0 0 %s %" PRId64 " %" PRId64 " %.199s\n",
                       attempt_cause_to_string(cause), now, now, text);
    return atomic_file_write(path, line, (size_t)len, 0644, e);
}

// Writes the file of a lease over what it held: as long as that was, so it needs no room. Not
// synced: after a crash of the machine the boot id has changed and the lease means nothing.
static int write_over(const char *path, const char *line)
{
    cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    return fd < 0 ? -errno : write_all(fd, line, LEASE_LINE);
}

// The folder is gone though the attempt is there: a person removed it. Without a lease the attempt
// would freeze, so it is made again (a container goes on seeing the old one).
static int lease_folder_again(const struct attempt_dirs *d, const char *id)
{
    char path[ATTEMPT_PATH_BYTES];
    struct err e;
    attempt_path(d, id, "", path);
    if (access(path, F_OK) < 0)
        return -ENOENT;
    attempt_run_path(d, id, "", path);
    int r = make_dirs(path, 0755, &e);
    if (r == 0)
        log_warn("lease",
                 "attempt %s: %s was removed by somebody: made again; a container does not see the "
                 "new one and freezes when its lease is over",
                 id, path);
    return r;
}

int attempt_lease_write(const struct attempt_dirs *d, const char *id, const char *boot_id,
                        int64_t deadline_boot_ms, int64_t lease_ms, struct err *e)
{
    char temp[ATTEMPT_PATH_BYTES], path[ATTEMPT_PATH_BYTES];
    char line[LEASE_LINE + 1], text[LEASE_LINE];
    attempt_run_path(d, id, "lease.tmp", temp);
    attempt_run_path(d, id, "lease", path);
    (void)snprintf(text, sizeof(text), "meadow-lease 1 %s %s %" PRId64 " %" PRId64, id, boot_id,
                   deadline_boot_ms, lease_ms);
    (void)snprintf(line, sizeof(line), "%-*s\n", LEASE_LINE - 1, text);
    int r = write_over(temp, line);
    if (r == -ENOENT && lease_folder_again(d, id) == 0)
        r = write_over(temp, line);
    if (r == 0 && renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_EXCHANGE) == 0)
        return 0;
    if (r == 0) // the first one, or a file system that can't exchange
        r = rename(temp, path) < 0 ? -errno : 0;
    if (r < 0)
        return err_errno(e, r, "write %s", path);
    (void)!write_over(temp, line); // for the next time
    return 0;
}
