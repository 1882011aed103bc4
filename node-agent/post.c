// SPDX-License-Identifier: Apache-2.0
// JSON over the HTTP client: dumping, headers and parsing in one place.
#include "node-agent/post.h"

#include "common/cleanup.h"
#include "common/json.h"

#include <stdlib.h>
#include <string.h>

struct post {
    post_done done;
    void *userdata;
};

static void done_cb(const struct http_result *result, void *userdata)
{
    struct post *p = userdata;
    cleanup_json json_t *body = NULL;

    if (result->error == 0 && json_parse(result->body, result->len, &body, NULL) < 0)
        body = NULL;
    p->done(result->error, result->status, body, &result->err, p->userdata);
    free(p);
}

int post_json(struct http_client *client, const char *path, const json_t *body, unsigned timeout_ms,
              post_done done, void *userdata, struct err *e)
{
    static const char *const headers[] = {"Content-Type: application/json", NULL};
    cleanup_free char *text = body ? json_text(body) : NULL;
    struct post *p = calloc(1, sizeof(*p));

    if (!p || (body && !text)) {
        free(p);
        return err_set(e, -ENOMEM, "out of memory");
    }
    p->done = done;
    p->userdata = userdata;
    struct http_call_options o = {.method = body ? "POST" : "GET",
                                  .path = path,
                                  .headers = body ? headers : NULL,
                                  .body = text,
                                  .body_len = text ? strlen(text) : 0,
                                  .body_fd = -1,
                                  .timeout_ms = timeout_ms,
                                  .done = done_cb,
                                  .userdata = p};
    int r = http_call_start(client, &o, NULL, e);
    if (r < 0)
        free(p);
    return r;
}

const char *post_problem(int status, const json_t *body, char *buffer, size_t size)
{
    const char *text = json_opt_str(body, "refused", NULL);

    if (!text)
        text = json_opt_str(body, "detail", json_opt_str(body, "title", NULL));
    (void)snprintf(buffer, size, "HTTP %d%s%s", status, text ? ": " : "", text ? text : "");
    return buffer;
}
