// SPDX-License-Identifier: Apache-2.0
// Policies that look at every node. A node is looked at again for a kind of task only when what is
// free there has changed.
#include "test/sim/lib/pack_policy.h"

#include <math.h>

const char *const pack_policy_names[PACK_POLICIES] = {
    "first fit", "best fit", "dot product", "dot product, most", "fragmentation gradient"};

#define LARGEST_CPU 128e3 // of the nodes of that trace
#define LARGEST_MILLI ((double)PACK_CARDS * WHOLE)

int64_t pack_free_milli(const struct pack_node *n)
{
    int64_t sum = 0;
    for (int c = 0; c < n->n_cards; c++)
        sum += n->milli[c];
    return sum;
}

static bool fits(const struct pack_node *n, const struct pack_kind *k)
{
    int cards = 0;
    if (k->need.cpu_milli > n->cpu || k->need.memory > n->memory || !(k->models >> n->model & 1))
        return false;
    for (int c = 0; c < n->n_cards; c++)
        cards += n->milli[c] >= k->milli;
    return cards >= k->need.gpu;
}

double pack_fragments(const struct pack_node *n, const struct pack *p)
{
    double sum = 0;
    int64_t all = pack_free_milli(n);
    for (size_t i = 0; all > 0 && i < p->n_kinds; i++) {
        const struct pack_kind *k = &p->kinds[i];
        int64_t lost = 0;
        if (k->need.gpu == 0 || !fits(n, k))
            lost = all;
        else
            for (int c = 0; c < n->n_cards; c++)
                lost += n->milli[c] < k->milli ? n->milli[c] : 0;
        sum += k->part * (double)lost;
    }
    return sum;
}

// From that card, or whole ones when card is -1.
static void take(struct pack_node *n, const struct pack_kind *k, int card)
{
    n->cpu -= k->need.cpu_milli;
    n->memory -= k->need.memory;
    if (card >= 0)
        n->milli[card] -= k->milli;
    for (int c = 0, left = card >= 0 ? 0 : (int)k->need.gpu; left > 0 && c < n->n_cards; c++)
        if (n->milli[c] == WHOLE) {
            n->milli[c] = 0;
            left--;
        }
}

static int tightest(const struct pack_node *n, int milli)
{
    int best = -1;
    for (int c = 0; c < n->n_cards; c++)
        if (n->milli[c] >= milli && (best < 0 || n->milli[c] < n->milli[best]))
            best = c;
    return best;
}

static double growth(const struct pack *p, const struct pack_node *n, const struct pack_kind *k,
                     int card)
{
    struct pack_node then = *n;
    take(&then, k, card);
    return pack_fragments(&then, p) - n->fragments;
}

static void look_gradient(const struct pack *p, const struct pack_node *n,
                          const struct pack_kind *k, struct pack_seen *s)
{
    bool shared = s->card >= 0;
    s->score = shared ? INFINITY : growth(p, n, k, -1);
    for (int c = 0; shared && c < n->n_cards; c++) {
        bool again = false; // as an earlier card
        for (int b = 0; b < c; b++)
            again |= n->milli[b] == n->milli[c];
        double score = again || n->milli[c] < k->milli ? INFINITY : growth(p, n, k, c);
        if (score < s->score) {
            s->score = score;
            s->card = (int8_t)c;
        }
    }
}

static void look(const struct pack *p, enum pack_policy policy, size_t node,
                 const struct pack_kind *k, struct pack_seen *s)
{
    const struct pack_node *n = &p->nodes[node];
    *s = (struct pack_seen){.version = n->version, .card = -1, .fits = fits(n, k)};
    if (!s->fits)
        return;
    if (k->need.gpu == 1 && k->milli < WHOLE)
        s->card = (int8_t)tightest(n, k->milli);
    double cpu = (double)n->cpu / LARGEST_CPU, cards = (double)pack_free_milli(n) / LARGEST_MILLI;
    double dot = cpu * (double)k->need.cpu_milli / LARGEST_CPU +
                 cards * (double)pack_asks(k) / LARGEST_MILLI;
    switch (policy) {
    case PACK_BEST:
        s->score = cpu + cards; // what the task takes is the same everywhere
        break;
    case PACK_DOT:
        s->score = dot;
        break;
    case PACK_TETRIS:
        s->score = -dot;
        break;
    case PACK_GRADIENT:
        look_gradient(p, n, k, s);
        break;
    default:
        s->score = (double)node;
    }
}

bool pack_place(struct pack *p, enum pack_policy policy, uint32_t kind)
{
    const struct pack_kind *k = &p->kinds[kind];
    struct pack_seen *best = NULL;
    size_t at = 0;
    for (size_t i = 0; i < p->n_nodes; i++) {
        struct pack_seen *s = &p->seen[kind * p->n_nodes + i];
        if (s->version != p->nodes[i].version)
            look(p, policy, i, k, s);
        if (s->fits && (!best || s->score < best->score)) {
            best = s;
            at = i;
        }
    }
    if (!best)
        return false;
    take(&p->nodes[at], k, best->card);
    p->nodes[at].version++;
    p->nodes[at].fragments = policy == PACK_GRADIENT ? pack_fragments(&p->nodes[at], p) : 0;
    return true;
}
