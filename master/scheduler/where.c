// SPDX-License-Identifier: Apache-2.0
// Sets of conditions on labels, and which nodes meet them.
#include "master/scheduler/where.h"

#include "proto/constraint.h"

#include <stdlib.h>
#include <string.h>

const char *where_label(const struct plan_node *n, const char *label)
{
    for (size_t i = 0; i < n->n_labels; i++)
        if (strcmp(n->labels[i].name, label) == 0)
            return n->labels[i].value;
    return strcmp(label, "node") == 0 ? n->name : NULL;
}

bool where_unmet(const struct plan_node *n, const char *text, char *label, char *condition)
{
    const char *at = text ? text : "";
    while (constraint_next(&at, label, condition))
        if (!constraint_match(condition, where_label(n, label)))
            return true;
    label[0] = '\0';
    return false;
}

static bool judge(struct plan_where *w, const struct plan_index *x, size_t node)
{
    char label[CONSTRAINT_LABEL_BYTES], condition[CONSTRAINT_TEXT_BYTES];
    uint64_t bit = UINT64_C(1) << (node % 64);
    bool before = where_has(w, node);
    bool now = !where_unmet(&x->nodes[node], w->text, label, condition);
    if (now)
        w->bits[node / 64] |= bit;
    else
        w->bits[node / 64] &= ~bit;
    return now && !before;
}

bool where_relabel(struct plan_index *x, size_t node)
{
    bool more = false;
    for (struct plan_where *w = x->wheres; w; w = w->hh.next)
        more |= judge(w, x, node);
    return more;
}

static void release(struct plan_where *w)
{
    free(w->text);
    free(w->bits);
    free(w);
}

int where_of(struct plan_index *x, const char *text, const struct plan_where **ret)
{
    struct plan_where *w = NULL;
    if (text && *text)
        HASH_FIND_STR(x->wheres, text, w);
    *ret = w;
    if (w || !text || !*text)
        return 0;
    w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->text = strdup(text);
    w->bits = calloc(x->n / 64 + 1, sizeof(*w->bits));
    if (!w->text || !w->bits) {
        release(w);
        return -ENOMEM;
    }
    for (size_t i = 0; i < x->n; i++)
        (void)judge(w, x, i);
    HASH_ADD_KEYPTR(hh, x->wheres, w->text, strlen(w->text), w);
    *ret = w;
    return 0;
}

void where_free_all(struct plan_index *x)
{
    struct plan_where *w, *next;
    HASH_ITER (hh, x->wheres, w, next) {
        HASH_DEL(x->wheres, w);
        release(w);
    }
}
