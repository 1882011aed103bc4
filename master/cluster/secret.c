// SPDX-License-Identifier: Apache-2.0
// Secrets as records `secret:<user>/<name>`, sealed. What an older key has sealed is sealed anew
// when it is loaded, so that after one start of the master the old key may go.
#include "master/cluster/secret.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "master/cluster/cluster_internal.h"
#include "master/cluster/secret_seal.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>

#define SECRETS_PER_USER 1000
#define KEY_BYTES (8 + 2 * NAME_BYTES)

int cluster_secrets_open(struct cluster *c, const char *folder, struct err *e)
{
    c->seal_keys = calloc(1, sizeof(*c->seal_keys));
    return c->seal_keys ? seal_keys_load(folder, c->seal_keys, e)
                        : err_set(e, -ENOMEM, "out of memory");
}

static void secret_free(struct secret *s)
{
    free(s->ref);
    free(s->sealed);
    free(s);
}

void secret_free_all(struct cluster *c)
{
    struct secret *s, *tmp;
    HASH_ITER (hh, c->secrets, s, tmp) {
        HASH_DEL(c->secrets, s);
        secret_free(s);
    }
    if (c->seal_keys)
        seal_keys_wipe(c->seal_keys);
    free(c->seal_keys);
    c->seal_keys = NULL;
}

const struct secret *cluster_secrets(const struct cluster *c)
{
    return c->secrets;
}

static struct secret *find(const struct cluster *c, const char *user, const char *name)
{
    char ref[2 * NAME_BYTES];
    struct secret *s = NULL;
    (void)snprintf(ref, sizeof(ref), "%.63s/%.63s", user, name);
    HASH_FIND_STR(c->secrets, ref, s);
    return s;
}

const struct secret *cluster_secret_find(const struct cluster *c, const char *user,
                                         const char *name)
{
    return find(c, user, name);
}

static void record_key(const struct secret *s, char out[KEY_BYTES])
{
    (void)snprintf(out, KEY_BYTES, "secret:%s", s->ref);
}

static void store(struct cluster *c, const struct secret *s)
{
    char key[KEY_BYTES];
    cleanup_json json_t *j = secret_view(s);
    json_put_str(j, "sealed", s->sealed);
    record_key(s, key);
    cluster_put(c, key, json_text(j), 0);
}

json_t *secret_view(const struct secret *s)
{
    json_t *j = json_object();
    json_put_str(j, "name", s->name);
    json_put_str(j, "user", s->user);
    json_put_i64(j, "version", s->version);
    json_put_time(j, "created_at", s->created_ms);
    json_put_time(j, "changed_at", s->changed_ms);
    return j;
}

static struct secret *secret_new(struct cluster *c, const char *user, const char *name)
{
    struct secret *s = calloc(1, sizeof(*s));
    if (!s)
        return NULL;
    (void)snprintf(s->user, sizeof(s->user), "%s", user);
    (void)snprintf(s->name, sizeof(s->name), "%s", name);
    if (asprintf(&s->ref, "%s/%s", s->user, s->name) < 0) {
        free(s);
        return NULL;
    }
    s->created_ms = clock_real_ms();
    HASH_ADD_KEYPTR(hh, c->secrets, s->ref, strlen(s->ref), s);
    return s;
}

// --- loading -------------------------------------------------------------------------------------

int secret_from_record(struct cluster *c, const json_t *j, struct err *e)
{
    const char *user, *name, *sealed;
    int r = json_get_str(j, "user", &user, e);
    if (r == 0)
        r = json_get_str(j, "name", &name, e);
    if (r == 0)
        r = json_get_str(j, "sealed", &sealed, e);
    if (r < 0)
        return r;
    if (!secret_name_ok(name) || strlen(user) >= NAME_BYTES)
        return err_set(e, -EPROTO, "a bad name");
    struct secret *s = secret_new(c, user, name);
    if (!s || !(s->sealed = strdup(sealed)))
        return err_set(e, -ENOMEM, "out of memory");
    s->version = json_opt_i64(j, "version", 1);
    s->created_ms = json_opt_time(j, "created_at");
    s->changed_ms = json_opt_time(j, "changed_at");
    return 0;
}

static int open_secret(const struct cluster *c, const struct secret *s, char **ret, size_t *ret_len,
                       struct err *e)
{
    char key[KEY_BYTES];
    if (!c->seal_keys)
        return err_set(e, -ENOTSUP, "there is no key for secrets");
    record_key(s, key);
    return secret_unseal(c->seal_keys, key, s->sealed, ret, ret_len, e);
}

static int seal(struct cluster *c, struct secret *s, const char *value, size_t len, struct err *e)
{
    char key[KEY_BYTES];
    char *sealed;
    if (!c->seal_keys)
        return err_set(e, -ENOTSUP, "there is no key for secrets");
    record_key(s, key);
    int r = secret_seal(c->seal_keys, key, value, len, &sealed, e);
    if (r < 0)
        return r;
    free(s->sealed);
    s->sealed = sealed;
    return 0;
}

void secret_reseal_all(struct cluster *c)
{
    for (struct secret *s = c->secrets; s; s = s->hh.next) {
        struct err e;
        char *value = NULL;
        size_t len = 0;
        if (c->seal_keys &&
            strncmp(s->sealed, c->seal_keys->items[0].id, SEAL_KEY_ID_BYTES - 1) == 0)
            continue;
        int r = open_secret(c, s, &value, &len, &e);
        if (r == 0)
            r = seal(c, s, value, len, &e);
        if (r == 0)
            store(c, s);
        else
            log_error("secrets", "%s", e.text);
        if (value)
            OPENSSL_cleanse(value, len);
        free(value);
    }
}

// --- changes -------------------------------------------------------------------------------------

static size_t count_of(const struct cluster *c, const char *user)
{
    size_t n = 0;
    for (const struct secret *s = c->secrets; s; s = s->hh.next)
        n += strcmp(s->user, user) == 0;
    return n;
}

static int check(const struct cluster *c, const char *user, const char *name, size_t len,
                 struct err *e)
{
    if (!secret_name_ok(name))
        return err_set(e, -EINVAL,
                       "name: expected 1 to 63 of letters, digits, \"_\", \".\" and \"-\", not "
                       "beginning with the last two");
    if (len > SECRET_MAX_BYTES)
        return err_set(e, -EFBIG, "value: longer than %d bytes", SECRET_MAX_BYTES);
    if (!find(c, user, name) && count_of(c, user) >= SECRETS_PER_USER)
        return err_set(e, -ENOSPC, "%s has %d secrets already", user, SECRETS_PER_USER);
    return 0;
}

int cluster_secret_put(struct cluster *c, const char *user, const char *name, const char *value,
                       size_t len, struct err *e)
{
    int r = check(c, user, name, len, e);
    if (r < 0)
        return r;
    struct secret *s = find(c, user, name);
    bool is_new = !s;
    if (is_new)
        s = secret_new(c, user, name);
    if (!s)
        return err_set(e, -ENOMEM, "out of memory");
    r = seal(c, s, value, len, e);
    if (r < 0) {
        if (is_new) {
            HASH_DEL(c->secrets, s);
            secret_free(s);
        }
        return r;
    }
    s->version++;
    s->changed_ms = clock_real_ms();
    store(c, s);
    return 0;
}

static void forget(struct cluster *c, struct secret *s)
{
    char key[KEY_BYTES];
    record_key(s, key);
    cluster_del(c, key);
    HASH_DEL(c->secrets, s);
    secret_free(s);
}

int cluster_secret_remove(struct cluster *c, const char *user, const char *name)
{
    struct secret *s = find(c, user, name);
    if (!s)
        return -ENOENT;
    forget(c, s);
    return 0;
}

void secret_forget_user(struct cluster *c, const char *user)
{
    struct secret *s, *tmp;
    HASH_ITER (hh, c->secrets, s, tmp) {
        if (strcmp(s->user, user) == 0)
            forget(c, s);
    }
}

// --- use -----------------------------------------------------------------------------------------

const char *cluster_secret_missing(const struct cluster *c, const struct job_spec *spec,
                                   const char *user)
{
    for (size_t i = 0; i < spec->n_components; i++)
        for (size_t k = 0; k < spec->components[i].n_secrets; k++)
            if (!find(c, user, spec->components[i].secrets[k].name))
                return spec->components[i].secrets[k].name;
    return NULL;
}

int secret_for_attempt(const struct cluster *c, const struct task *t, struct attempt_spec *spec)
{
    const struct job_component *k = task_component(t);
    struct err e;
    spec->secrets = calloc(k->n_secrets + 1, sizeof(*spec->secrets));
    if (!spec->secrets)
        return -ENOMEM;
    // A user made anew under an old name has nothing to do with the jobs of the one before.
    const struct user *u = cluster_user_find(c, t->job->user);
    bool same = u && (u->adopted || t->job->submitted_ms >= u->created_ms);
    for (size_t i = 0; i < k->n_secrets; i++) {
        struct attempt_secret *to = &spec->secrets[spec->n_secrets++];
        const struct secret *s = same ? find(c, t->job->user, k->secrets[i].name) : NULL;
        to->name = strdup(k->secrets[i].name);
        to->path = k->secrets[i].path ? strdup(k->secrets[i].path) : NULL;
        if (!to->name || (k->secrets[i].path && !to->path))
            return -ENOMEM;
        // Once it runs it has them; they need not travel again.
        if (s && t->state <= TASK_STARTING && open_secret(c, s, &to->value, &to->len, &e) < 0)
            log_error("secrets", "%s", e.text);
    }
    return 0;
}
