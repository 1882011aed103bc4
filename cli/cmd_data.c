// SPDX-License-Identifier: Apache-2.0
// data push, data list. Each file goes with its digest, which the master checks before the file
// takes its place.
#include "cli/cli.h"
#include "cli/commands.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <string.h>
#include <sys/stat.h>

#define UPLOAD_SILENCE_MS 60000
#define DEPTH_MAX 32

struct push {
    struct cli *cli;
    json_t *items;
    uint64_t bytes;
};

// --- one file ---

static int digest_file(int fd, char out[72])
{
    unsigned char buffer[65536], md[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    ssize_t n;
    EVP_MD_CTX *ctx = cli_need(EVP_MD_CTX_new());
    int ok = EVP_DigestInit_ex(ctx, EVP_sha256(), NULL);

    while (ok == 1 && (n = read(fd, buffer, sizeof(buffer))) != 0) {
        if (n > 0)
            ok = EVP_DigestUpdate(ctx, buffer, (size_t)n);
        else if (errno != EINTR)
            ok = 0;
    }
    ok = ok == 1 ? EVP_DigestFinal_ex(ctx, md, &len) : 0;
    EVP_MD_CTX_free(ctx);
    (void)snprintf(out, 72, "sha256:");
    for (unsigned i = 0; i < len && i < 32; i++)
        (void)snprintf(out + 7 + (size_t)i * 2, 3, "%02x", md[i]);
    return ok == 1 && lseek(fd, 0, SEEK_SET) == 0 ? 0 : -EIO;
}

static int upload(struct push *p, int fd, const struct stat *st, const char *digest,
                  const char *target)
{
    cleanup_strbuf struct strbuf path = {0};
    char digest_header[100], mode_header[40];
    cleanup_free char *what = cli_format("data push to %s", target);

    strbuf_puts(&path, "/v1/data/");
    api_encode(&path, target, true);
    (void)snprintf(digest_header, sizeof(digest_header), "X-Meadow-Digest: %s", digest);
    (void)snprintf(mode_header, sizeof(mode_header), "X-Meadow-Mode: %04o", st->st_mode & 0777);
    const struct api_request req = {.method = "PUT",
                                    .path = path.data,
                                    .content_type = "application/octet-stream",
                                    .headers = {digest_header, mode_header},
                                    .upload = true,
                                    .fd = fd,
                                    .file_len = (uint64_t)st->st_size,
                                    .timeout_ms = API_NO_TIMEOUT,
                                    .silence_ms = UPLOAD_SILENCE_MS};
    return cli_request(p->cli, what, &req, NULL);
}

static int push_file(struct push *p, const char *source, const char *target)
{
    struct stat st;
    char digest[72], size[48];
    cleanup_close int fd = open(source, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (fd < 0 || fstat(fd, &st) < 0)
        return cli_failf(CLI_FAILED, "data push", NULL, "%s: %s", source, strerror(errno));
    if (digest_file(fd, digest) < 0)
        return cli_failf(CLI_FAILED, "data push", NULL, "%s: can't be read", source);
    output_memory(st.st_size, size, sizeof(size));
    cli_progress(p->cli, "%s (%s)", target, size);
    int code = upload(p, fd, &st, digest, target);
    if (code != CLI_OK)
        return code;
    p->bytes += (uint64_t)st.st_size;
    (void)json_array_append_new(p->items, json_pack("{s:s,s:I,s:s}", "path", target, "size",
                                                    (json_int_t)st.st_size, "digest", digest));
    return CLI_OK;
}

// --- a tree ---

static int push_any(struct push *p, const char *source, const char *target, int depth);

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

// The names in a folder, sorted; caller frees each and the list. -errno.
static int read_names(const char *folder, char ***ret, size_t *ret_n)
{
    DIR *d = opendir(folder);
    const struct dirent *x;
    char **names = NULL;
    size_t n = 0;

    if (!d)
        return -errno;
    while ((x = readdir(d))) {
        if (strcmp(x->d_name, ".") == 0 || strcmp(x->d_name, "..") == 0)
            continue;
        names = cli_need(reallocarray(names, n + 1, sizeof(*names)));
        names[n++] = cli_strdup(x->d_name);
    }
    (void)closedir(d);
    if (n)
        qsort(names, n, sizeof(*names), by_name);
    *ret = names;
    *ret_n = n;
    return 0;
}

static int push_folder(struct push *p, const char *source, const char *target, int depth)
{
    char **names = NULL;
    size_t n = 0;
    int code = CLI_OK;

    if (depth > DEPTH_MAX)
        return cli_failf(CLI_FAILED, "data push", NULL, "%s: more than %d folders deep", source,
                         DEPTH_MAX);
    int r = read_names(source, &names, &n);
    if (r < 0)
        return cli_failf(CLI_FAILED, "data push", NULL, "%s: %s", source, strerror(-r));
    for (size_t i = 0; i < n; i++) {
        cleanup_free char *from = cli_format("%s/%s", source, names[i]);
        cleanup_free char *to =
            target[0] ? cli_format("%s/%s", target, names[i]) : cli_strdup(names[i]);
        if (code == CLI_OK)
            code = push_any(p, from, to, depth + 1);
        free(names[i]);
    }
    free(names);
    return code;
}

static int push_any(struct push *p, const char *source, const char *target, int depth)
{
    struct stat st, link;

    if (stat(source, &st) < 0)
        return cli_failf(CLI_FAILED, "data push", "check the file's name", "%s: %s", source,
                         strerror(errno));
    if (S_ISREG(st.st_mode))
        return push_file(p, source, target);
    bool linked = depth > 0 && lstat(source, &link) == 0 && S_ISLNK(link.st_mode);
    if (S_ISDIR(st.st_mode) && !linked) // a link could lead round in a circle
        return push_folder(p, source, target, depth);
    (void)fprintf(stderr, "warning: %s is left out: neither a regular file nor a folder\n", source);
    return CLI_OK;
}

// Where it goes: DST; DST/NAME when DST ends in '/'; NAME without DST.
static char *target_of(const char *source, const char *dst)
{
    char real[PATH_MAX];
    const char *whole = realpath(source, real) ? real : source;
    const char *slash = strrchr(whole, '/');
    const char *name = slash ? slash + 1 : whole;
    size_t len = dst ? strlen(dst) : 0;

    while (dst && *dst == '/')
        dst++, len--;
    if (!dst)
        return cli_strdup(name);
    if (len == 0 || strcmp(dst, ".") == 0)
        return cli_strdup(name);
    if (dst[len - 1] == '/')
        return cli_format("%s%s", dst, name);
    return cli_strdup(dst);
}

int cmd_data_push(struct cli *cli, const struct args *args)
{
    char size[48];
    cleanup_json json_t *items = cli_need(json_array());
    cleanup_free char *target =
        target_of(args->words[0], args->n_words > 1 ? args->words[1] : NULL);
    struct push p = {.cli = cli, .items = items};
    int code = push_any(&p, args->words[0], target, 0);

    if (code != CLI_OK)
        return code;
    cleanup_json json_t *all = cli_need(json_pack("{s:O,s:n,s:I}", "items", items, "next", "total",
                                                  (json_int_t)json_array_size(items)));
    if (cli_print_value(cli, all))
        return CLI_OK;
    output_memory((int64_t)p.bytes, size, sizeof(size));
    if (cli->quiet)
        (void)printf("%s\n", target);
    else
        (void)printf("%s: %zu file%s, %s\n", target, json_array_size(items),
                     json_array_size(items) == 1 ? "" : "s", size);
    return CLI_OK;
}

// --- list ---

static void file_row(struct table *t, const json_t *x)
{
    char size[48];
    output_memory(json_opt_i64(x, "size", 0), size, sizeof(size));
    table_cell(t, size);
    table_cellf(t, "%04llo", (unsigned long long)json_opt_i64(x, "mode", 0));
    table_cell(t, json_opt_str(x, "mtime", NULL));
    table_cell(t, json_opt_str(x, "path", NULL));
}

int cmd_data_list(struct cli *cli, const struct args *args)
{
    static const char *const headings[] = {"SIZE", "MODE", "CHANGED", "PATH", NULL};
    static const struct list_view view = {"path", headings, file_row, true};
    cleanup_json json_t *list = NULL;
    cleanup_strbuf struct strbuf path = {0};

    strbuf_puts(&path, "/v1/data/?list=1");
    if (args->n_words > 0) {
        strbuf_puts(&path, "&path=");
        api_encode(&path, args->words[0], false);
    }
    int code = cli_get(cli, "data list", path.data, &list);
    if (code != CLI_OK)
        return code;
    cli_print_list(cli, list, &view);
    if (!json_opt_bool(list, "complete", true))
        (void)fputs("meadow: there is more than is listed: `meadow data list FOLDER`\n", stderr);
    return CLI_OK;
}
