// SPDX-License-Identifier: Apache-2.0
// Teams as records: the map by name, load and store.
#include "master/cluster/team.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "master/cluster/cluster_internal.h"
#include "master/cluster/quota.h"
#include "master/scheduler/scheduler.h"

#include <stdlib.h>
#include <string.h>

#define TEAMS_MAX 10000

static struct team *find(const struct cluster *c, const char *name)
{
    struct team *t = NULL;
    HASH_FIND_STR(c->teams, name, t);
    return t;
}

static struct team plain(const char *name)
{
    struct team t = {.weight = 1, .quota = PLAN_NO_QUOTA};
    (void)snprintf(t.name, sizeof(t.name), "%s", name);
    return t;
}

// --- who belongs to one ---

struct team_size { // of each team that a user names
    char name[NAME_BYTES];
    int64_t users;
    UT_hash_handle hh;
};

static int64_t members(const struct cluster *c, const char *name)
{
    const struct team_size *t = NULL;
    HASH_FIND_STR(c->team_sizes, name, t);
    return t ? t->users : 0;
}

int team_join(struct cluster *c, const char *name)
{
    struct team_size *t = NULL;
    if (!*name)
        return 0;
    HASH_FIND_STR(c->team_sizes, name, t);
    if (!t) {
        t = calloc(1, sizeof(*t));
        if (!t)
            return -ENOMEM;
        (void)snprintf(t->name, sizeof(t->name), "%s", name);
        HASH_ADD_STR(c->team_sizes, name, t);
    }
    t->users++;
    return 0;
}

void team_leave(struct cluster *c, const char *name)
{
    struct team_size *t = NULL;
    HASH_FIND_STR(c->team_sizes, name, t);
    if (!t || --t->users > 0)
        return;
    HASH_DEL(c->team_sizes, t);
    free(t);
}

// --- records ---

bool cluster_team_find(const struct cluster *c, const char *name, struct team *ret)
{
    const struct team *t = find(c, name);
    *ret = t ? *t : plain(name);
    return t || (*name && members(c, name) > 0);
}

void cluster_teams(const struct cluster *c, void (*each)(const struct team *t, void *userdata),
                   void *userdata)
{
    for (const struct team *t = c->teams; t; t = t->hh.next)
        each(t, userdata);
    for (const struct team_size *s = c->team_sizes; s; s = s->hh.next) {
        struct team t = plain(s->name);
        if (!find(c, s->name))
            each(&t, userdata);
    }
}

static int add(struct cluster *c, const struct team *from, struct err *e)
{
    if (!user_name_ok(from->name))
        return err_set(e, -EINVAL, "team: expected a name as users have");
    if (from->weight < 1 || from->weight > USER_WEIGHT_MAX)
        return err_set(e, -EINVAL, "weight: expected 1 to %d", USER_WEIGHT_MAX);
    struct team *t = find(c, from->name);
    if (!t && HASH_COUNT(c->teams) >= TEAMS_MAX)
        return err_set(e, -ENOSPC, "there are %d teams: remove some", TEAMS_MAX);
    if (!t) {
        t = calloc(1, sizeof(*t));
        if (!t)
            return err_set(e, -ENOMEM, "out of memory");
        *t = *from;
        HASH_ADD_STR(c->teams, name, t);
    }
    t->weight = from->weight;
    t->quota = from->quota;
    scheduler_team_changed(c, t->name);
    return 0;
}

static json_t *to_json(const struct team *t)
{
    json_t *j = json_object();
    json_put_str(j, "name", t->name);
    json_put_i64(j, "weight", t->weight);
    json_put(j, "quota", quota_to_json(&t->quota));
    return j;
}

json_t *team_view(const struct cluster *c, const struct team *t)
{
    json_t *j = to_json(t);
    json_put_i64(j, "users", members(c, t->name));
    return j;
}

static void record_key(const char *name, char out[8 + NAME_BYTES])
{
    (void)snprintf(out, 8 + NAME_BYTES, "team:%.63s", name);
}

int cluster_team_put(struct cluster *c, const struct team *t, struct err *e)
{
    char key[8 + NAME_BYTES];
    int r = add(c, t, e);
    if (r < 0)
        return r;
    cleanup_json json_t *j = to_json(t);
    record_key(t->name, key);
    cluster_put(c, key, json_text(j), 0);
    want_schedule(c);
    return 0;
}

int cluster_team_remove(struct cluster *c, const char *name)
{
    char key[8 + NAME_BYTES];
    struct team *t = find(c, name);
    if (!t)
        return -ENOENT;
    record_key(t->name, key);
    HASH_DEL(c->teams, t);
    scheduler_team_changed(c, t->name);
    free(t);
    cluster_del(c, key);
    want_schedule(c);
    return 0;
}

int team_from_record(struct cluster *c, const json_t *j, struct err *e)
{
    struct team t = plain(json_opt_str(j, "name", ""));
    t.weight = json_opt_i64(j, "weight", 1);
    if (quota_from_json(json_object_get(j, "quota"), &t.quota, e) < 0)
        t.quota = PLAN_NO_QUOTA;
    return add(c, &t, e);
}

void team_free_all(struct cluster *c)
{
    struct team *t, *next;
    HASH_ITER (hh, c->teams, t, next) {
        HASH_DEL(c->teams, t);
        free(t);
    }
    struct team_size *s, *s_next;
    HASH_ITER (hh, c->team_sizes, s, s_next) {
        HASH_DEL(c->team_sizes, s);
        free(s);
    }
}
