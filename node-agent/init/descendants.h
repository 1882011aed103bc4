// SPDX-License-Identifier: Apache-2.0
// Our descendants as /proc shows them.
#pragma once

#include <stdbool.h>

// A signal to every process whose chain of parents leads to us.
void descendants_signal(int signo);
// SIGSTOP to all of them; true when none can run any more. Repeat until it is: a process may have
// forked meanwhile. As pid 1 of a container this is about everybody in it but us.
bool descendants_stop(void);
