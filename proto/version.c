// SPDX-License-Identifier: Apache-2.0
// Which protocols go together.
#include "proto/version.h"

int protocol_check(int64_t theirs, const char *who, struct err *e)
{
    if (theirs >= MEADOW_PROTOCOL - 1 && theirs <= MEADOW_PROTOCOL + 1)
        return 0;
    return err_set(e, -EPROTO,
                   "the %s speaks protocol %lld, this side %d: they may differ by one. Upgrade %s, "
                   "one version at a time",
                   who, (long long)theirs, MEADOW_PROTOCOL,
                   theirs < MEADOW_PROTOCOL ? "it" : "this side");
}
