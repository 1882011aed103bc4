// SPDX-License-Identifier: Apache-2.0
// In which lists jobs stand, so that none is walked whole: by submission, in blocks of consecutive
// submission numbers that know how many of their jobs are in each state and whose they may be (a
// page of running jobs skips blocks that have none); by name; and counted by state and user.
#include "master/cluster/cluster_internal.h"
#include "master/scheduler/scheduler.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define BLOCK_BITS 8 // 256 submission numbers

struct job_block {
    struct job *newest; // NULL = it has none
    unsigned counts[JOB_STATE_MAX];
    uint64_t users; // a bit for each hash of a user who has or had a job here
};

struct job_user {
    char *name;
    unsigned counts[JOB_STATE_MAX];
    UT_hash_handle hh;
};

struct job_names { // jobs that have one name
    char *name;
    struct job *jobs; // newest first (name_prev/name_next)
    struct job *live; // that are not over
    UT_hash_handle hh;
};

static bool over(enum job_state s)
{
    return s >= JOB_SUCCEEDED;
}

// --- by name ---

static struct job_names *names_of(struct cluster *c, const char *name, bool create)
{
    struct job_names *x = NULL;
    HASH_FIND_STR(c->names, name, x);
    if (x || !create)
        return x;
    x = calloc(1, sizeof(*x));
    char *copy = strdup(name);
    if (!x || !copy) {
        free(x);
        free(copy);
        return NULL;
    }
    x->name = copy;
    HASH_ADD_KEYPTR(hh, c->names, x->name, strlen(x->name), x);
    return x;
}

static void names_drop(struct cluster *c, struct job_names *x)
{
    HASH_DEL(c->names, x);
    free(x->name);
    free(x);
}

struct job *live_jobs_of_name(struct cluster *c, const char *name)
{
    const struct job_names *names = names_of(c, name, false);
    return names ? names->live : NULL;
}

struct job *job_by_name(struct cluster *c, const char *name, const char *user, bool live)
{
    const struct job_names *names = names_of(c, name, false);
    struct job *j;
    for (j = names ? names->live : NULL; j; j = j->live_next)
        if (!user || strcmp(j->user, user) == 0)
            return j;
    for (j = names && !live ? names->jobs : NULL; j; j = j->name_next)
        if (!user || strcmp(j->user, user) == 0)
            return j;
    return NULL;
}

// --- by user ---

static uint64_t user_bit(const char *user)
{
    unsigned hash;
    HASH_JEN(user, strlen(user), hash);
    return UINT64_C(1) << (hash % 64);
}

static struct job_user *job_user_of(struct cluster *c, const char *name, bool create)
{
    struct job_user *u = NULL;
    HASH_FIND_STR(c->job_users, name, u);
    if (u || !create)
        return u;
    u = calloc(1, sizeof(*u));
    if (u && !(u->name = strdup(name))) {
        free(u);
        u = NULL;
    }
    if (u)
        HASH_ADD_KEYPTR(hh, c->job_users, u->name, strlen(u->name), u);
    return u;
}

// --- blocks ---

static struct job_block *block_of(const struct cluster *c, const struct job *j)
{
    int64_t at = (j->order >> BLOCK_BITS) - c->first_block;
    return at >= 0 && at < (int64_t)c->n_blocks ? &c->blocks[at] : NULL;
}

// Empty ones in front go when there are many.
static void blocks_shift(struct cluster *c)
{
    size_t empty = 0;
    while (empty < c->n_blocks && !c->blocks[empty].newest)
        empty++;
    if (empty == 0 || empty * 2 < c->n_blocks)
        return;
    c->n_blocks -= empty;
    memmove(c->blocks, c->blocks + empty, c->n_blocks * sizeof(*c->blocks));
    c->first_block += (int64_t)empty;
}

// Room for a job that is newer than all others. NULL = out of memory.
static struct job_block *block_make(struct cluster *c, const struct job *j)
{
    int64_t at = j->order >> BLOCK_BITS;
    if (c->n_blocks == 0)
        c->first_block = at;
    size_t need = (size_t)(at - c->first_block) + 1;
    if (need > c->blocks_capacity) {
        blocks_shift(c);
        need = (size_t)(at - c->first_block) + 1;
    }
    if (need > c->blocks_capacity) {
        struct job_block *x = realloc(c->blocks, need * 2 * sizeof(*x));
        if (!x)
            return NULL;
        c->blocks = x;
        c->blocks_capacity = need * 2;
    }
    for (; c->n_blocks < need; c->n_blocks++)
        c->blocks[c->n_blocks] = (struct job_block){0};
    return block_of(c, j);
}

static void block_leave(struct cluster *c, const struct job *j)
{
    struct job_block *b = block_of(c, j);
    if (!b || b->newest != j)
        return;
    struct job *before = cluster_job_older(c, j);
    b->newest = before && block_of(c, before) == b ? before : NULL;
    if (!b->newest)
        b->users = 0;
}

// --- counts ---

static void list_live(struct job_names *names, struct job *j, bool lives)
{
    if (lives == j->listed_live)
        return;
    j->listed_live = lives;
    if (lives)
        DL_PREPEND2(names->live, j, live_prev, live_next);
    else
        DL_DELETE2(names->live, j, live_prev, live_next);
}

void job_counted(struct cluster *c, struct job *j, int by)
{
    if (j->array || !c->jobs_listed)
        return;
    struct job_block *b = block_of(c, j);
    struct job_user *u = job_user_of(c, j->user, true);
    struct job_names *names = names_of(c, j->name, false);
    unsigned add = (unsigned)by;
    c->job_counts[j->state] += add;
    if (b)
        b->counts[j->state] += add;
    if (u)
        u->counts[j->state] += add;
    if (names && by > 0)
        list_live(names, j, !over(j->state));
}

// --- in and out ---

static void list(struct cluster *c, struct job *j)
{
    struct job_names *names = names_of(c, j->name, true);
    struct job_block *b = block_make(c, j);
    if (b) {
        b->newest = j;
        b->users |= user_bit(j->user);
    }
    if (names)
        DL_PREPEND2(names->jobs, j, name_prev, name_next);
    job_counted(c, j, 1);
}

void job_link(struct cluster *c, struct job *j)
{
    HASH_ADD_STR(c->jobs, id, j);
    DL_APPEND(c->oldest, j);
    c->newest = j;
    if (j->order > c->last_order)
        c->last_order = j->order;
    if (c->jobs_listed)
        list(c, j);
}

void job_unlink(struct cluster *c, struct job *j)
{
    HASH_DEL(c->jobs, j);
    if (j->array)
        return;
    struct job_names *names = names_of(c, j->name, false);
    job_counted(c, j, -1);
    history_remove(c, j);
    lost_logs_job_gone(c, j);
    block_leave(c, j);
    DL_DELETE(c->oldest, j);
    c->newest = c->oldest ? c->oldest->prev : NULL; // utlist: the head's prev is the tail
    if (names) {
        list_live(names, j, false);
        DL_DELETE2(names->jobs, j, name_prev, name_next);
    }
    if (names && !names->jobs)
        names_drop(c, names);
}

static int by_key(const void *a, const void *b)
{
    const struct job_key *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

void jobs_sort(struct job_key *keys, size_t n)
{
    if (n > 0)
        qsort(keys, n, sizeof(*keys), by_key);
}

// Records come in no order: everything is listed when all are there.
int job_lists_start(struct cluster *c)
{
    size_t n = 0;
    struct job_key *keys = calloc((size_t)cluster_job_count(c) + 1, sizeof(*keys));
    if (!keys)
        return -ENOMEM;
    for (struct job *j = c->oldest; j; j = j->next)
        keys[n++] = (struct job_key){j->order, j->order, j};
    jobs_sort(keys, n);
    c->oldest = c->newest = NULL;
    c->jobs_listed = true;
    for (size_t i = 0; i < n; i++) {
        c->newest = keys[i].job;
        DL_APPEND(c->oldest, c->newest);
        list(c, c->newest);
    }
    free(keys);
    return 0;
}

void job_lists_free(struct cluster *c)
{
    struct job_names *x, *x_next;
    struct job_user *u, *u_next;
    HASH_ITER (hh, c->names, x, x_next) {
        names_drop(c, x);
    }
    HASH_ITER (hh, c->job_users, u, u_next) {
        HASH_DEL(c->job_users, u);
        free(u->name);
        free(u);
    }
    free(c->blocks);
}

// --- looking ---

struct job *cluster_job_by_id(struct cluster *c, const char *id)
{
    struct job *j = NULL;
    HASH_FIND_STR(c->jobs, id, j);
    return j;
}

struct job *cluster_jobs_newest(struct cluster *c)
{
    return c->newest;
}

struct job *cluster_job_older(struct cluster *c, const struct job *j)
{
    return j == c->oldest ? NULL : j->prev; // utlist: the head's prev is the tail
}

static bool may_have(const struct job_block *b, const struct job_filter *f)
{
    unsigned n = 0;
    if (!b->newest || (f->user && !(b->users & user_bit(f->user))))
        return false;
    for (int s = 0; s < JOB_STATE_MAX; s++)
        n |= f->states & JOB_IN(s) ? b->counts[s] : 0;
    return n > 0;
}

// The newest job of the closest older block that may have one.
static struct job *skip(const struct cluster *c, const struct job_block *b,
                        const struct job_filter *f)
{
    while (b-- > c->blocks)
        if (may_have(b, f))
            return b->newest;
    return NULL;
}

bool cluster_job_passes(const struct job *j, const struct job_filter *f)
{
    return (f->states & JOB_IN(j->state)) && (!f->user || strcmp(j->user, f->user) == 0);
}

struct job *cluster_jobs_next(struct cluster *c, const struct job *after,
                              const struct job_filter *f)
{
    if (after && after->array) // stands where its array does
        after = after->array;
    struct job *j = after ? cluster_job_older(c, after) : c->newest;
    const struct job_block *known = NULL;
    while (j) {
        const struct job_block *b = block_of(c, j);
        if (b && b != known && !may_have(b, f)) {
            j = skip(c, b, f);
            continue;
        }
        known = b;
        if (cluster_job_passes(j, f))
            return j;
        j = cluster_job_older(c, j);
    }
    return NULL;
}

size_t cluster_jobs_matching(struct cluster *c, const struct job_filter *f)
{
    const struct job_user *u = f->user ? job_user_of(c, f->user, false) : NULL;
    size_t n = 0;
    if (f->user && !u)
        return 0;
    for (int s = 0; s < JOB_STATE_MAX; s++)
        n += f->states & JOB_IN(s) ? (u ? u->counts[s] : c->job_counts[s]) : 0;
    return n;
}

unsigned cluster_job_count(const struct cluster *c)
{
    return HASH_CNT(hh, c->jobs);
}

unsigned cluster_job_count_in(const struct cluster *c, enum job_state state)
{
    return c->job_counts[state];
}
