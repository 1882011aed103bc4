// SPDX-License-Identifier: Apache-2.0
// Commits are numbered through all epochs, so every commit that was seen in an earlier epoch must
// be there at our start; and a node that this master has not answered yet can't have seen our
// epoch. Looked at once per node and start, and only for nodes that were loaded: what a node that
// joined since then saw is not of this store.
#include "master/api/echo.h"

#include "master/api/backup.h"

#include "common/log.h"

#include <inttypes.h>
#include <stdio.h>

// A broken or hostile agent must not use up the numbers.
#define LEAD_MAX (INT64_C(1) << 40)

#define FORGOTTEN                                                                                  \
    "what was accepted in between is forgotten (the end of Redis' file was lost, or an older "     \
    "copy "                                                                                        \
    "was put in its place)"

static bool is_plausible(const struct api *a, const struct sync_request *msg)
{
    return msg->seen_epoch <= store_epoch(a->store) + LEAD_MAX &&
           msg->seen_commit <= store_first_commit(a->store) + LEAD_MAX;
}

static void went_back(struct api *a, const struct node *n, int64_t lost, const char *text)
{
    struct err e;
    cluster_rolled_back(a->cluster, n, lost, text);
    if (backup_note_rollback(a->settings.data_dir, &e) < 0)
        log_error("store", "%s", e.text);
}

void echo_start(struct api *a)
{
    char text[400];
    int64_t lost = store_lost_commits(a->store), had = store_first_commit(a->store);
    (void)snprintf(text, sizeof(text),
                   "the store went back: commit %" PRId64 " was acknowledged, but it had only "
                   "%" PRId64 " at the start: " FORGOTTEN,
                   had + lost, had);
    if (lost > 0)
        went_back(a, NULL, lost, text);
}

static void look(struct api *a, const struct node *n, const struct sync_request *msg)
{
    char text[400];
    int64_t epoch = store_epoch(a->store), first = store_first_commit(a->store);
    if (msg->seen_epoch < epoch && msg->seen_commit <= first)
        return;
    if (!is_plausible(a, msg)) {
        log_warn("store",
                 "node %s claims to have seen epoch %" PRId64 ", commit %" PRId64 ": not believed",
                 n->name, msg->seen_epoch, msg->seen_commit);
        return;
    }
    int64_t lost = msg->seen_commit > first ? msg->seen_commit - first : 1;
    (void)snprintf(text, sizeof(text),
                   "the store went back: node %s has seen commit %" PRId64 " of epoch %" PRId64
                   ", but at the start of epoch %" PRId64 " the store had only %" PRId64
                   ": " FORGOTTEN,
                   n->name, msg->seen_commit, msg->seen_epoch, epoch, first);
    went_back(a, n, lost, text);
    if (msg->seen_epoch >= epoch)
        store_raise_epoch(a->store, msg->seen_epoch + 1);
}

bool echo_admits(struct api *a, struct node *n, const struct sync_request *msg, struct err *e)
{
    if (store_epoch(a->store) != cluster_epoch(a->cluster))
        cluster_set_epoch(a->cluster, store_epoch(a->store));
    if (n->echo_due)
        look(a, n, msg);
    n->echo_due = false;
    // Until a higher epoch is durable its positions might be taken for those of a forgotten one.
    if (!store_is_raising(a->store) || msg->seen_epoch < store_epoch(a->store))
        return true;
    (void)err_set(e, -EAGAIN, "the store went back: a new epoch is being taken; try again");
    return false;
}
