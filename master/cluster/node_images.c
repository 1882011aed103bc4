// SPDX-License-Identifier: Apache-2.0
// What images a node says that its engine has. Only in memory: a node tells them again to each
// master.
#include "common/json.h"
#include "common/log.h"
#include "master/cluster/cluster_internal.h"
#include "master/scheduler/scheduler.h"
#include "proto/image_name.h"

#include <string.h>

int node_take_images(struct cluster *c, struct node *n, const json_t *list, struct err *e)
{
    const char *names[IMAGES_TOLD_MAX];
    size_t i;
    const json_t *item;
    json_array_foreach (list, i, item) {
        if (i == IMAGES_TOLD_MAX)
            return err_set(e, -EPROTO, "images: expected at most %d", IMAGES_TOLD_MAX);
        names[i] = json_string_value(item);
        if (!names[i] || strlen(names[i]) >= IMAGE_NAME_BYTES)
            return err_set(e, -EPROTO, "images: expected names of at most %d bytes",
                           IMAGE_NAME_BYTES - 1);
    }
    if (plan_images_set(&c->images, &n->holder, names, json_array_size(list)) < 0)
        return err_set(e, -ENOMEM, "out of memory");
    scheduler_node_stale(c, n);
    log_debug("nodes", "node %s: has %zu images", n->name, json_array_size(list));
    return 0;
}

json_t *node_images_view(const struct node *n)
{
    json_t *list = json_array();
    for (size_t i = 0; n->holder && i < n->holder->n; i++)
        (void)json_array_append_new(list, json_string(n->holder->images[i]->name));
    return list;
}
