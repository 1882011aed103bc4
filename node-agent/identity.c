// SPDX-License-Identifier: Apache-2.0
// The node's identity on disk: key.pem, certificate.pem, ca.pem and node.json in STATE/identity/.
// node.json is written last: its presence says that the join is complete.
#include "node-agent/identity.h"
#include "node-agent/state_file.h"
#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "common/pki.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_LIMIT (256u << 10)

DEFINE_CLEANUP(identity, identity_free)

static void path_of(const char *state_dir, const char *leaf, char out[160])
{
    (void)snprintf(out, 160, "%s/identity/%s", state_dir, leaf);
}

void identity_free(struct identity *id)
{
    if (!id)
        return;
    if (id->key_pem)
        explicit_bzero(id->key_pem, strlen(id->key_pem));
    free(id->key_pem);
    free(id->cert_pem);
    free(id->ca_pem);
    free(id->cluster_id);
    free(id->cluster_name);
    free(id->node_id);
    free(id->name);
    free(id->removed);
    free(id->removed_token);
    free(id);
}

bool identity_joined(const struct identity *id)
{
    return id->cert_pem && id->ca_pem && id->node_id && id->cluster_id;
}

// A file that may be missing.
static int read_text(const char *state_dir, const char *leaf, char **ret, struct err *e)
{
    char path[160];
    size_t len;

    path_of(state_dir, leaf, path);
    int r = atomic_file_read(path, FILE_LIMIT, ret, &len, e);
    return r == -ENOENT ? 0 : r;
}

// Sets the file aside and forgets its text.
static int damaged(const char *state_dir, const char *leaf, char **text, const char *why,
                   struct err *e)
{
    char path[160];
    path_of(state_dir, leaf, path);
    free(*text);
    *text = NULL;
    return state_file_damaged(path, why, e);
}

// What was issued to a key that is lost is of no use: the node joins as a new one, and the master's
// operator says whether it takes the old one's place.
static int new_key(const char *state_dir, struct identity *id, struct err *e)
{
    char path[160];
    path_of(state_dir, "node.json", path);
    int r = access(path, F_OK) == 0 ? state_file_damaged(path, "its key is lost", e) : 0;
    if (r == 0)
        r = pki_key_new(&id->key_pem, e);
    if (r < 0 || !id->key_pem)
        return r;
    assert(id->key_pem);
    path_of(state_dir, "key.pem", path);
    return atomic_file_write(path, id->key_pem, strlen(id->key_pem), 0600, e);
}

static int load_key(const char *state_dir, struct identity *id, struct err *e)
{
    cleanup_free char *csr = NULL;
    struct err why;
    int r = read_text(state_dir, "key.pem", &id->key_pem, e);

    if (r < 0)
        return r;
    if (id->key_pem && (r = pki_csr_new(id->key_pem, "x", &csr, &why)) == -EINVAL)
        r = damaged(state_dir, "key.pem", &id->key_pem, why.text, e);
    else if (r < 0) // this machine's trouble, not the key's
        return err_set(e, r, "%s/identity/key.pem: %s", state_dir, why.text);
    return r < 0 || id->key_pem ? r : new_key(state_dir, id, e);
}

static int copy_member(const json_t *j, const char *key, char **ret, struct err *e)
{
    const char *text;
    int r = json_get_str(j, key, &text, e);
    if (r < 0)
        return r;
    *ret = strdup(text);
    return *ret ? 0 : err_set(e, -ENOMEM, "out of memory");
}

// Without one of them the node joins again, by the same key, and so as the same node.
static int load_certificates(const char *state_dir, struct identity *id, struct err *e)
{
    struct err why;
    char hex[65];
    int64_t ms;
    int r = read_text(state_dir, "certificate.pem", &id->cert_pem, e);

    if (r == 0 && id->cert_pem && pki_cert_not_after_ms(id->cert_pem, &ms, &why) < 0)
        r = damaged(state_dir, "certificate.pem", &id->cert_pem, why.text, e);
    if (r == 0)
        r = read_text(state_dir, "ca.pem", &id->ca_pem, e);
    if (r == 0 && id->ca_pem && pki_cert_fingerprint(id->ca_pem, hex, &why) < 0)
        r = damaged(state_dir, "ca.pem", &id->ca_pem, why.text, e);
    return r;
}

static int load_joined(const char *state_dir, struct identity *id, struct err *e)
{
    cleanup_json json_t *j = NULL;
    char path[160];

    path_of(state_dir, "node.json", path);
    int r = state_file_read(path, FILE_LIMIT, &j, e);
    if (r < 0 || !j)
        return r;
    r = copy_member(j, "cluster_id", &id->cluster_id, e);
    if (r == 0)
        r = copy_member(j, "cluster_name", &id->cluster_name, e);
    if (r == 0)
        r = copy_member(j, "node_id", &id->node_id, e);
    if (r == 0)
        r = copy_member(j, "name", &id->name, e);
    if (r < 0 && r != -ENOMEM) { // joins again, by the same key, and so as the same node
        struct err why = *e;
        r = damaged(state_dir, "node.json", &id->node_id, why.text, e);
    }
    if (r == 0)
        r = load_certificates(state_dir, id, e);
    return r < 0 ? err_wrap(e, r, "%s/identity", state_dir) : 0;
}

static int load_removed(const char *state_dir, struct identity *id, struct err *e)
{
    cleanup_json json_t *j = NULL;
    char path[160];

    // Without it the master says it again.
    path_of(state_dir, "removed.json", path);
    int r = state_file_read(path, FILE_LIMIT, &j, e);
    if (r < 0 || !j)
        return r;
    r = copy_member(j, "why", &id->removed, e);
    if (r == 0)
        r = copy_member(j, "token_sha256", &id->removed_token, e);
    return r < 0 ? err_wrap(e, r, "%s/identity/removed.json", state_dir) : 0;
}

int identity_load(const char *state_dir, struct identity **ret, struct err *e)
{
    char path[160];
    cleanup(identity) struct identity *id = calloc(1, sizeof(*id));

    if (!id)
        return err_set(e, -ENOMEM, "out of memory");
    path_of(state_dir, "", path);
    int r = make_dirs(path, 0700, e);
    if (r == 0)
        r = load_key(state_dir, id, e);
    if (r == 0)
        r = load_joined(state_dir, id, e);
    if (r == 0)
        r = load_removed(state_dir, id, e);
    if (r < 0)
        return r;
    *ret = TAKE_PTR(id);
    return 0;
}

static int write_text(const char *state_dir, const char *leaf, const char *text, struct err *e)
{
    char path[160];

    path_of(state_dir, leaf, path);
    return text ? atomic_file_write(path, text, strlen(text), 0600, e)
                : err_set(e, -ENOMEM, "out of memory");
}

static int store_files(const char *state_dir, const struct identity *joined, struct err *e)
{
    cleanup_json json_t *j = json_object();
    json_put_str(j, "cluster_id", joined->cluster_id);
    json_put_str(j, "cluster_name", joined->cluster_name);
    json_put_str(j, "node_id", joined->node_id);
    json_put_str(j, "name", joined->name);
    cleanup_free char *text = json_text(j);
    int r = write_text(state_dir, "certificate.pem", joined->cert_pem, e);
    if (r == 0)
        r = write_text(state_dir, "ca.pem", joined->ca_pem, e);
    if (r == 0)
        r = write_text(state_dir, "node.json", text, e);
    return r;
}

static int replace(char **text, const char *with)
{
    char *copy = strdup(with);
    if (!copy)
        return -ENOMEM;
    free(*text);
    *text = copy;
    return 0;
}

int identity_store(struct identity *id, const char *state_dir, const struct identity *joined,
                   struct err *e)
{
    int r = store_files(state_dir, joined, e);
    if (r < 0)
        return r;
    if (replace(&id->cluster_id, joined->cluster_id) < 0 ||
        replace(&id->cluster_name, joined->cluster_name) < 0 ||
        replace(&id->node_id, joined->node_id) < 0 || replace(&id->name, joined->name) < 0 ||
        replace(&id->ca_pem, joined->ca_pem) < 0 || replace(&id->cert_pem, joined->cert_pem) < 0)
        return err_set(e, -ENOMEM, "out of memory");
    return 0;
}

// The bundle first: with it either certificate of the master is trusted.
int identity_renewed(struct identity *id, const char *state_dir, const char *cert_pem,
                     const char *ca_pem, struct err *e)
{
    int r = strcmp(id->ca_pem, ca_pem) == 0 ? 0 : write_text(state_dir, "ca.pem", ca_pem, e);
    if (r == 0)
        r = write_text(state_dir, "certificate.pem", cert_pem, e);
    if (r < 0)
        return r;
    if (replace(&id->ca_pem, ca_pem) < 0 || replace(&id->cert_pem, cert_pem) < 0)
        return err_set(e, -ENOMEM, "out of memory");
    return 0;
}

static int token_hash(const char *token, char out[65])
{
    out[0] = '\0';
    return token ? pki_sha256_hex(token, strlen(token), out) : 0;
}

int identity_set_removed(struct identity *id, const char *state_dir, const char *why,
                         const char *token, struct err *e)
{
    char hash[65];
    cleanup_json json_t *j = json_object();
    if (token_hash(token, hash) < 0 || replace(&id->removed, why) < 0 ||
        replace(&id->removed_token, hash) < 0)
        return err_set(e, -ENOMEM, "out of memory");
    json_put_str(j, "why", why);
    json_put_str(j, "token_sha256", hash);
    cleanup_free char *text = json_text(j);
    return write_text(state_dir, "removed.json", text, e);
}

bool identity_may_return(const struct identity *id, const char *token)
{
    char hash[65];
    return token && token_hash(token, hash) == 0 && strcmp(hash, id->removed_token) != 0;
}

int identity_forget(struct identity *id, const char *state_dir, struct err *e)
{
    char path[160];
    identity_free(id);
    path_of(state_dir, "", path);
    return remove_tree(path, e);
}
