// SPDX-License-Identifier: Apache-2.0
// Each folder is made closed, filled, and only then given to its user, so nobody meets a half
// written one. tmpfs can be swapped out; who minds encrypts the swap (docs/security.md).
#include "node-agent/secrets.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "proto/attempt_secret.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <openssl/crypto.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

static bool in_memory(const char *path)
{
    struct statfs fs;
    return statfs(path, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

static mode_t folder_mode(void)
{
    return geteuid() == 0 ? 0711 : 0700; // tasks of other users pass through to their own
}

// In a place where anybody may make folders: it must be ours.
static int own_folder(const char *path, struct err *e)
{
    struct stat st;
    if (mkdir(path, folder_mode()) < 0 && errno != EEXIST)
        return err_errno(e, -errno, "make %s", path);
    if (lstat(path, &st) < 0)
        return err_errno(e, -errno, "%s", path);
    if (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || (st.st_mode & 022))
        return err_set(e, -EPERM, "%s: somebody else made it", path);
    return chmod(path, folder_mode()) < 0 ? err_errno(e, -errno, "chmod %s", path) : 0;
}

// FNV-1a: agents of one machine side by side differ by their state folder.
static uint32_t hash_of(const char *text)
{
    uint32_t h = 2166136261u;
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * 16777619u;
    return h;
}

int secrets_folder(const char *run_dir, const char *state_dir, char out[SECRETS_PATH_BYTES],
                   struct err *e)
{
    if (in_memory(run_dir))
        (void)snprintf(out, SECRETS_PATH_BYTES, "%.120s/secrets", run_dir);
    else if (in_memory("/dev/shm"))
        (void)snprintf(out, SECRETS_PATH_BYTES, "/dev/shm/meadow-%u-%08x", (unsigned)geteuid(),
                       hash_of(state_dir));
    else
        return err_set(e, -ENODEV,
                       "neither %s nor /dev/shm is tmpfs: this node can't hold secrets in memory",
                       run_dir);
    return own_folder(out, e);
}

void secrets_path(const char *folder, const char *id, char out[SECRETS_PATH_BYTES])
{
    (void)snprintf(out, SECRETS_PATH_BYTES, "%.150s/%.40s", folder, id);
}

static int write_one(int dir, const struct attempt_spec *spec, const struct attempt_secret *s)
{
    cleanup_close int fd =
        openat(dir, s->name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
    int r = fd < 0 ? -errno : write_all(fd, s->value, s->len);
    if (r == 0 && geteuid() == 0 && fchown(fd, (uid_t)spec->uid, (gid_t)spec->gid) < 0)
        r = -errno;
    return r;
}

static int write_all_of(int dir, struct attempt_spec *spec, struct err *e)
{
    for (size_t i = 0; i < spec->n_secrets; i++) {
        struct attempt_secret *s = &spec->secrets[i];
        if (!s->value)
            return err_set(e, -ENOKEY, "%s has no secret \"%s\" any more", spec->user, s->name);
        int r = secret_name_ok(s->name) ? write_one(dir, spec, s) : -EINVAL;
        if (r < 0)
            return err_errno(e, r, "write secret \"%s\"", s->name);
        OPENSSL_cleanse(s->value, s->len);
    }
    if (geteuid() == 0 && fchown(dir, (uid_t)spec->uid, (gid_t)spec->gid) < 0)
        return err_errno(e, -errno, "give the secrets to uid %lld", (long long)spec->uid);
    return fchmod(dir, 0500) < 0 ? err_errno(e, -errno, "close the secrets") : 0;
}

int secrets_write(const char *folder, struct attempt_spec *spec, struct err *e)
{
    char path[SECRETS_PATH_BYTES];
    if (spec->n_secrets == 0)
        return 0;
    secrets_path(folder, spec->id, path);
    secrets_remove(folder, spec->id);
    if (mkdir(path, 0700) < 0)
        return err_errno(e, -errno, "make %s", path);
    cleanup_close int dir = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int r = dir < 0 ? err_errno(e, -errno, "open %s", path) : write_all_of(dir, spec, e);
    if (r < 0)
        secrets_remove(folder, spec->id);
    return r;
}

void secrets_remove(const char *folder, const char *id)
{
    char path[SECRETS_PATH_BYTES];
    struct err e;
    if (!*folder || !*id || strchr(id, '/') || id[0] == '.')
        return;
    secrets_path(folder, id, path);
    (void)chmod(path, 0700); // without being root its own 0500 would keep us out
    if (remove_tree(path, &e) < 0)
        log_warn("secrets", "%s", e.text);
}

void secrets_sweep(const char *folder, bool (*keep)(const char *id, void *userdata), void *userdata)
{
    const struct dirent *entry;
    DIR *dir = *folder ? opendir(folder) : NULL;
    if (!dir)
        return;
    while ((entry = readdir(dir))) {
        if (entry->d_name[0] == '.' || keep(entry->d_name, userdata))
            continue;
        log_info("secrets", "removing those of attempt %s, which is over", entry->d_name);
        secrets_remove(folder, entry->d_name);
    }
    (void)closedir(dir);
}
