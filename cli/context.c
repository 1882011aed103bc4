// SPDX-License-Identifier: Apache-2.0
// Contexts are names for masters. One that names a folder follows the local cluster there: address,
// CA and token are read from it each time, so they are never stale.
#include "cli/context.h"

#include "cli/cli.h"
#include "cli/local.h"
#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_LIMIT (1u << 20)

static int read_file(const char *path, char **ret, struct err *e)
{
    size_t len;
    int r = atomic_file_read(path, FILE_LIMIT, ret, &len, e);
    return r < 0                           ? r
           : (int)strlen(*ret) == (int)len ? 0
                                           : err_set(e, -EPROTO, "%s: not a text file", path);
}

// --- the file ---

char *context_file(void)
{
    const char *base = getenv("XDG_CONFIG_HOME");
    if (base && base[0] == '/')
        return cli_format("%s/meadow/contexts.json", base);
    base = getenv("HOME");
    return base && base[0] ? cli_format("%s/.config/meadow/contexts.json", base) : NULL;
}

int context_load(const char *file, json_t **ret, struct err *e)
{
    cleanup_free char *text = NULL;
    json_t *contexts;
    cleanup_json json_t *j = NULL;
    int r = file ? read_file(file, &text, e) : -ENOENT;

    if (r == -ENOENT) {
        *ret = cli_need(json_pack("{s:n,s:{}}", "current", "contexts"));
        return 0;
    }
    if (r == 0)
        r = json_parse(text, strlen(text), &j, e);
    if (r == 0)
        r = json_get_object(j, "contexts", &contexts, e);
    if (r < 0)
        return err_wrap(e, r, "%s", file);
    *ret = TAKE_PTR(j);
    return 0;
}

int context_save(const char *file, const json_t *contexts, struct err *e)
{
    cleanup_strbuf struct strbuf b = {0};
    cleanup_free char *folder = cli_strdup(file);
    char *slash = strrchr(folder, '/');

    if (slash)
        *slash = '\0';
    int r = make_dirs(folder, 0700, e);
    if (r < 0)
        return r;
    output_json(&b, contexts);
    return b.failed ? err_set(e, -ENOMEM, "out of memory")
                    : atomic_file_write(file, b.data, b.len, 0600, e);
}

int context_set_dir(const char *file, const char *name, const char *dir, struct err *e)
{
    cleanup_json json_t *all = NULL;
    int r = context_load(file, &all, e);
    if (r < 0)
        return r;
    json_t *contexts = json_object_get(all, "contexts");
    const char *old = json_opt_str(json_object_get(contexts, name), "dir", NULL);
    const char *current = json_opt_str(all, "current", "");
    if (old && strcmp(old, dir) == 0 && strcmp(current, name) == 0)
        return 0;
    json_put(contexts, name, json_pack("{s:s}", "dir", dir));
    json_put_str(all, "current", name);
    return context_save(file, all, e);
}

int context_forget_dir(const char *file, const char *dir, struct err *e)
{
    cleanup_json json_t *all = NULL;
    const char *name;
    json_t *context;
    void *tmp;
    bool changed = false;
    int r = context_load(file, &all, e);
    if (r < 0)
        return r;
    json_t *contexts = json_object_get(all, "contexts");
    json_object_foreach_safe (contexts, tmp, name, context) {
        if (strcmp(json_opt_str(context, "dir", ""), dir) != 0)
            continue;
        if (strcmp(json_opt_str(all, "current", ""), name) == 0)
            json_put_str(all, "current", NULL);
        (void)json_object_del(contexts, name);
        changed = true;
    }
    return changed ? context_save(file, all, e) : 0;
}

// --- resolving ---

static int missing_dir(const char *dir, struct err *e)
{
    return err_set(e, -ENOENT, "%s holds no local cluster: `meadow up --dir %s` makes one", dir,
                   dir);
}

// The master knows whoever started it by the socket as by his token, and that needs no TLS: half of
// what a command costs.
static bool own_socket(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_uid == geteuid();
}

// The target of a local cluster's folder: its URL and CA with the token that was given, or else its
// socket if that is one's own or there is nothing else, else its URL with its admin token. -ENOENT
// also when a token is given and there is no URL or CA yet: the socket would be somebody else.
static int context_of_dir(const struct context_choice *c, const char *dir, struct api_target *ret,
                          struct err *e)
{
    struct local l = {0};
    struct api_target t = {0};
    const char *token = c->token ? c->token : c->env_token;
    int r = local_name(dir, &l, e);
    if (r == 0)
        r = local_load(&l, e);
    if (r < 0) {
        local_free(&l);
        return r == -ENOENT ? missing_dir(dir, e) : r;
    }
    t.origin = cli_format("the local cluster in %s", l.dir);
    t.url = cli_strdup(l.api);
    cleanup_free char *token_file = local_path(&l, "admin.token");
    cleanup_free char *ca_file = local_path(&l, "ca.pem");
    cleanup_free char *socket = local_path(&l, "run/master.sock");
    if (token)
        t.token = cli_strdup(token);
    if (!token && !c->network && own_socket(socket)) {
        t.unix_socket = TAKE_PTR(socket);
    } else if ((token || read_file(token_file, &t.token, e) == 0) &&
               read_file(ca_file, &t.ca_pem, e) == 0 && l.api[0]) {
        t.token[strcspn(t.token, "\r\n ")] = '\0';
    } else if (token) { // never as somebody else, as the socket would
        r = err_set(e, -ENOENT, "%s: this cluster is not up, or its ca.pem can't be read", l.dir);
    } else {
        free(TAKE_PTR(t.token));
        t.unix_socket = TAKE_PTR(socket);
    }
    local_free(&l);
    if (r < 0)
        api_target_free(&t);
    else
        *ret = t;
    return r;
}

// The CA is a file's, or `ca_pem` itself.
static int of_master(const char *master, const char *token, const char *ca, const char *ca_pem,
                     const char *origin, struct api_target *ret, struct err *e)
{
    struct api_target t = {0};
    size_t len = strlen(master);
    int r = 0;

    if (strncmp(master, "unix:", 5) == 0 || master[0] == '/') {
        t.unix_socket = cli_strdup(master[0] == '/' ? master : master + 5);
    } else if (strncmp(master, "https://", 8) != 0 || len < 9) {
        return err_set(e, -EINVAL, "master: \"%.200s\": expected https://HOST:PORT or unix:/PATH",
                       master);
    } else if (!ca && ca_pem) {
        t.ca_pem = cli_strdup(ca_pem);
    } else if (!ca) {
        return err_set(e, -EINVAL,
                       "the cluster's CA is needed to speak to %.200s: give --ca FILE or MEADOW_CA",
                       master);
    } else {
        r = read_file(ca, &t.ca_pem, e);
        if (r < 0)
            r = r == -ENOENT ? err_set(e, -EINVAL, "CA file %s: there is no such file", ca)
                             : err_wrap(e, r, "CA file");
    }
    if (r < 0)
        return r;
    while (len > 1 && master[len - 1] == '/')
        len--;
    t.url = cli_format("%.*s", (int)len, master);
    t.token = token ? cli_strdup(token) : NULL;
    t.origin = cli_strdup(origin);
    *ret = t;
    return 0;
}

static int of_context(const json_t *all, const char *name, const struct context_choice *c,
                      struct api_target *ret, struct err *e)
{
    const json_t *x = json_object_get(json_object_get(all, "contexts"), name);
    if (!json_is_object(x))
        return err_set(e, -EINVAL, "there is no context \"%s\"", name);
    const char *dir = json_opt_str(x, "dir", NULL);
    if (dir)
        return context_of_dir(c, dir, ret, e);
    const char *master = json_opt_str(x, "master", NULL);
    if (!master)
        return err_set(e, -EINVAL, "context \"%s\" names no master", name);
    cleanup_free char *origin = cli_format("context %s", name);
    const char *token = c->token       ? c->token
                        : c->env_token ? c->env_token
                                       : json_opt_str(x, "token", NULL);
    const char *ca = c->ca ? c->ca : c->env_ca ? c->env_ca : json_opt_str(x, "ca", NULL);
    return of_master(master, token, ca, json_opt_str(x, "ca_pem", NULL), origin, ret, e);
}

static int of_file(const struct context_choice *c, struct api_target *ret, struct err *e)
{
    cleanup_json json_t *all = NULL;
    cleanup_free char *file = context_file();
    int r = context_load(file, &all, e);
    if (r < 0)
        return r;
    const char *name = c->context ? c->context : json_opt_str(all, "current", NULL);
    if (name)
        return of_context(all, name, c, ret, e);
    if (access(CONTEXT_INSTALLED_SOCKET, F_OK) == 0)
        return of_master("unix:" CONTEXT_INSTALLED_SOCKET, NULL, NULL, NULL,
                         "the master of this machine", ret, e);
    return err_set(e, -ENOENT,
                   "no master is known: no --dir, --master or --context, and no context was made");
}

int context_resolve(const struct context_choice *c, struct api_target *ret, struct err *e)
{
    const char *token = c->token ? c->token : c->env_token;
    const char *ca = c->ca ? c->ca : c->env_ca;

    if (c->dir)
        return context_of_dir(c, c->dir, ret, e);
    if (c->master)
        return of_master(c->master, token, ca, NULL, "--master", ret, e);
    if (c->context)
        return of_file(c, ret, e);
    if (c->env_dir)
        return context_of_dir(c, c->env_dir, ret, e);
    if (c->env_master)
        return of_master(c->env_master, token, ca, NULL, "MEADOW_MASTER", ret, e);
    return of_file(c, ret, e);
}
