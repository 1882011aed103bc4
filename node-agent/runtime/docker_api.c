// SPDX-License-Identifier: Apache-2.0
// Small pieces of the Engine API: versions, errors, filters, names. The body of a new container:
// docker_body.c.
#include "node-agent/runtime/docker_api.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "common/strbuf.h"
#include "common/text.h"

#include <ctype.h>
#include <string.h>

static int minor_of(const char *version)
{
    int major, minor;
    if (!version || sscanf(version, "%d.%d", &major, &minor) != 2 || major != 1)
        return -1;
    return minor;
}

int docker_api_minor(const json_t *version, struct err *e)
{
    const char *newest = json_opt_str(version, "ApiVersion", NULL);
    int theirs = minor_of(newest), least = minor_of(json_opt_str(version, "MinAPIVersion", NULL));
    if (theirs < 0)
        return err_set(e, -EPROTO, "the engine does not say which API it speaks");
    if (theirs < DOCKER_API_MIN)
        return err_set(e, -EPROTO, "the engine speaks API %s, 1.%d or newer is needed", newest,
                       DOCKER_API_MIN);
    if (least > DOCKER_API_MAX)
        return err_set(e, -EPROTO, "the engine speaks API 1.%d at least, this agent 1.%d at most",
                       least, DOCKER_API_MAX);
    return theirs < DOCKER_API_MAX ? theirs : DOCKER_API_MAX;
}

bool docker_is_podman(const json_t *version)
{
    size_t i;
    const json_t *part;
    json_array_foreach (json_object_get(version, "Components"), i, part) {
        if (strstr(json_opt_str(part, "Name", ""), "Podman"))
            return true;
    }
    return false;
}

void docker_error_text(int status, const char *body, size_t len, char *out, size_t size)
{
    cleanup_json json_t *j = json_loadb(body, len, 0, NULL);
    const char *text = json_opt_str(j, "message", NULL);
    if (!text)
        text = json_opt_str(j, "cause", NULL);
    if (text)
        (void)snprintf(out, size, "%s", text);
    else
        (void)snprintf(out, size, "the engine answered %d %.*s", status,
                       (int)(len < 100 ? len : 100), len ? body : "");
    text_make_utf8(out); // it goes into reports
    for (char *p = out; *p; p++)
        if ((unsigned char)*p < ' ')
            *p = ' ';
}

char *docker_encode(const char *text)
{
    cleanup_strbuf struct strbuf b = {0};
    for (; *text; text++) {
        if (isalnum((unsigned char)*text) || strchr("-._~", *text))
            strbuf_append(&b, text, 1);
        else
            strbuf_printf(&b, "%%%02X", (unsigned char)*text);
    }
    return strbuf_take(&b);
}

char *docker_filters(const struct runtime_options *o, bool events, bool labels)
{
    cleanup_json json_t *filters = json_object();
    if (events)
        json_put(filters, "type", json_pack("[s]", "container"));
    if (labels)
        json_put(filters, "label",
                 json_pack("[o, o]", json_sprintf(DOCKER_LABEL "cluster=%s", o->cluster_id),
                           json_sprintf(DOCKER_LABEL "node=%s", o->node_id)));
    cleanup_free char *text = json_text(filters);
    return text ? docker_encode(text) : NULL;
}

const char *docker_own_attempt(const struct runtime_options *o, const json_t *labels)
{
    const char *id = json_opt_str(labels, DOCKER_LABEL "attempt", NULL);
    if (strcmp(json_opt_str(labels, DOCKER_LABEL "cluster", ""), o->cluster_id) != 0 ||
        strcmp(json_opt_str(labels, DOCKER_LABEL "node", ""), o->node_id) != 0)
        return NULL;
    return id && *id && strlen(id) < ATTEMPT_ID_BYTES ? id : NULL;
}

char *docker_image_reference(const char *image)
{
    char *out = NULL;
    const char *slash = strrchr(image, '/');
    bool complete = strchr(image, '@') || strchr(slash ? slash : image, ':');
    if (asprintf(&out, "%s%s", image, complete ? "" : ":latest") < 0)
        return NULL;
    return out;
}

bool docker_pull_is_transient(const char *text)
{
    static const char *const signs[] = {"toomanyrequests",
                                        "TLS handshake timeout",
                                        "unexpected EOF",
                                        "connection reset",
                                        "received unexpected HTTP status: 5",
                                        "Client.Timeout",
                                        "context deadline"};
    if (strstr(text, "dial tcp")) // no way to the registry: a machine without network stays so
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(signs); i++)
        if (strstr(text, signs[i]))
            return true;
    return false;
}
