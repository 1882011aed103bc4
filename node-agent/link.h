// SPDX-License-Identifier: Apache-2.0
// The connection to the master as a state table: what to do next after each event. It owns backoff
// and its timer, and logs the first failure and the recovery only.
#pragma once

#include "common/err.h"
#include <stdbool.h>
#include <uv.h>

enum link_state {
    LINK_IDLE,    // not started
    LINK_JOINING, // no certificate yet: asking for one
    LINK_SYNCING, // a sync is outstanding
    LINK_BACKOFF, // waits before the next try
    LINK_REMOVED, // the cluster wants no more of this node: nothing is tried any more
    LINK_CLOSED,
    LINK_STATE_MAX,
};
enum link_event {
    LINK_START,
    LINK_JOINED,   // the certificate is stored
    LINK_ANSWERED, // a sync was answered
    LINK_FAILED,   // what was under way failed; it may work again soon
    LINK_REFUSED,  // the master does not want us as we are: longest wait
    LINK_GONE,     // the master has removed this node
    LINK_TIMER,
    LINK_CLOSE,
    LINK_EVENT_MAX,
};
// For the log.
const char *link_state_to_string(enum link_state s);

struct link;
struct link_ops {
    bool (*joined)(void *userdata); // is there a certificate?
    void (*join)(void *userdata);   // start joining; leads to JOINED, FAILED or REFUSED
    void (*sync)(void *userdata);   // start a sync; leads to ANSWERED, FAILED or REFUSED
    void (*online)(bool online,
                   void *userdata); // the master answers, or not any more; only on a change
};
struct link_options {
    uv_loop_t *loop;
    const struct link_ops *ops; // borrowed
    void *userdata;
    uint64_t min_ms, max_ms; // backoff; 0 = 250 ms and 5 s
};
// Owned by the caller: link_close. -ENOMEM or a negative errno of libuv.
int link_new(const struct link_options *options, struct link **ret) WARN_UNUSED;
// `why` for FAILED, REFUSED and GONE (else NULL).
void link_event(struct link *l, enum link_event event, const char *why);
enum link_state link_state(const struct link *l);
bool link_online(const struct link *l);
const char *link_reason(const struct link *l); // why it isn't online; "" otherwise
// Frees from the loop. NULL allowed.
void link_close(struct link *l);
