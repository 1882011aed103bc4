// SPDX-License-Identifier: Apache-2.0
// The command's environment from a file, where whoever starts us would show it to everybody (the
// properties of a systemd unit can be read by all users).
#pragma once

// Replaces the environment by the NUL-terminated "KEY=VALUE" texts of the file and removes it. 0 or
// -errno.
int environment_read(const char *path);
