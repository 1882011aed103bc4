// SPDX-License-Identifier: Apache-2.0
// Sets of conditions on labels, and which nodes meet them.
#include "master/scheduler/where.h"

#include "master/scheduler/kind.h"
#include "proto/constraint.h"

#include <inttypes.h>
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
        if (label[0] != '$' && !constraint_match(condition, where_label(n, label)))
            return true;
    label[0] = '\0';
    return false;
}

static bool card_meets(const struct plan_card *card, const char *label, const char *condition)
{
    char memory[32];
    if (strcmp(label, CONSTRAINT_CARD_MODEL) == 0)
        return constraint_match(condition, card->model);
    (void)snprintf(memory, sizeof(memory), "%" PRId64, card->memory);
    return constraint_match(condition, memory);
}

static bool has_cards(const char *text)
{
    return text && (text[0] == '$' || strstr(text, "\n$"));
}

uint64_t where_find_cards(const struct plan_node *n, const char *text)
{
    char label[CONSTRAINT_LABEL_BYTES], condition[CONSTRAINT_TEXT_BYTES];
    uint64_t all = UINT64_MAX;
    const char *at = has_cards(text) ? text : "";
    while (constraint_next(&at, label, condition)) {
        uint64_t some = 0;
        for (size_t i = 0; label[0] == '$' && i < n->n_cards && i < PLAN_MAX_GPUS; i++)
            some |= (uint64_t)card_meets(&n->cards[i], label, condition) << i;
        all &= label[0] == '$' ? some : UINT64_MAX;
    }
    return all;
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
    w->kinds |= now ? kind_bit(x, node) : 0;
    uint64_t cards = where_cards(w, node);
    if (w->cards)
        w->cards[node] = where_find_cards(&x->nodes[node], w->text);
    return (now && !before) || (where_cards(w, node) & ~cards);
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
    free(w->cards);
    free(w);
}

int where_of(struct plan_index *x, const char *text, const struct plan_where **ret)
{
    struct plan_where *w = NULL;
    if (text && *text)
        HASH_FIND_STR(x->wheres, text, w);
    *ret = w;
    if (w)
        w->used = true;
    if (w || !text || !*text)
        return 0;
    w = calloc(1, sizeof(*w));
    if (!w)
        return -ENOMEM;
    w->text = strdup(text);
    w->bits = calloc(x->n / 64 + 1, sizeof(*w->bits));
    w->nodes = x->nodes;
    w->used = true;
    if (has_cards(text))
        w->cards = calloc(x->n + 1, sizeof(*w->cards));
    if (!w->text || !w->bits || (has_cards(text) && !w->cards)) {
        release(w);
        return -ENOMEM;
    }
    for (size_t i = 0; i < x->n; i++)
        (void)judge(w, x, i);
    HASH_ADD_KEYPTR(hh, x->wheres, w->text, strlen(w->text), w);
    *ret = w;
    return 0;
}

bool where_trim(struct plan_index *x)
{
    struct plan_where *w, *next;
    bool some = false;
    if (HASH_COUNT(x->wheres) <= WHERE_MAX)
        return false;
    HASH_ITER (hh, x->wheres, w, next) {
        bool used = w->used;
        w->used = false;
        if (used)
            continue;
        HASH_DEL(x->wheres, w);
        release(w);
        some = true;
    }
    return some;
}

void where_free_all(struct plan_index *x)
{
    struct plan_where *w, *next;
    HASH_ITER (hh, x->wheres, w, next) {
        HASH_DEL(x->wheres, w);
        release(w);
    }
}
