// SPDX-License-Identifier: Apache-2.0
// Restoring an archive: unpacked beside the place, held against its manifest, then moved in, the
// identity last. Redis takes its dump as the base file of a new append-only file.
#include "master/backup/archive.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "master/backup/archive_files.h"

#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MANIFEST_LIMIT (16u << 20)
#define AOF_BASE "appendonly.aof.1.base.rdb"

struct restoring {
    const char *data_dir;
    char stage[PATH_MAX];
    struct stat owner; // of the data folder
    int lock;
};

static int path_in(char out[PATH_MAX], const char *dir, const char *leaf, struct err *e)
{
    return snprintf(out, PATH_MAX, "%s/%s", dir, leaf) < PATH_MAX
               ? 0
               : err_set(e, -ENAMETOOLONG, "%s/%s: the path is too long", dir, leaf);
}

static int is_empty(const struct restoring *x, struct err *e)
{
    static const char *const parts[] = {"identity", "redis"};
    char path[PATH_MAX];
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        int r = path_in(path, x->data_dir, parts[i], e);
        if (r < 0)
            return r;
        if (access(path, F_OK) == 0)
            return err_set(e, -EEXIST,
                           "%s exists: a backup is restored into an empty folder only; move what "
                           "is there away first",
                           path);
    }
    return 0;
}

// --- the manifest ---

static int check_file(const struct restoring *x, const json_t *file, struct err *e)
{
    char path[PATH_MAX], hex[65];
    int64_t size;
    const char *name = json_opt_str(file, "path", "");
    if (!name[0] || name[0] == '/' || strstr(name, ".."))
        return err_set(e, -EPROTO, "its manifest names a file \"%.80s\"", name);
    int r = path_in(path, x->stage, name, e);
    if (r == 0)
        r = archive_digest(path, hex, &size, e);
    if (r == 0 && (size != json_opt_i64(file, "size", -1) ||
                   strcmp(hex, json_opt_str(file, "sha256", "")) != 0))
        return err_set(e, -EPROTO, "%s in it is not what was backed up", name);
    return r == -ENOENT ? err_set(e, -EPROTO, "%s is missing in it", name) : r;
}

static int check_manifest(const struct restoring *x, struct err *e)
{
    char path[PATH_MAX];
    cleanup_free char *text = NULL;
    const json_t *file;
    size_t i, len;
    int r = path_in(path, x->stage, ARCHIVE_MANIFEST, e);
    if (r == 0)
        r = atomic_file_read(path, MANIFEST_LIMIT, &text, &len, e);
    if (r < 0)
        return r == -ENOENT ? err_set(e, -EPROTO, "it has no " ARCHIVE_MANIFEST) : r;
    cleanup_json json_t *m = json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL);
    const json_t *files = json_object_get(m, "files");
    int64_t format = json_opt_i64(m, "format", 0);
    if (!json_array_size(files) || format < 1)
        return err_set(e, -EPROTO, "its " ARCHIVE_MANIFEST " can't be read");
    if (format > ARCHIVE_FORMAT)
        return err_set(e, -EPROTO, "its format is %lld, this version knows up to %d: use meadow %s",
                       (long long)format, ARCHIVE_FORMAT, json_opt_str(m, "version", "?"));
    json_array_foreach (files, i, file)
        if ((r = check_file(x, file, e)) < 0)
            return r;
    return 0;
}

// --- moving in ---

// The dump becomes what a multi-part append-only file begins with (Redis 7: a base of type "b").
static int make_append_only(const struct restoring *x, struct err *e)
{
    static const char manifest[] = "file " AOF_BASE " seq 1 type b\n";
    char dump[PATH_MAX], folder[PATH_MAX], path[PATH_MAX];
    int r = path_in(dump, x->stage, ARCHIVE_STORE, e);
    if (r == 0)
        r = path_in(folder, x->stage, ARCHIVE_FILES "/redis/appendonlydir", e);
    if (r == 0)
        r = make_dirs(folder, 0700, e);
    if (r == 0)
        r = path_in(path, folder, AOF_BASE, e);
    if (r == 0 && rename(dump, path) < 0)
        r = err_errno(e, -errno, "move %s", dump);
    if (r == 0)
        r = path_in(path, folder, "appendonly.aof.manifest", e);
    return r == 0 ? atomic_file_write(path, manifest, sizeof(manifest) - 1, 0600, e) : r;
}

static int settle_file(const char *relative, void *userdata, struct err *e)
{
    const struct restoring *x = userdata;
    char folder[PATH_MAX], path[PATH_MAX];
    int r = path_in(folder, x->stage, ARCHIVE_FILES, e);
    if (r == 0)
        r = path_in(path, folder, relative, e);
    return r == 0 ? archive_sync(path, e) : r;
}

static int give_to_owner(const struct restoring *x, struct err *e)
{
    char owner[48];
    if (geteuid() != 0)
        return 0;
    if (fchown(x->lock, x->owner.st_uid, x->owner.st_gid) < 0)
        return err_errno(e, -errno, "give %s/lock to its owner", x->data_dir);
    (void)snprintf(owner, sizeof(owner), "%u:%u", x->owner.st_uid, x->owner.st_gid);
    const char *const argv[] = {"chown", "--recursive", "--no-dereference", owner, x->stage, NULL};
    return archive_run(argv, e);
}

static int move_one(const struct restoring *x, const char *name, struct err *e)
{
    char from[PATH_MAX], to[PATH_MAX], below[300];
    (void)snprintf(below, sizeof(below), ARCHIVE_FILES "/%.255s", name);
    int r = path_in(from, x->stage, below, e);
    if (r == 0)
        r = path_in(to, x->data_dir, name, e);
    if (r == 0 && rename(from, to) < 0)
        r = err_errno(e, -errno, "move %s to %s", from, to);
    return r;
}

static int move_in(const struct restoring *x, struct err *e)
{
    char folder[PATH_MAX];
    int r = path_in(folder, x->stage, ARCHIVE_FILES, e);
    DIR *d = r == 0 ? opendir(folder) : NULL;
    if (!d)
        return r < 0 ? r : err_errno(e, -errno, "open %s", folder);
    for (const struct dirent *f; r == 0 && (f = readdir(d));)
        if (f->d_name[0] != '.' && strcmp(f->d_name, "identity") != 0)
            r = move_one(x, f->d_name, e);
    (void)closedir(d);
    if (r == 0)
        r = path_in(folder, x->data_dir, ARCHIVE_RESTORED, e);
    if (r == 0)
        r = atomic_file_write(folder, "", 0, 0600, e);
    if (r == 0)
        r = move_one(x, "identity", e);
    return r == 0 ? archive_sync(x->data_dir, e) : r;
}

static int unpack(struct restoring *x, const char *in, struct err *e)
{
    char files[PATH_MAX];
    const char *const argv[] = {
        "tar",         "--extract", "--file",          in,
        "--directory", x->stage,    "--no-same-owner", "--no-same-permissions",
        NULL};
    int r = archive_run(argv, e);
    if (r == 0)
        r = check_manifest(x, e);
    if (r < 0)
        return err_wrap(e, r, "%s", in);
    r = make_append_only(x, e);
    if (r == 0)
        r = path_in(files, x->stage, ARCHIVE_FILES, e);
    if (r == 0)
        r = archive_walk(files, settle_file, x, e);
    return r == 0 ? give_to_owner(x, e) : r;
}

int archive_restore(const struct master_config *c, const char *in, struct err *e)
{
    struct restoring x = {.data_dir = c->data_dir};
    char path[PATH_MAX];
    struct err ignored;
    cleanup_close int lock = -1;
    (void)umask(077);
    int r = make_dirs(c->data_dir, 0700, e);
    if (r == 0)
        r = path_in(path, c->data_dir, "lock", e);
    if (r == 0)
        r = lock_file(path, &lock, e);
    if (r < 0)
        return r == -EWOULDBLOCK
                   ? err_set(e, r, "%s: a master runs on it; stop it first", c->data_dir)
                   : r;
    r = is_empty(&x, e);
    if (r == 0)
        r = path_in(x.stage, c->data_dir, "restore.XXXXXX", e);
    if (r == 0 && (!mkdtemp(x.stage) || stat(c->data_dir, &x.owner) < 0))
        r = err_errno(e, -errno, "make a folder in %s", c->data_dir);
    if (r < 0)
        return r;
    x.lock = lock;
    r = unpack(&x, in, e);
    if (r == 0)
        r = move_in(&x, e);
    if (remove_tree(x.stage, &ignored) < 0 && r == 0)
        r = err_set(e, -EIO, "%s", ignored.text);
    return r;
}
