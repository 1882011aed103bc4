// SPDX-License-Identifier: Apache-2.0
// Agents' log bytes into the log store: frames of one stream, by offset (proto/AGENT.md).
#include "common/json.h"
#include "master/api/agents.h"
#include "master/logs/log_store.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#define OFFSET_MAX (UINT64_C(1) << 62) // strtoull gives its highest number for what is above it
#define FRAME_HEAD 12                  // u64 time_ms, u32 length, little-endian

int agents_logs_append(struct log_store *s, const char *attempt, enum log_channel channel,
                       uint64_t offset, const char *data, size_t len, uint64_t *next)
{
    int r = len == 0 ? log_store_append(s, attempt, channel, offset, 0, NULL, 0, next) : 0;
    while (r == 0 && len > 0) {
        uint64_t time_ms;
        uint32_t size;
        if (len < FRAME_HEAD)
            return -EPROTO;
        memcpy(&time_ms, data, sizeof(time_ms));
        memcpy(&size, data + sizeof(time_ms), sizeof(size));
        size = le32toh(size);
        if (size > len - FRAME_HEAD)
            return -EPROTO;
        r = log_store_append(s, attempt, channel, offset, (int64_t)le64toh(time_ms),
                             data + FRAME_HEAD, size, next);
        offset += size;
        data += FRAME_HEAD + size;
        len -= FRAME_HEAD + size;
    }
    return r;
}

void agents_logs(struct call *call)
{
    enum log_channel channel;
    uint64_t next = 0;
    char *end = NULL;
    size_t len;
    const char *attempt = call->params[0];
    const char *stream = http_request_query(call->req, "stream");
    const char *offset_text = http_request_query(call->req, "offset");
    unsigned long long offset = offset_text ? strtoull(offset_text, &end, 10) : 0;

    if (!stream || log_channel_from_string(stream, &channel) < 0 || !offset_text ||
        offset_text[0] < '0' || offset_text[0] > '9' || *end || offset > OFFSET_MAX) {
        api_problem(call, 400, "expected ?stream=stdout|stderr&offset=N, N below 2^62");
        return;
    }
    if (!cluster_node_holds(call->who.node, attempt)) {
        api_problem(call, 404, "attempt %.40s is not (or no longer) assigned to this node",
                    attempt);
        return;
    }
    const char *data = http_request_body(call->req, &len);
    int r = agents_logs_append(call->api->logs, attempt, channel, offset, data, len, &next);
    if (r < 0) {
        api_problem(call,
                    r == -EPROTO                   ? 400
                    : r == -ENOSPC || r == -EDQUOT ? 507
                                                   : 503,
                    "log bytes not taken: %s", strerror(-r));
        return;
    }
    json_t *j = json_object();
    json_put_i64(j, "next", (json_int_t)next);
    api_reply_now(call, 200, j);
}
