// SPDX-License-Identifier: Apache-2.0
// The master as one object on one loop: store, cluster, API. Started once, stopped once.
#pragma once

#include "master/config.h"
#include <uv.h>

struct master;

// Opens everything; work begins when the store has loaded. `ended` is called from the loop when all
// is closed, with 0 after master_stop or a negative errno after a fault that it logged. *ret is
// freed by master_free after that.
int master_start(uv_loop_t *loop, const struct master_config *config,
                 void (*ended)(int result, void *userdata), void *userdata, struct master **ret,
                 struct err *e) WARN_UNUSED;
void master_stop(struct master *m);
void master_free(struct master *m);
