// SPDX-License-Identifier: Apache-2.0
// Who keeps off whom, by user and name of the one that is kept off.
#include "master/scheduler/scheduler_keepers.h"

#include "master/cluster/array.h"
#include "master/cluster/cluster_internal.h"
#include "master/scheduler/scheduler.h"
#include "master/scheduler/scheduler_internal.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define KEY_BYTES ((size_t)2 * NAME_BYTES + 2)

static void key_of(const char *user, const char *name, char key[KEY_BYTES])
{
    (void)snprintf(key, KEY_BYTES, "%s/%s", user, name);
}

static struct kept_off *find(struct cluster *c, const char *user, const char *name)
{
    char key[KEY_BYTES];
    struct kept_off *k = NULL;
    key_of(user, name, key);
    HASH_FIND_STR(c->scheduler->kept_off, key, k);
    return k;
}

static void queue_anew(struct cluster *c, const char *user, const char *name)
{
    for (struct job *j = live_jobs_of_name(c, name); j; j = j->live_next)
        if (j->elements && strcmp(j->user, user) == 0)
            array_stale(c, j);
        else if (j->queued && strcmp(j->user, user) == 0)
            scheduler_job_stale(c, j);
}

// The others know that there is one from the first on, and ask for all when they look for a place.
static int add(struct cluster *c, struct job *j, int component, const char *name)
{
    struct kept_off *of = find(c, j->user, name);
    struct keeper *k = calloc(1, sizeof(*k));
    if (!k)
        return -ENOMEM;
    if (!of) {
        char key[KEY_BYTES];
        key_of(j->user, name, key);
        of = calloc(1, sizeof(*of));
        if (of)
            of->key = strdup(key);
        if (!of || !of->key) {
            free(of);
            free(k);
            return -ENOMEM;
        }
        HASH_ADD_KEYPTR(hh, c->scheduler->kept_off, of->key, strlen(of->key), of);
        queue_anew(c, j->user, name);
    }
    *k = (struct keeper){.job = j, .component = component, .of = of, .next_of_job = j->keeps_off};
    j->keeps_off = k;
    DL_APPEND(of->keepers, k);
    return 0;
}

int keepers_announce(struct cluster *c, struct job *j)
{
    int r = 0;
    j = j->array ? j->array : j; // which speaks for all its elements
    if (j->state >= JOB_SUCCEEDED)
        keepers_withdraw(c, j);
    else if (!j->keeps_off)
        for (size_t k = 0; k < j->spec->n_components; k++)
            for (char *const *p = j->spec->components[k].apart; p && *p && r == 0; p++)
                if (job_named(*p))
                    r = add(c, j, (int)k, job_named(*p));
    if (r < 0)
        keepers_withdraw(c, j);
    return r;
}

static void withdraw(struct kept_off **all, struct job *j)
{
    for (struct keeper *k; (k = j->keeps_off);) {
        struct kept_off *of = k->of;
        j->keeps_off = k->next_of_job;
        DL_DELETE(of->keepers, k);
        free(k);
        if (of->keepers)
            continue;
        HASH_DEL(*all, of);
        free(of->key);
        free(of);
    }
}

void keepers_withdraw(struct cluster *c, struct job *j)
{
    withdraw(&c->scheduler->kept_off, j);
}

void keepers_free(struct kept_off *all)
{
    while (all)
        withdraw(&all, all->keepers->job);
}

const struct keeper *keepers_of(struct cluster *c, const struct job *j)
{
    const char *name = j->array ? j->array->name : j->name; // an element goes by its array's name
    const struct kept_off *of;
    while ((of = find(c, j->user, name)) && of->keepers->job->state >= JOB_SUCCEEDED)
        keepers_withdraw(c, of->keepers->job);
    return of ? of->keepers : NULL;
}
