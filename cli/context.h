// SPDX-License-Identifier: Apache-2.0
// Which master a command speaks to. In order: --dir, --master, --context; MEADOW_DIR,
// MEADOW_MASTER; the current context; the socket of a master installed on this machine.
#pragma once

#include "cli/api.h"
#include <jansson.h>

#define CONTEXT_INSTALLED_SOCKET "/run/meadow/master.sock"

struct context_choice {                                    // NULL = not given
    const char *dir, *master, *token, *ca, *context;       // options
    const char *env_dir, *env_master, *env_token, *env_ca; // environment
    bool network; // never by a local cluster's socket while it can be had by its URL
};

// Fills the target (owned by the caller). -ENOENT: nothing names a master; -EINVAL, -EPROTO,
// -EACCES...: with text.
int context_resolve(const struct context_choice *choice, struct api_target *ret,
                    struct err *e) WARN_UNUSED;

// "~/.config/meadow/contexts.json" (XDG_CONFIG_HOME honoured); caller frees. NULL without a home.
char *context_file(void);
// {"current": NAME, "contexts": {NAME: {dir} or {master, token, ca (a file) or ca_pem}}}; an empty
// one when there is no file. Caller owns *ret.
int context_load(const char *file, json_t **ret, struct err *e) WARN_UNUSED;
int context_save(const char *file, const json_t *contexts,
                 struct err *e) WARN_UNUSED; // 0600, folder 0700
// Names the folder's cluster as context `name` and makes it the current one.
int context_set_dir(const char *file, const char *name, const char *dir, struct err *e) WARN_UNUSED;
// Removes every context of that folder.
int context_forget_dir(const char *file, const char *dir, struct err *e) WARN_UNUSED;
