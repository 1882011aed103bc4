// SPDX-License-Identifier: Apache-2.0
// POST /v1/backup: the answer is the archive. It holds the cluster's keys, so it is for admins.
#include "master/api/audit.h"
#include "master/backup/archive.h"
#include "master/backup/backup.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "master/api/backup.h"
#include "master/api/handlers.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct download {
    struct call call; // what of it is needed when the archive is there
    struct parked parked;
    char path[PATH_MAX];
};

static void send_archive(struct http_request *req, const char *path)
{
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0) {
        if (fd >= 0)
            (void)close(fd);
        http_respond(req, 500, "text/plain", "the backup is gone\n", 19);
        return;
    }
    http_respond_header(req, "Content-Disposition", "attachment; filename=\"meadow-backup.tar\"");
    http_respond_file(req, 200, "application/x-tar", fd, 0, (uint64_t)st.st_size);
}

static void on_made(int result, const struct err *e, void *userdata)
{
    struct download *d = userdata;
    struct http_request *req = d->parked.req;
    if (req) {
        d->call.req = req;
        if (result == -ECANCELED)
            api_problem(&d->call, 503, "the master is stopping");
        else if (result < 0)
            api_problem(&d->call, 500, "the backup failed: %s", e->text);
        else
            send_archive(req, d->path);
    }
    (void)unlink(d->path); // it lives on in the answer's descriptor
    free(d);
}

void backup_get(struct call *call)
{
    struct err e = {""};
    struct api *a = call->api;
    struct download *d = calloc(1, sizeof(*d));
    if (!d) {
        api_problem(call, 503, "out of memory");
        return;
    }
    (void)snprintf(d->path, sizeof(d->path), "%.4000s/backup.download.tar", a->settings.data_dir);
    d->call = *call;
    int r = backup_start(a->backup, d->path, on_made, d, &e);
    if (r < 0) {
        free(d);
        api_reply_error(call, r, &e);
        return;
    }
    audit_changed(call, 200, NULL); // it hands out every key of the cluster
    d->call.audited = call->audited;
    parked_init(&d->parked, call->req);
}

// --- after a restore ---

static void mark_path(const struct master_config *c, char out[PATH_MAX])
{
    (void)snprintf(out, PATH_MAX, "%s/" ARCHIVE_RESTORED, c->data_dir);
}

bool backup_restored(const struct master_config *c)
{
    char path[PATH_MAX];
    mark_path(c, path);
    return access(path, F_OK) == 0;
}

int backup_note_rollback(const char *data_dir, struct err *e)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%.4000s/" ARCHIVE_RESTORED, data_dir);
    return atomic_file_write(path, "", 0, 0600, e);
}

void backup_settled(const struct master_config *c)
{
    char path[PATH_MAX];
    mark_path(c, path);
    if (unlink(path) < 0)
        log_warn("backup", "%s can't be removed: %s", path, strerror(errno));
}

// --- the schedule ---

static void on_scheduled(const char *path, const struct err *e, void *userdata)
{
    const struct api *a = userdata;
    if (path)
        log_info("backup", "%s is made", path);
    else
        log_error("backup", "%s", e->text);
    if (!a->closing)
        cluster_event(a->cluster, path ? "cluster.backed_up" : "cluster.backup_failed",
                      path ? path : e->text, NULL);
}

int backup_open(struct api *a, const struct master_config *c, struct err *e)
{
    static char program[PATH_MAX]; // asked once: an upgrade replaces the file under its name
    size_t size = sizeof(program);
    const struct backup_options o = {.loop = a->settings.loop,
                                     .program = program,
                                     .config_path = c->path,
                                     .data_dir = c->data_dir,
                                     .cluster = c->name,
                                     .to = c->backup_to,
                                     .every_ms = c->backup_every_ms,
                                     .keep = c->backup_keep,
                                     .scheduled = on_scheduled,
                                     .userdata = a};
    int r = uv_exepath(program, &size);
    return r < 0 ? err_set(e, r, "the path of this program is not known")
                 : backup_new(&o, &a->backup, e);
}
