// SPDX-License-Identifier: Apache-2.0
// Claims by allow-list: an unknown member, method or header is refused, not ignored, and so is
// every character that HTTP itself would not take in its place.
#include "master/api/sealed_claims.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"

#include <openssl/crypto.h>
#include <string.h>
#include <strings.h>

#define PATH_MAX_BYTES 4096
#define VALUE_MAX_BYTES 1024
#define JTI_MIN 16

static const char *const members[] = {"method", "path", "headers", "body", "iat",          "exp",
                                      "jti",    "aud",  "sub",     "to",   "response_key", NULL};
static const char *const methods[] = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", NULL};
static const char *const header_names[] = {"Accept", "Content-Type", "Idempotency-Key", NULL};

static const char *listed(const char *const *list, const char *text,
                          int (*compare)(const char *, const char *))
{
    for (; *list; list++)
        if (compare(*list, text) == 0)
            return *list;
    return NULL;
}

static bool printable(const char *text, bool spaces)
{
    for (; *text; text++)
        if ((unsigned char)*text > 0x7e || (unsigned char)*text < (spaces ? 0x20 : 0x21))
            return false;
    return true;
}

struct jwk *sealed_response_key(const json_t *claims)
{
    struct jwk *key = NULL;
    if (jwk_parse(json_object_get(claims, "response_key"), &key, NULL) < 0)
        return NULL;
    if (jwk_kind_of(key) == JWK_OCT && (jwk_bits(key) == 256 || jwk_bits(key) == 512))
        return key;
    jwk_free(key);
    return NULL;
}

int sealed_jti(const json_t *claims, char ret[SEALED_JTI_BYTES], struct err *e)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    const char *jti = json_opt_str(claims, "jti", "");
    size_t len = strlen(jti);
    if (len < JTI_MIN || len >= SEALED_JTI_BYTES || strspn(jti, plain) != len)
        return err_set(e, -EPROTO,
                       "jti: expected %d to %d random characters of A-Z a-z 0-9 - _, new for each "
                       "request",
                       JTI_MIN, SEALED_JTI_BYTES - 1);
    memcpy(ret, jti, len + 1);
    return 0;
}

static int refuse(struct err *e, int status, const char *text)
{
    (void)err_set(e, -EPROTO, "%s", text);
    return status;
}

static int check_members(const json_t *claims, struct err *e)
{
    const char *name;
    json_t *value;
    json_object_foreach ((json_t *)(uintptr_t)claims, name, value) {
        if (!listed(members, name, strcmp)) {
            (void)err_set(e, -EPROTO, "a sealed request has no member \"%.40s\"", name);
            return 400;
        }
    }
    return 0;
}

// --- who, to whom, when ---

static int check_addressee(const json_t *claims, const struct sealed_expected *x, struct err *e)
{
    if (strcmp(json_opt_str(claims, "aud", ""), x->cluster) != 0)
        return refuse(e, 403, "aud: this request is for another cluster (expected this one's id)");
    if (strcmp(json_opt_str(claims, "sub", ""), x->user) != 0)
        return refuse(e, 403, "sub: the key that signed belongs to another user");
    if (strcmp(json_opt_str(claims, "to", ""), x->sealed_to) != 0)
        return refuse(e, 403,
                      "to: expected the thumbprint of the master's key that it was sealed to");
    return 0;
}

static int check_times(const json_t *claims, const struct sealed_expected *x,
                       struct sealed_claims *c, struct err *e)
{
    char now[CLOCK_TEXT_BYTES];
    int r = json_get_i64(claims, "iat", &c->iat, e);
    if (r == 0)
        r = json_get_i64(claims, "exp", &c->exp, e);
    if (r < 0)
        return 400;
    if (c->iat < 0 || c->exp <= c->iat || c->exp > c->iat + SEALED_LIFE_MAX_S) {
        (void)err_set(e, -EPROTO, "exp: expected 1 to %d seconds after iat", SEALED_LIFE_MAX_S);
        return 400;
    }
    if (c->iat <= x->now_s + SEALED_AHEAD_S && c->exp > x->now_s)
        return 0;
    clock_format_ms(x->now_s * 1000, now);
    (void)err_set(e, -EPROTO, "%s: the master's time is %s (%lld); set your clock, or use this one",
                  c->exp > x->now_s ? "iat is in the future" : "the request has expired", now,
                  (long long)x->now_s);
    return 401;
}

// --- the request ---

// Whether a segment of the path is "." or "..", its dots perhaps percent-encoded.
static bool has_dot_segment(const char *path)
{
    while (*path && *path != '?') {
        size_t len = strcspn(++path, "/?"), dots = 0, at = 0;
        while (at < len && (path[at] == '.' || strncasecmp(path + at, "%2e", 3) == 0)) {
            at += path[at] == '.' ? 1 : 3;
            dots++;
        }
        if (at == len && (dots == 1 || dots == 2))
            return true;
        path += len;
    }
    return false;
}

static int check_target(const json_t *claims, struct sealed_claims *c, struct err *e)
{
    int r = json_get_str(claims, "method", &c->method, e);
    if (r == 0)
        r = json_get_str(claims, "path", &c->path, e);
    if (r < 0)
        return 400;
    if (!listed(methods, c->method, strcmp))
        return refuse(e, 400, "method: expected GET, POST, PUT, PATCH or DELETE");
    if (c->path[0] != '/' || strlen(c->path) > PATH_MAX_BYTES || !printable(c->path, false) ||
        strchr(c->path, '#'))
        return refuse(e, 400,
                      "path: expected \"/v1/...\" as in a request's first line: at most 4096 "
                      "printable ASCII characters, others percent-encoded");
    if (has_dot_segment(c->path))
        return refuse(e, 400, "path: \".\" and \"..\" are no names");
    return 0;
}

static int check_headers(const json_t *claims, struct sealed_claims *c, struct err *e)
{
    json_t *headers = json_object_get(claims, "headers"), *value;
    const char *name;
    if (!headers || json_is_null(headers))
        return 0;
    if (!json_is_object(headers))
        return refuse(e, 400, "headers: expected an object of texts");
    json_object_foreach (headers, name, value) {
        const char *known = listed(header_names, name, strcasecmp);
        const char *text = json_string_value(value);
        if (!known)
            return refuse(e, 400,
                          "headers: only Accept, Content-Type and Idempotency-Key may be sealed; "
                          "who asks is said by the signature alone");
        if (!text || strlen(text) > VALUE_MAX_BYTES || !printable(text, true))
            return refuse(e, 400, "headers: expected texts of printable ASCII characters");
        for (size_t i = 0; i < c->n_headers; i++)
            if (c->headers[i].name == known)
                return refuse(e, 400, "headers: the same header twice");
        c->headers[c->n_headers++] = (struct http_inner_header){known, text};
    }
    return 0;
}

static int check_body(const json_t *claims, struct sealed_claims *c, struct err *e)
{
    const json_t *body = json_object_get(claims, "body");
    c->body = "";
    if (!body || json_is_null(body))
        return 0;
    if (json_is_string(body)) {
        c->body = json_string_value(body);
        c->body_len = json_string_length(body);
        return 0;
    }
    if (!json_is_object(body) && !json_is_array(body))
        return refuse(e, 400, "body: expected a text, or a JSON object or array");
    c->body_text = json_text(body);
    if (!c->body_text)
        return refuse(e, 503, "out of memory");
    c->body = c->body_text;
    c->body_len = strlen(c->body_text);
    return 0;
}

int sealed_claims_check(const json_t *claims, const struct sealed_expected *x,
                        struct sealed_claims *ret, struct err *e)
{
    struct sealed_claims c = {0};
    int status = check_members(claims, e);
    if (status == 0)
        status = check_addressee(claims, x, e);
    if (status == 0)
        status = check_times(claims, x, &c, e);
    if (status == 0)
        status = check_target(claims, &c, e);
    if (status == 0)
        status = check_headers(claims, &c, e);
    if (status == 0)
        status = check_body(claims, &c, e);
    if (status == 0 && sealed_jti(claims, c.jti, e) < 0)
        status = 400;
    if (status != 0) {
        sealed_claims_reset(&c);
        return status;
    }
    *ret = c;
    return 0;
}

void sealed_claims_reset(struct sealed_claims *c)
{
    if (c->body_text)
        OPENSSL_cleanse(c->body_text, c->body_len);
    free(c->body_text);
    *c = (struct sealed_claims){0};
}
