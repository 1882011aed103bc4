// SPDX-License-Identifier: Apache-2.0
// State that the agent gets again from the master, or makes anew. Claims and exit records are none
// of this: that a claim exists must never be forgotten.
#include "node-agent/state_file.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "common/log.h"

int state_file_damaged(const char *path, const char *why, struct err *e)
{
    int r = file_set_aside(path, e);
    if (r == 0)
        log_warn("state", "%s is damaged (%s): kept as %s", path, why, e->text);
    return r;
}

int state_file_read(const char *path, size_t limit, json_t **ret, struct err *e)
{
    cleanup_free char *text = NULL;
    cleanup_json json_t *j = NULL;
    struct err why;
    size_t len;
    *ret = NULL;
    int r = atomic_file_read(path, limit, &text, &len, e);
    if (r == -ENOENT)
        return 0;
    if (r < 0 && r != -EFBIG)
        return r;
    if (r == -EFBIG)
        return state_file_damaged(path, "larger than it can be", e);
    if (json_parse(text, len, &j, &why) < 0)
        return state_file_damaged(path, why.text, e);
    if (!json_is_object(j))
        return state_file_damaged(path, "no object", e);
    *ret = json_incref(j);
    return 0;
}
