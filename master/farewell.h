// SPDX-License-Identifier: Apache-2.0
// The moment between the last answers of a stopping master and the end of its connections.
#pragma once

#include <uv.h>

// Calls `done` once, from the loop, when what was answered before has had its turns of the loop to
// reach the sockets (bounded: 200 ms); at once when there is no memory for the wait.
void farewell(uv_loop_t *loop, void (*done)(void *userdata), void *userdata);
