// SPDX-License-Identifier: Apache-2.0
// Lines of the audit.
#include "master/api/audit.h"

#include "common/log.h"

void audit_refused(struct call *call, const char *what, const char *why)
{
    log_warn("audit", "%s refused: %s (%s)", what, why, http_request_peer(call->req)->address);
    call->audited = true;
}
