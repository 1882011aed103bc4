// SPDX-License-Identifier: Apache-2.0
// Our descendants as /proc shows them.
#pragma once

// SIGKILL to every process whose chain of parents leads to us.
void descendants_kill(void);
