// SPDX-License-Identifier: Apache-2.0
// The cluster's identity files. The id is written last: without it the rest is made anew (nothing
// can have been signed with it), with it everything must be there.
#include "master/identity.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "common/pki.h"

#include <stdlib.h>
#include <string.h>

#define FILE_LIMIT 65536
#define CA_LIFE_S (3650 * PKI_DAY_S)

struct files {
    char folder[256], id[300], ca_cert[300], ca_key[300], server_key[300];
};

static void name_files(const char *data_dir, struct files *f)
{
    (void)snprintf(f->folder, sizeof(f->folder), "%.200s/identity", data_dir);
    (void)snprintf(f->id, sizeof(f->id), "%s/cluster-id", f->folder);
    (void)snprintf(f->ca_cert, sizeof(f->ca_cert), "%s/ca.pem", f->folder);
    (void)snprintf(f->ca_key, sizeof(f->ca_key), "%s/ca.key", f->folder);
    (void)snprintf(f->server_key, sizeof(f->server_key), "%s/server.key", f->folder);
}

static int write_text(const char *path, const char *text, mode_t mode, struct err *e)
{
    return atomic_file_write(path, text, strlen(text), mode, e);
}

static int create(const struct files *f, struct err *e)
{
    char id[ID_BYTES];
    cleanup_free char *ca_key = NULL, *ca_cert = NULL, *server_key = NULL;
    int r = id_new('c', id);
    if (r < 0)
        return err_set(e, r, "no random numbers");
    r = make_dirs(f->folder, 0700, e);
    if (r == 0)
        r = pki_key_new(&ca_key, e);
    if (r == 0)
        r = pki_key_new(&server_key, e);
    if (r == 0)
        r = pki_ca_new(ca_key, id, CA_LIFE_S, &ca_cert, e);
    if (r == 0)
        r = write_text(f->ca_key, ca_key, 0600, e);
    if (r == 0)
        r = write_text(f->server_key, server_key, 0600, e);
    if (r == 0)
        r = write_text(f->ca_cert, ca_cert, 0644, e);
    if (r == 0)
        r = write_text(f->id, id, 0600, e);
    return r;
}

// One that leaked is removed by hand; the CA signs for another.
static int load_server_key(const struct files *f, char **ret, struct err *e)
{
    cleanup_free char *csr = NULL;
    struct err why;
    int r = atomic_file_read(f->server_key, FILE_LIMIT, ret, NULL, e);
    if (r == 0 && pki_csr_new(*ret, "x", &csr, &why) < 0) {
        free(TAKE_PTR(*ret));
        r = file_set_aside(f->server_key, e);
        log_warn("identity", "%s is damaged (%s): kept as %s, a new one is made", f->server_key,
                 why.text, e->text);
        r = r == 0 ? -ENOENT : r;
    }
    if (r != -ENOENT)
        return r;
    r = pki_key_new(ret, e);
    return r == 0 ? write_text(f->server_key, *ret, 0600, e) : r;
}

// The cluster is its CA: what is damaged there can't be made anew.
static int check_ca(const struct files *f, const struct identity *i, struct err *e)
{
    char hex[65];
    cleanup_free char *csr = NULL;
    struct err why;
    bool cert = pki_cert_fingerprint(i->ca_cert, hex, &why) == 0;
    if (cert && pki_csr_new(i->ca_key, "x", &csr, &why) == 0)
        return 0;
    return err_set(e, -EPROTO, "%s is damaged (%s): restore it from a backup",
                   cert ? f->ca_key : f->ca_cert, why.text);
}

static int load(const struct files *f, struct identity *i, struct err *e)
{
    cleanup_free char *id = NULL;
    int r = atomic_file_read(f->id, FILE_LIMIT, &id, NULL, e);
    if (r < 0)
        return r;
    if (!id_is('c', id))
        return err_set(e, -EPROTO, "%s: not a cluster id; restore it from a backup", f->id);
    memcpy(i->id, id, sizeof(i->id));
    r = atomic_file_read(f->ca_cert, FILE_LIMIT, &i->ca_cert, NULL, e);
    if (r == 0)
        r = atomic_file_read(f->ca_key, FILE_LIMIT, &i->ca_key, NULL, e);
    if (r == 0)
        r = check_ca(f, i, e);
    if (r == 0)
        r = load_server_key(f, &i->server_key, e);
    return r == -ENOENT ? err_wrap(e, -EPROTO,
                                   "the cluster's identity is incomplete; restore it from a backup")
                        : r;
}

int identity_open(const char *data_dir, struct identity *ret, struct err *e)
{
    struct files f;
    struct identity i = {0};
    name_files(data_dir, &f);
    int r = load(&f, &i, e);
    if (r == -ENOENT) {
        r = create(&f, e);
        if (r == 0)
            r = load(&f, &i, e);
    }
    if (r < 0) {
        identity_free(&i);
        return r;
    }
    *ret = i;
    return 0;
}

void identity_free(struct identity *i)
{
    free(i->ca_cert);
    free(i->ca_key);
    free(i->server_key);
    *i = (struct identity){0};
}
