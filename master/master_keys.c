// SPDX-License-Identifier: Apache-2.0
// Two slots, each with its file. A rotation writes the previous key's file first, so that a crash
// between the two leaves the old key in both and loses nothing.
#include "master/master_keys.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/log.h"

#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define FILE_LIMIT 65536

struct slot {
    struct jwk *key;
    char thumbprint[JWK_THUMBPRINT_BYTES];
    char path[300];
};

struct master_keys {
    uv_mutex_t lock; // find() comes from the thread that opens envelopes
    struct slot current, previous;
};

static int fill(struct slot *s, struct jwk *key, struct err *e)
{
    int r = jwk_thumbprint(key, s->thumbprint);
    if (r < 0) {
        jwk_free(key);
        return err_set(e, r, "out of memory");
    }
    s->key = key;
    return 0;
}

static int save(const char *path, const struct jwk *key, struct err *e)
{
    char *pem = NULL;
    int r = jwk_private_pem(key, &pem, e);
    if (r < 0)
        return r;
    r = atomic_file_write(path, pem, strlen(pem), 0600, e);
    explicit_bzero(pem, strlen(pem));
    free(pem);
    return r;
}

static int load(struct slot *s, struct err *e)
{
    char *pem = NULL;
    struct jwk *key = NULL;
    int r = atomic_file_read(s->path, FILE_LIMIT, &pem, NULL, e);
    if (r < 0)
        return r;
    r = jwk_from_pem(pem, &key, e);
    explicit_bzero(pem, strlen(pem));
    free(pem);
    if (r == 0 && (jwk_kind_of(key) != JWK_RSA || !jwk_is_private(key))) {
        jwk_free(key);
        r = err_set(e, -EPROTO, "not a private RSA key");
    }
    return r < 0 ? err_wrap(e, r, "%s", s->path) : fill(s, key, e);
}

static int make_first(struct slot *s, struct err *e)
{
    struct jwk *key = NULL;
    int r = jwk_generate(JWK_RSA, MASTER_KEY_BITS, &key, e);
    if (r == 0)
        r = save(s->path, key, e);
    if (r == 0)
        return fill(s, key, e);
    jwk_free(key);
    return r;
}

// A damaged key is set aside as if it were not there: clients that pin it must be told the new one,
// as after a rotation.
static int load_good(struct slot *s, struct err *e)
{
    struct err why;
    int r = load(s, e);
    if (r != -EPROTO && r != -EINVAL)
        return r;
    why = *e;
    r = file_set_aside(s->path, e);
    log_warn("sealed", "damaged: %s: kept as %s", why.text, e->text);
    return r == 0 ? -ENOENT : r;
}

static int open_all(struct master_keys *m, struct err *e)
{
    int r = load_good(&m->current, e);
    if (r == -ENOENT)
        r = make_first(&m->current, e);
    if (r < 0)
        return r;
    r = load_good(&m->previous, e);
    return r == -ENOENT ? 0 : r;
}

int master_keys_open(const char *data_dir, struct master_keys **ret, struct err *e)
{
    struct master_keys *m = calloc(1, sizeof(*m));
    if (!m)
        return err_set(e, -ENOMEM, "out of memory");
    (void)snprintf(m->current.path, sizeof(m->current.path), "%.200s/identity/sealed.key",
                   data_dir);
    (void)snprintf(m->previous.path, sizeof(m->previous.path),
                   "%.200s/identity/sealed-previous.key", data_dir);
    if (uv_mutex_init(&m->lock) < 0) {
        free(m);
        return err_set(e, -ENOMEM, "out of memory");
    }
    int r = open_all(m, e);
    if (r < 0) {
        master_keys_free(m);
        return r;
    }
    *ret = m;
    return 0;
}

void master_keys_free(struct master_keys *m)
{
    if (!m)
        return;
    jwk_free(m->current.key);
    jwk_free(m->previous.key);
    uv_mutex_destroy(&m->lock);
    free(m);
}

struct jwk *master_keys_find(struct master_keys *m, const char *thumbprint)
{
    struct jwk *found = NULL;
    uv_mutex_lock(&m->lock);
    const struct slot *slots[] = {&m->current, &m->previous};
    for (size_t i = 0; i < ARRAY_SIZE(slots) && !found; i++)
        if (slots[i]->key && strcmp(slots[i]->thumbprint, thumbprint) == 0)
            found = jwk_ref(slots[i]->key);
    uv_mutex_unlock(&m->lock);
    return found;
}

const char *master_keys_thumbprint(const struct master_keys *m)
{
    return m->current.thumbprint;
}

int master_keys_info(struct master_keys *m, bool previous, struct master_key_info *ret,
                     struct err *e)
{
    const struct slot *s = previous ? &m->previous : &m->current;
    struct master_key_info i = {0};
    *ret = i;
    if (!s->key)
        return 0;
    memcpy(i.thumbprint, s->thumbprint, sizeof(i.thumbprint));
    i.bits = jwk_bits(s->key);
    i.jwk = jwk_public_json(s->key);
    int r = i.jwk ? jwk_public_pem(s->key, &i.pem, e) : err_set(e, -ENOMEM, "out of memory");
    if (r < 0)
        master_key_info_reset(&i);
    *ret = i;
    return r;
}

void master_key_info_reset(struct master_key_info *i)
{
    json_decref(i->jwk);
    free(i->pem);
    *i = (struct master_key_info){0};
}

int master_keys_rotate(struct master_keys *m, struct jwk *key, struct err *e)
{
    struct slot next = {0};
    int r = fill(&next, key, e);
    if (r < 0)
        return r;
    r = save(m->previous.path, m->current.key, e);
    if (r == 0)
        r = save(m->current.path, key, e);
    if (r < 0) {
        jwk_free(key);
        return r;
    }
    memcpy(next.path, m->current.path, sizeof(next.path));
    uv_mutex_lock(&m->lock);
    jwk_free(m->previous.key);
    m->previous.key = m->current.key;
    memcpy(m->previous.thumbprint, m->current.thumbprint, sizeof(m->previous.thumbprint));
    m->current = next;
    uv_mutex_unlock(&m->lock);
    return 0;
}
