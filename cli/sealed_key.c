// SPDX-License-Identifier: Apache-2.0
// Files of keys. The JSON file has one member a line, so that a shell script can read it.
#include "cli/sealed_key.h"

#include "cli/cli.h"
#include "cli/context.h"
#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <string.h>

#define FILE_LIMIT 65536

static char *folder(void)
{
    char *file = context_file(), *slash = file ? strrchr(file, '/') : NULL;
    if (!slash) {
        free(file);
        return NULL;
    }
    *slash = '\0';
    char *path = cli_format("%s/keys", file);
    free(file);
    return path;
}

int sealed_key_name(const char *name, struct sealed_key *ret, struct err *e)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    static const char taken[] = ".master"; // NAME.master.pem is the master's key, as NAME knows it
    cleanup_free char *dir = folder();
    size_t len = strlen(name), end = sizeof(taken) - 1;
    if (!name[0] || name[0] == '.' || strspn(name, plain) != len)
        return err_set(e, -EINVAL,
                       "\"%.60s\" is no name for a key: expected A-Z a-z 0-9 . _ - alone", name);
    if (len > end && strcmp(name + len - end, taken) == 0)
        return err_set(e, -EINVAL, "\"%.60s\" is no name for a key: %s at its end is taken", name,
                       taken);
    if (!dir)
        return err_set(e, -ENOENT, "there is no home folder (HOME) to keep keys in");
    *ret = (struct sealed_key){.name = cli_strdup(name),
                               .pem_file = cli_format("%s/%s.pem", dir, name),
                               .json_file = cli_format("%s/%s.json", dir, name)};
    return 0;
}

void sealed_key_reset(struct sealed_key *k)
{
    free(k->name);
    free(k->pem_file);
    free(k->json_file);
    free(k->user);
    free(k->cluster);
    free(k->url);
    jwk_free(k->key);
    jwk_free(k->master);
    *k = (struct sealed_key){0};
}

static int load_private(struct sealed_key *k, struct err *e)
{
    char *pem = NULL;
    int r = atomic_file_read(k->pem_file, FILE_LIMIT, &pem, NULL, e);
    if (r < 0)
        return r == -ENOENT ? err_set(e, r, "there is no key %s (%s)", k->name, k->pem_file) : r;
    r = jwk_from_pem(pem, &k->key, e);
    explicit_bzero(pem, strlen(pem));
    free(pem);
    if (r == 0 && !jwk_is_private(k->key))
        r = err_set(e, -EPROTO, "not a private key");
    if (r == 0)
        r = jwk_thumbprint(k->key, k->id);
    return r < 0 ? err_wrap(e, r, "%s", k->pem_file) : 0;
}

static int read_registration(struct sealed_key *k, const json_t *j, struct err *e)
{
    const char *user, *cluster, *url, *id;
    int r = json_get_str(j, "id", &id, e);
    if (r == 0 && strcmp(id, k->id) != 0)
        r = err_set(e, -EPROTO, "belongs to another key");
    if (r == 0)
        r = json_get_str(j, "user", &user, e);
    if (r == 0)
        r = json_get_str(j, "cluster", &cluster, e);
    if (r == 0)
        r = json_get_str(j, "url", &url, e);
    if (r == 0)
        r = jwk_parse(json_object_get(j, "master_jwk"), &k->master, e);
    if (r == 0)
        r = jwk_thumbprint(k->master, k->master_id);
    if (r == 0 && strcmp(json_opt_str(j, "master_key", ""), k->master_id) != 0)
        r = err_set(e, -EPROTO, "master_jwk is not the key that master_key names");
    if (r < 0)
        return r;
    k->user = cli_strdup(user);
    k->cluster = cli_strdup(cluster);
    k->url = cli_strdup(url);
    return 0;
}

int sealed_key_load(const char *name, struct sealed_key *ret, struct err *e)
{
    cleanup_free char *text = NULL;
    cleanup_json json_t *j = NULL;
    size_t len;
    struct sealed_key k;
    int r = sealed_key_name(name, &k, e);
    if (r < 0)
        return r;
    r = load_private(&k, e);
    if (r == 0) {
        r = atomic_file_read(k.json_file, FILE_LIMIT, &text, &len, e);
        if (r == 0)
            r = json_parse(text, len, &j, e);
        if (r == 0)
            r = read_registration(&k, j, e);
        r = r == -ENOENT ? 0 : r < 0 ? err_wrap(e, r, "%s", k.json_file) : 0;
    }
    if (r < 0) {
        sealed_key_reset(&k);
        return r;
    }
    *ret = k;
    return 0;
}

static int make_folder(struct err *e)
{
    cleanup_free char *dir = folder();
    return dir ? make_dirs(dir, 0700, e) : err_set(e, -ENOENT, "there is no home folder (HOME)");
}

int sealed_key_save(const struct sealed_key *k, struct err *e)
{
    char *pem = NULL;
    if (access(k->pem_file, F_OK) == 0)
        return err_set(e, -EEXIST, "there is a key %s already (%s)", k->name, k->pem_file);
    int r = make_folder(e);
    if (r == 0)
        r = jwk_private_pem(k->key, &pem, e);
    if (r < 0 || !pem)
        return r;
    r = atomic_file_write(k->pem_file, pem, strlen(pem), 0600, e);
    explicit_bzero(pem, strlen(pem));
    free(pem);
    return r;
}

// For those who have only openssl to work with (deploy/sealed-curl).
static int save_master_pem(const struct sealed_key *k, struct err *e)
{
    cleanup_free char *pem = NULL;
    cleanup_free char *path =
        cli_format("%.*s.master.pem", (int)strlen(k->json_file) - 5, k->json_file);
    int r = jwk_public_pem(k->master, &pem, e);
    return r < 0 ? r : atomic_file_write(path, pem, strlen(pem), 0644, e);
}

int sealed_key_save_registration(const struct sealed_key *k, struct err *e)
{
    cleanup_strbuf struct strbuf b = {0};
    cleanup_json json_t *j = cli_need(json_object());
    json_put_str(j, "id", k->id);
    json_put_str(j, "user", k->user);
    json_put_str(j, "cluster", k->cluster);
    json_put_str(j, "url", k->url);
    json_put_str(j, "master_key", k->master_id);
    json_put(j, "master_jwk", jwk_public_json(k->master));
    output_json(&b, j);
    if (b.failed)
        return err_set(e, -ENOMEM, "out of memory");
    int r = save_master_pem(k, e);
    return r < 0 ? r : atomic_file_write(k->json_file, b.data, b.len, 0600, e);
}

int sealed_key_take_master(struct sealed_key *k, const json_t *answer, const char *pinned,
                           struct err *e)
{
    char id[JWK_THUMBPRINT_BYTES];
    struct jwk *key = NULL;
    int r = jwk_parse(json_object_get(answer, "jwk"), &key, e);
    if (r == 0)
        r = jwk_thumbprint(key, id);
    if (r == 0 && jwk_kind_of(key) != JWK_RSA)
        r = err_set(e, -EPROTO, "not an RSA key");
    if (r == 0 && pinned && strcmp(pinned, id) != 0)
        r = err_set(e, -EACCES, "the master shows the key %s, but %s was expected", id, pinned);
    if (r < 0) {
        jwk_free(key);
        return err_wrap(e, r, "the master's key");
    }
    jwk_free(k->master);
    k->master = key;
    memcpy(k->master_id, id, sizeof(id));
    return 0;
}

int sealed_key_target(const struct sealed_key *k, const struct context_choice *c,
                      struct api_target *ret, struct err *e)
{
    const char *ca = c->ca ? c->ca : c->env_ca;
    const char *master = c->master ? c->master : c->env_master ? c->env_master : k->url;
    struct context_choice by_network = *c;
    by_network.network = true;
    if (c->dir || c->context || (c->env_dir && !c->master))
        return context_resolve(&by_network, ret, e);
    struct api_target t = {
        .url = cli_strdup(master), .origin = cli_format("key %s", k->name), .no_verify = !ca};
    int r = ca ? atomic_file_read(ca, FILE_LIMIT, &t.ca_pem, NULL, e) : 0;
    if (r == 0 && strncmp(master, "https://", 8) != 0)
        r = err_set(e, -EINVAL, "sealed requests go to https://HOST:PORT, not to \"%.200s\"",
                    master);
    if (r < 0) {
        api_target_free(&t);
        return r;
    }
    *ret = t;
    return 0;
}
