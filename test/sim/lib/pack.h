// SPDX-License-Identifier: Apache-2.0
// How full a cluster gets, as Weng et al., "Beware of Fragmentation" (USENIX ATC 2023), measure it,
// and policies that look at every node to compare with, written from that paper:
//   tasks of a trace arrive in random order, each once, and then, or before, drawn again until
//   together they ask for 130 % of all cards; none ends; one that finds no place is passed over.
// A card may be shared (a task asks for thousandths of one), or is whole: then a task that asks for
// a part of one gets one, and is counted as one.
#pragma once

#include "test/sim/lib/trace.h"

#define PACK_CARDS 8
#define PACK_OVERFILL 1.3
#define WHOLE 1000 // thousandths of a card

struct pack_kind { // of tasks
    struct resources need;
    int milli;       // of each of its cards
    uint64_t models; // bit i: those of model i suit it
    const struct trace_job *as;
    double part; // of the trace
};
struct pack_node {
    int64_t cpu, memory;   // free
    int milli[PACK_CARDS]; // of each card, free
    int n_cards;
    unsigned model;
    uint32_t version; // of what is free
    double fragments; // as now
};

struct pack {
    const struct trace_node *from;
    size_t n_nodes, n_kinds, n_tasks;
    struct pack_node *nodes;
    struct pack_kind *kinds;
    uint32_t *tasks; // of the trace: their kinds
    uint32_t *order; // that arrive, after pack_draw
    size_t n_order;
    int64_t all_milli; // of all cards
    bool shared;
    struct pack_seen *seen; // scores, by kind and node
};

// The nodes and jobs stay the caller's, as they are, until pack_free. NULL = out of memory.
struct pack *pack_new(const struct trace_node *nodes, size_t n_nodes, const struct trace_job *jobs,
                      size_t n_jobs, bool shared);
void pack_free(struct pack *p);
// Thousandths of cards that a task of the kind counts as.
int64_t pack_asks(const struct pack_kind *k);
// All nodes free, and another order of arrival. -EINVAL (no cards, or no task asks for any),
// -ENOMEM.
int pack_draw(struct pack *p, uint64_t seed) WARN_UNUSED;

// First fit: by number. Best fit: the least sum of what remains, cpu and cards as parts of the
// largest node. Dot product: the node with the least product of what is free and what is asked.
// Tetris: with the greatest (Grandl et al., SIGCOMM 2014). Gradient: where the thousandths of cards
// that tasks of the trace can't use grow least. The rest of a card that is shared: the tightest
// one, but for the gradient, which looks at each.
enum pack_policy { PACK_FIRST, PACK_BEST, PACK_DOT, PACK_TETRIS, PACK_GRADIENT, PACK_POLICIES };
extern const char *const pack_policy_names[PACK_POLICIES];
// Whether the task found a place.
bool pack_place(struct pack *p, enum pack_policy policy, uint32_t kind);
// Thousandths of the free cards that a task of the trace, on average, can't use; and all free ones.
double pack_fragments(const struct pack_node *n, const struct pack *p);
int64_t pack_free_milli(const struct pack_node *n);
