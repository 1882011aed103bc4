// SPDX-License-Identifier: Apache-2.0
#pragma once

#define MEADOW_VERSION "0.1.0"
// Agent and master speak when their numbers differ by at most one.
#define MEADOW_PROTOCOL 1
#define MEADOW_DEFAULT_PORT 7420
