// SPDX-License-Identifier: Apache-2.0
// Small pieces of JSON are kept for the next JSON: messages are parsed, built and dropped a
// thousand times a second, and glibc keeps only seven pieces of a size at hand.
#pragma once

// From now on, for the whole process; before the first JSON and any thread. Builds with an address
// sanitizer keep nothing, so that it sees every piece.
void json_pool_start(void);
