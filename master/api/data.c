// SPDX-License-Identifier: Apache-2.0
// /v1/data: files of the cluster's shared data folder. A PUT goes to a file without a name (one
// that is hidden where the file system has none such), and takes its place when it is whole and its
// digest is right: a master that is killed meanwhile leaves nothing behind. Paths are walked by
// openat2 beneath the folder: no "..", no link leads out of it.
#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "common/id.h"
#include "master/api/handlers.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

// The loop waits for the listing, so it ends somewhere, also in a tree of empty folders.
#define LIST_MAX 10000
#define LOOK_MAX 100000
#define DEPTH_MAX 32

static int open_beneath(int dir, const char *path, int flags, mode_t mode)
{
    struct open_how how = {.flags = (unsigned)flags | O_CLOEXEC,
                           .mode = mode,
                           .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));
    return fd < 0 ? -errno : (int)fd;
}

static int root(const struct call *call)
{
    int fd = open(call->api->settings.shared_data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

static bool path_ok(const char *path)
{
    if (path[0] == '/' || path[0] == '\0' || strstr(path, "//") || path[strlen(path) - 1] == '/')
        return false;
    for (const char *p = path; p; p = strchr(p, '/') ? strchr(p, '/') + 1 : NULL) {
        size_t n = strcspn(p, "/");
        if ((n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
            return false;
    }
    return true;
}

static void problem_errno(struct call *call, int r, const char *path)
{
    int status = r == -ENOENT || r == -ENOTDIR                     ? 404
                 : r == -ENOSPC || r == -EDQUOT                    ? 507
                 : r == -EXDEV || r == -EACCES                     ? 403
                 : r == -ENOTEMPTY || r == -EISDIR || r == -EEXIST ? 409
                 : r == -ELOOP || r == -EBUSY || r == -ETXTBSY     ? 409
                 : r == -ENAMETOOLONG || r == -EINVAL              ? 400
                                                                   : 500;
    api_problem(call, status, "%.200s: %s", path,
                r == -EXDEV   ? "leads out of the shared data"
                : r == -ELOOP ? "is a link that leads round in a circle"
                              : strerror(-r));
}

// Opens the folder of `path`, making what is missing; *ret_leaf points at its last part.
static int open_parent(int dir, const char *path, const char **ret_leaf)
{
    char part[256];
    int fd = dup(dir);
    while (fd >= 0) {
        const char *slash = strchr(path, '/');
        if (!slash)
            break;
        (void)snprintf(part, sizeof(part), "%.*s", (int)(slash - path), path);
        if (mkdirat(fd, part, 0775) < 0 && errno != EEXIST) {
            int r = -errno;
            (void)close(fd);
            return r;
        }
        int next = open_beneath(fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
        (void)close(fd);
        fd = next;
        path = slash + 1;
    }
    *ret_leaf = path;
    return fd;
}

struct upload {
    int dir, fd;
    char temp[64]; // its name; "" = it has none yet
    char leaf[256];
    mode_t mode;
    char digest[80]; // wanted, "" = none given
    EVP_MD_CTX *hash;
    uint64_t size;
};

static void upload_free(struct upload *u, bool remove)
{
    if (u->fd >= 0)
        (void)close(u->fd);
    if (remove && u->dir >= 0 && u->temp[0])
        (void)unlinkat(u->dir, u->temp, 0);
    if (u->dir >= 0)
        (void)close(u->dir);
    EVP_MD_CTX_free(u->hash);
    free(u);
}

static void upload_gone(struct call *call)
{
    upload_free(call->ctx, true);
}

static int upload_chunk(struct http_request *req, const char *data, size_t len, void *userdata)
{
    struct call *call = http_request_data(req);
    struct upload *u = call->ctx;
    (void)userdata;
    int r = write_all(u->fd, data, len);
    if (r == 0 && EVP_DigestUpdate(u->hash, data, len) != 1)
        r = -ENOMEM;
    u->size += len;
    if (r == 0)
        return 0;
    problem_errno(call, r, call->params[0]);
    upload_free(u, true);
    call_end(call);
    return r;
}

static void hex_digest(struct upload *u, char out[80])
{
    unsigned char md[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    (void)EVP_DigestFinal_ex(u->hash, md, &n);
    (void)snprintf(out, 80, "sha256:");
    for (unsigned i = 0; i < n && i < 32; i++)
        (void)snprintf(out + 7 + (size_t)i * 2, 3, "%02x", md[i]);
}

static int temp_name(struct upload *u)
{
    char random[17];
    if (id_random(random, 16) < 0)
        return -EIO;
    (void)snprintf(u->temp, sizeof(u->temp), ".meadow-upload-%s", random);
    return 0;
}

static int make_temp(struct upload *u)
{
    u->fd = openat(u->dir, ".", O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
    if (u->fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
        return u->fd < 0 ? -errno : 0;
    int r = temp_name(u);
    if (r < 0)
        return r;
    u->fd = openat(u->dir, u->temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (u->fd >= 0)
        return 0;
    u->temp[0] = '\0';
    return -errno;
}

// linkat() replaces nothing, so a name of its own comes first.
static int give_name(struct upload *u)
{
    char self[40];
    int r = temp_name(u);
    (void)snprintf(self, sizeof(self), "/proc/self/fd/%d", u->fd);
    if (r < 0 || linkat(AT_FDCWD, self, u->dir, u->temp, AT_SYMLINK_FOLLOW) == 0)
        return r;
    return -errno;
}

static int upload_commit(struct upload *u)
{
    if (fchmod(u->fd, u->mode) < 0 || fsync(u->fd) < 0)
        return -errno;
    int r = u->temp[0] ? 0 : give_name(u);
    if (r < 0)
        return r;
    return renameat(u->dir, u->temp, u->dir, u->leaf) < 0 || fsync(u->dir) < 0 ? -errno : 0;
}

static void upload_end(struct call *call)
{
    char digest[80];
    struct upload *u = call->ctx;
    hex_digest(u, digest);
    if (u->digest[0] && strcasecmp(u->digest, digest) != 0) {
        api_problem(call, 422,
                    "%.200s: the bytes that arrived have %s, not the %s that was announced: "
                    "nothing was changed",
                    call->params[0], digest, u->digest);
        upload_free(u, true);
        return;
    }
    int r = upload_commit(u);
    if (r < 0) {
        problem_errno(call, r, call->params[0]);
        upload_free(u, true);
        return;
    }
    json_t *j = json_object();
    json_put_str(j, "path", call->params[0]);
    json_put_i64(j, "size", (json_int_t)u->size);
    json_put_str(j, "digest", digest);
    upload_free(u, false);
    api_reply_now(call, 201, j);
}

static int upload_open(struct call *call, struct upload *u)
{
    const char *leaf = NULL;
    const char *mode = http_request_header(call->req, "X-Meadow-Mode");
    const char *digest = http_request_header(call->req, "X-Meadow-Digest");
    cleanup_close int dir = root(call);
    if (dir < 0)
        return dir;
    u->mode = mode ? (mode_t)(strtoul(mode, NULL, 8) & 0777) : 0644;
    (void)snprintf(u->digest, sizeof(u->digest), "%s", digest ? digest : "");
    u->dir = open_parent(dir, call->params[0], &leaf);
    if (u->dir < 0)
        return u->dir;
    (void)snprintf(u->leaf, sizeof(u->leaf), "%s", leaf);
    int r = make_temp(u);
    if (r < 0)
        return r;
    u->hash = EVP_MD_CTX_new();
    return u->hash && EVP_DigestInit_ex(u->hash, EVP_sha256(), NULL) == 1 ? 0 : -ENOMEM;
}

void data_put(struct call *call)
{
    struct upload *u = calloc(1, sizeof(*u));
    int r = u ? 0 : -ENOMEM;
    if (r == 0) {
        u->dir = u->fd = -1;
        if (!path_ok(call->params[0])) {
            api_problem(call, 400, "%.200s: not a path below the shared data", call->params[0]);
            upload_free(u, false);
            call_end(call);
            return;
        }
        r = upload_open(call, u);
    }
    if (r < 0) {
        problem_errno(call, r, call->params[0]);
        if (u)
            upload_free(u, u->fd >= 0);
        call_end(call);
        return;
    }
    call->ctx = u;
    call->body_end = upload_end;
    call->body_gone = upload_gone;
    http_request_stream_body(call->req, upload_chunk);
}

void data_get(struct call *call)
{
    struct stat st;
    cleanup_close int dir = root(call);
    int fd = dir < 0 ? dir
             : !path_ok(call->params[0])
                 ? -ENOENT
                 : open_beneath(dir, call->params[0], O_RDONLY | O_NONBLOCK, 0);
    if (fd < 0) {
        problem_errno(call, fd, call->params[0]);
        return;
    }
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        (void)close(fd);
        api_problem(call, 409, "%.200s: not a regular file; list it with ?path=", call->params[0]);
        return;
    }
    http_respond_file(call->req, 200, "application/octet-stream", fd, 0, (uint64_t)st.st_size);
}

struct listing {
    json_t *items;
    size_t looked;
    bool complete;
};

static bool list_room(struct listing *l)
{
    l->complete = json_array_size(l->items) < LIST_MAX && l->looked < LOOK_MAX;
    return l->complete;
}

static void list_file(struct listing *l, const char *path, const struct stat *st)
{
    json_t *j = json_object();
    json_put_str(j, "path", path);
    json_put_i64(j, "size", st->st_size);
    json_put_i64(j, "mode", st->st_mode & 0777);
    json_put_time(j, "mtime", (int64_t)st->st_mtim.tv_sec * 1000);
    (void)json_array_append_new(l->items, j);
}

static void list_into(struct listing *l, int dir, const char *prefix, int depth)
{
    DIR *d = fdopendir(dir);
    if (!d) {
        (void)close(dir);
        return;
    }
    const struct dirent *x;
    while ((x = readdir(d)) && l->complete) {
        struct stat st;
        char path[1024];
        if (strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0 ||
            strncmp(x->d_name, ".meadow-upload-", 15) == 0 ||
            fstatat(dirfd(d), x->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            continue;
        if (!list_room(l))
            break;
        l->looked++;
        (void)snprintf(path, sizeof(path), "%s%s%s", prefix, prefix[0] ? "/" : "", x->d_name);
        if (!S_ISDIR(st.st_mode)) {
            list_file(l, path, &st);
            continue;
        }
        int sub = open_beneath(dirfd(d), x->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW, 0);
        if (sub >= 0 && depth < DEPTH_MAX)
            list_into(l, sub, path, depth + 1);
        else if (sub >= 0)
            (void)close(sub);
    }
    (void)closedir(d);
}

void data_list(struct call *call)
{
    const char *path = http_request_query(call->req, "path");
    cleanup_close int dir = root(call);
    bool all = !path || path[0] == '\0';
    if (!all && !path_ok(path)) {
        api_problem(call, 400, "path: %.200s is not a path below the shared data", path);
        return;
    }
    int fd = dir < 0 ? dir : open_beneath(dir, all ? "." : path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0) {
        problem_errno(call, fd, all ? "shared data" : path);
        return;
    }
    struct listing l = {.items = json_array(), .complete = true};
    list_into(&l, fd, all ? "" : path, 0);
    json_t *j = api_list(l.items, NULL, json_array_size(l.items));
    json_put_bool(j, "complete", l.complete);
    api_reply_now(call, 200, j);
}

void data_delete(struct call *call)
{
    const char *path = call->params[0];
    const char *slash = strrchr(path, '/');
    char parent[256];
    cleanup_close int dir = root(call);
    (void)snprintf(parent, sizeof(parent), "%.*s", slash ? (int)(slash - path) : 1,
                   slash ? path : ".");
    cleanup_close int fd = dir < 0          ? dir
                           : !path_ok(path) ? -ENOENT
                                            : open_beneath(dir, parent, O_RDONLY | O_DIRECTORY, 0);
    const char *leaf = slash ? slash + 1 : path;
    if (fd < 0 ||
        (unlinkat(fd, leaf, 0) < 0 && (errno != EISDIR || unlinkat(fd, leaf, AT_REMOVEDIR) < 0))) {
        problem_errno(call, fd < 0 ? fd : -errno, path);
        return;
    }
    json_t *j = json_object();
    json_put_str(j, "path", path);
    json_put_bool(j, "deleted", true);
    api_reply_changed(call, 200, j);
}
