// SPDX-License-Identifier: Apache-2.0
// Logging for the daemons: one line per event to stderr, or to the journal with fields when stderr
// is the journal's stream. A file that stderr appends to is bounded (log_file.h). common/ and
// proto/ never log above debug: they return errors.
#pragma once

#include "common/err.h"
#include <stdbool.h>

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG, LOG_LEVEL_MAX };

// Chooses the sink (journal when $JOURNAL_STREAM names our stderr, else stderr) and the level.
// `ident` is static text, e.g. "meadow-master".
void log_setup(const char *ident, enum log_level level);
void log_set_level(enum log_level level);
// "error", "warn", "info", "debug"; -EINVAL when it is none of them.
int log_level_from_string(const char *text, enum log_level *ret_level) WARN_UNUSED;
bool log_enabled(enum log_level level);
bool log_to_journal(void); // the sink is the journal, not a file or terminal

// `token` names the module ("sync", "store"). Level is tested before anything is formatted.
void log_write(enum log_level level, const char *token, const char *fmt, ...) PRINTF_LIKE(3, 4);

#define log_at(level, token, ...)                                                                  \
    do {                                                                                           \
        if (log_enabled(level))                                                                    \
            log_write(level, token, __VA_ARGS__);                                                  \
    } while (0)
#define log_error(token, ...) log_at(LOG_LEVEL_ERROR, token, __VA_ARGS__)
#define log_warn(token, ...) log_at(LOG_LEVEL_WARN, token, __VA_ARGS__)
#define log_info(token, ...) log_at(LOG_LEVEL_INFO, token, __VA_ARGS__)
#define log_debug(token, ...) log_at(LOG_LEVEL_DEBUG, token, __VA_ARGS__)
