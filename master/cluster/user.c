// SPDX-License-Identifier: Apache-2.0
// Users as records: names of roles and rights, the map by name, load and store.
#include "master/cluster/user.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "master/cluster/cluster_internal.h"
#include "master/cluster/quota.h"
#include "master/scheduler/scheduler.h"

#include <stdlib.h>
#include <string.h>

#define USERS_MAX 100000
#define ID_LIMIT INT64_C(4294967294) // (uid_t)-1 means "nobody given"

static const char *const role_names[ROLE_MAX] = {"open",     "viewer", "user",
                                                 "operator", "admin",  "node"};

const char *role_to_string(enum role r)
{
    return role_names[r];
}

int role_from_string(const char *text, enum role *ret)
{
    for (int i = ROLE_VIEWER; i <= ROLE_ADMIN; i++)
        if (strcmp(text, role_names[i]) == 0) {
            *ret = (enum role)i;
            return 0;
        }
    return -EINVAL;
}

// --- rights ---

static const struct {
    enum user_right right;
    const char *name;
} right_names[] = {{RIGHT_EXEC, "exec"}, {RIGHT_DATA_WRITE, "data-write"}};

const char *right_to_string(enum user_right r)
{
    for (size_t i = 0; i < ARRAY_SIZE(right_names); i++)
        if (right_names[i].right == r)
            return right_names[i].name;
    return "?";
}

json_t *rights_to_json(unsigned rights)
{
    json_t *list = json_array();
    for (size_t i = 0; i < ARRAY_SIZE(right_names); i++)
        if (rights & right_names[i].right)
            (void)json_array_append_new(list, json_string(right_names[i].name));
    return list;
}

static unsigned right_from_string(const char *text)
{
    for (size_t i = 0; text && i < ARRAY_SIZE(right_names); i++)
        if (strcmp(text, right_names[i].name) == 0)
            return right_names[i].right;
    return 0;
}

int rights_from_json(const json_t *list, unsigned *ret, struct err *e)
{
    size_t i;
    const json_t *x;
    unsigned rights = 0;
    if (!json_is_array(list))
        return err_set(e, -EINVAL, "rights: expected a list of \"exec\" and \"data-write\"");
    json_array_foreach (list, i, x) {
        unsigned right = right_from_string(json_string_value(x));
        if (!right)
            return err_set(e, -EINVAL, "rights[%zu]: expected \"exec\" or \"data-write\"", i);
        rights |= right;
    }
    *ret = rights;
    return 0;
}

unsigned user_rights(const struct user *u)
{
    return u->disabled || u->role < ROLE_USER ? 0 : u->rights;
}

// --- the record ---

bool user_name_ok(const char *name)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_";
    size_t len = strlen(name);
    return len > 0 && len < NAME_BYTES && strchr(plain, name[0]) &&
           strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._@-") ==
               len;
}

void user_init(struct user *u, const char *name, enum role role)
{
    *u = (struct user){.role = role,
                       .rights = role >= ROLE_USER ? RIGHTS_ALL : 0,
                       .uid = -1,
                       .gid = -1,
                       .weight = 1,
                       .quota = PLAN_NO_QUOTA,
                       .created_ms = clock_real_ms()};
    (void)snprintf(u->name, sizeof(u->name), "%s", name);
}

static json_t *to_json(const struct user *u)
{
    json_t *j = json_object();
    json_put_str(j, "name", u->name);
    json_put_str(j, "role", role_to_string(u->role));
    json_put(j, "rights", rights_to_json(u->rights));
    json_put_str(j, "team", u->team[0] ? u->team : NULL);
    json_put(j, "uid", u->uid >= 0 ? json_integer(u->uid) : json_null());
    json_put(j, "gid", u->gid >= 0 ? json_integer(u->gid) : json_null());
    json_put_i64(j, "weight", u->weight);
    json_put(j, "quota", quota_to_json(&u->quota));
    json_put_bool(j, "disabled", u->disabled);
    json_put_time(j, "created_at", u->created_ms);
    return j;
}

json_t *user_view(const struct user *u)
{
    json_t *j = to_json(u);
    json_put(j, "rights", rights_to_json(user_rights(u)));
    return j;
}

// --- the map ---

static struct user *find(const struct cluster *c, const char *name)
{
    struct user *u = NULL;
    HASH_FIND_STR(c->users, name, u);
    return u;
}

const struct user *cluster_user_find(const struct cluster *c, const char *name)
{
    return find(c, name);
}

const struct user *cluster_users(const struct cluster *c)
{
    return c->users;
}

unsigned cluster_user_count(const struct cluster *c)
{
    return HASH_COUNT(c->users);
}

// Into the map only, without the record.
static int add(struct cluster *c, const struct user *from, struct err *e)
{
    struct user *u = find(c, from->name);
    if (!user_name_ok(from->name))
        return err_set(e, -EINVAL,
                       "user \"%.63s\": expected a name of 1 to 63 characters of A-Z, a-z, 0-9, "
                       "'.', '_', '@' and '-', the first a letter, digit or '_'",
                       from->name);
    if (from->weight < 1 || from->weight > USER_WEIGHT_MAX)
        return err_set(e, -EINVAL, "weight: expected 1 to %d", USER_WEIGHT_MAX);
    if (from->uid < -1 || from->uid > ID_LIMIT || from->gid < -1 || from->gid > ID_LIMIT)
        return err_set(e, -EINVAL, "uid, gid: expected 0 to 4294967294");
    if (!u && HASH_COUNT(c->users) >= USERS_MAX)
        return err_set(e, -ENOSPC, "there are %d users: remove some", USERS_MAX);
    struct user *added = u ? NULL : malloc(sizeof(*added));
    if ((!u && !added) || team_join(c, from->team) < 0) {
        free(added);
        return err_set(e, -ENOMEM, "out of memory");
    }
    if (u) {
        UT_hash_handle hh = u->hh;
        team_leave(c, u->team);
        *u = *from;
        u->hh = hh;
        scheduler_user_changed(c, u->name);
        return 0;
    }
    *added = *from;
    HASH_ADD_STR(c->users, name, added);
    scheduler_user_changed(c, added->name);
    return 0;
}

int user_from_record(struct cluster *c, const json_t *j, struct err *e)
{
    struct user u;
    const char *name, *role;
    enum role r_role;
    int r = json_get_str(j, "name", &name, e);
    if (r == 0)
        r = json_get_str(j, "role", &role, e);
    if (r < 0)
        return r;
    if (role_from_string(role, &r_role) < 0)
        r_role = ROLE_VIEWER; // an unknown role gets the least
    user_init(&u, name, r_role);
    if (rights_from_json(json_object_get(j, "rights"), &u.rights, e) < 0)
        u.rights = 0;
    (void)snprintf(u.team, sizeof(u.team), "%s", json_opt_str(j, "team", ""));
    u.uid = json_opt_i64(j, "uid", -1);
    u.gid = json_opt_i64(j, "gid", -1);
    u.weight = json_opt_i64(j, "weight", 1);
    if (quota_from_json(json_object_get(j, "quota"), &u.quota, e) < 0)
        u.quota = PLAN_NO_QUOTA;
    u.disabled = json_opt_bool(j, "disabled", false);
    u.created_ms = json_opt_time(j, "created_at");
    return add(c, &u, e);
}

static void record_key(const char *name, char out[8 + NAME_BYTES])
{
    (void)snprintf(out, 8 + NAME_BYTES, "user:%s", name);
}

int cluster_user_put(struct cluster *c, const struct user *from, struct err *e)
{
    char key[8 + NAME_BYTES];
    int r = add(c, from, e);
    if (r < 0)
        return r;
    cleanup_json json_t *j = to_json(from);
    record_key(from->name, key);
    cluster_put(c, key, json_text(j), 0);
    return 0;
}

int cluster_user_remove(struct cluster *c, const char *name)
{
    char key[8 + NAME_BYTES], usage[8 + NAME_BYTES];
    struct user *u = find(c, name);
    if (!u)
        return -ENOENT;
    record_key(u->name, key);
    (void)snprintf(usage, sizeof(usage), "usage:%.63s", u->name);
    secret_forget_user(c, u->name); // nobody of the same name later shall have them
    HASH_DEL(c->users, u);
    team_leave(c, u->team);
    scheduler_user_changed(c, u->name);
    free(u);
    cluster_del(c, key);
    cluster_del(c, usage);
    return 0;
}

void user_free_all(struct cluster *c)
{
    struct user *u, *tmp;
    HASH_ITER (hh, c->users, u, tmp) {
        HASH_DEL(c->users, u);
        free(u);
    }
}
