// SPDX-License-Identifier: Apache-2.0
// Writing an archive. Redis hands its state over as to a replica: one moment between two batches,
// while it goes on serving. The files are copied after it, so that no record needs a key that is
// not there.
#include "master/backup/archive.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "master/backup/archive_files.h"
#include "proto/version.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define FILE_LIMIT (64u << 20) // of one key file; none comes near

struct writing {
    const struct master_config *config;
    char stage[PATH_MAX]; // "" = none made
    json_t *files;
};

// The folders of the data folder that make the cluster this cluster. The store is dumped, logs are
// not kept, the rest is of this run only.
static bool is_kept(const char *relative)
{
    static const char *const tops[] = {"identity/"};
    for (size_t i = 0; i < ARRAY_SIZE(tops); i++)
        if (strncmp(relative, tops[i], strlen(tops[i])) == 0)
            return true;
    return false;
}

static int copy_file(const char *relative, void *userdata, struct err *e)
{
    struct writing *w = userdata;
    char from[PATH_MAX], to[PATH_MAX], *slash;
    cleanup_free char *data = NULL;
    size_t len;
    if (!is_kept(relative))
        return 0;
    if (snprintf(from, sizeof(from), "%s/%s", w->config->data_dir, relative) >= PATH_MAX ||
        snprintf(to, sizeof(to), "%s/" ARCHIVE_FILES "/%s", w->stage, relative) >= PATH_MAX)
        return err_set(e, -ENAMETOOLONG, "%s: the path is too long", relative);
    slash = strrchr(to, '/');
    *slash = '\0';
    int r = make_dirs(to, 0700, e);
    *slash = '/';
    if (r == 0)
        r = atomic_file_read(from, FILE_LIMIT, &data, &len, e);
    return r == 0 ? atomic_file_write(to, data, len, 0600, e) : r;
}

static int note_file(const char *relative, void *userdata, struct err *e)
{
    struct writing *w = userdata;
    char path[PATH_MAX], hex[65];
    int64_t size;
    if (snprintf(path, sizeof(path), "%s/%s", w->stage, relative) >= PATH_MAX)
        return err_set(e, -ENAMETOOLONG, "%s: the path is too long", relative);
    int r = archive_digest(path, hex, &size, e);
    if (r < 0)
        return r;
    json_t *file = json_object();
    json_put_str(file, "path", relative);
    json_put_i64(file, "size", size);
    json_put_str(file, "sha256", hex);
    return json_array_append_new(w->files, file) < 0 ? err_set(e, -ENOMEM, "out of memory") : 0;
}

static int dump_store(const struct writing *w, struct err *e)
{
    char socket[PATH_MAX], out[PATH_MAX];
    (void)snprintf(socket, sizeof(socket), "%s/redis.sock", w->config->run_dir);
    (void)snprintf(out, sizeof(out), "%.4000s/" ARCHIVE_STORE, w->stage);
    const char *const argv[] = {"redis-cli", "-s", socket, "--rdb", out, NULL};
    return archive_run(argv, e);
}

static int write_manifest(struct writing *w, struct err *e)
{
    char path[PATH_MAX];
    cleanup_json json_t *m = json_object();
    json_put_i64(m, "format", ARCHIVE_FORMAT);
    json_put_str(m, "version", MEADOW_VERSION);
    json_put_str(m, "name", w->config->name);
    json_put_time(m, "created_at", clock_real_ms());
    w->files = json_array();
    int r =
        w->files ? archive_walk(w->stage, note_file, w, e) : err_set(e, -ENOMEM, "out of memory");
    json_put(m, "files", w->files);
    cleanup_free char *text = r == 0 ? json_text(m) : NULL;
    if (!text)
        return r < 0 ? r : err_set(e, -ENOMEM, "out of memory");
    (void)snprintf(path, sizeof(path), "%.4000s/" ARCHIVE_MANIFEST, w->stage);
    return atomic_file_write(path, text, strlen(text), 0600, e);
}

// tar, then fsync, then the name.
static int pack(const struct writing *w, const char *out, struct err *e)
{
    char part[PATH_MAX], folder[PATH_MAX];
    if (snprintf(part, sizeof(part), "%s.part", out) >= PATH_MAX)
        return err_set(e, -ENAMETOOLONG, "%s: the path is too long", out);
    cleanup_close int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(e, -errno, "create %s", part);
    const char *const argv[] = {"tar",         "--create", "--file",         part,
                                "--directory", w->stage,   ARCHIVE_MANIFEST, ARCHIVE_STORE,
                                ARCHIVE_FILES, NULL};
    int r = archive_run(argv, e);
    if (r == 0 && (fsync(fd) < 0 || rename(part, out) < 0))
        r = err_errno(e, -errno, "write %s", out);
    if (r < 0) {
        (void)unlink(part);
        return r;
    }
    (void)snprintf(folder, sizeof(folder), "%s", out);
    char *slash = strrchr(folder, '/');
    if (slash)
        *(slash == folder ? slash + 1 : slash) = '\0';
    return archive_sync(slash ? folder : ".", e);
}

static int gather(struct writing *w, struct err *e)
{
    int r = dump_store(w, e);
    if (r == 0)
        r = archive_walk(w->config->data_dir, copy_file, w, e);
    return r == 0 ? write_manifest(w, e) : r;
}

int archive_write(const struct master_config *c, const char *out, struct err *e)
{
    struct writing w = {.config = c};
    struct err ignored;
    if (c->redis_url)
        return err_set(e, -EOPNOTSUPP,
                       "the state is in an external Redis (redis_url): back that one up with its "
                       "own tools, and %s/identity",
                       c->data_dir);
    (void)umask(077);
    if (snprintf(w.stage, sizeof(w.stage), "%s/backup.XXXXXX", c->data_dir) >= PATH_MAX ||
        !mkdtemp(w.stage))
        return err_errno(e, -errno, "make a folder in %s", c->data_dir);
    int r = gather(&w, e);
    if (r == 0)
        r = pack(&w, out, e);
    if (remove_tree(w.stage, &ignored) < 0 && r == 0)
        r = err_set(e, -EIO, "%s", ignored.text);
    return r;
}
