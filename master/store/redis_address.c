// SPDX-License-Identifier: Apache-2.0
// The URL forms are those of redis-cli -u (the "redis" scheme as registered with IANA); user and
// password may hold %XX.
#include "master/store/redis_address.h"

#include "common/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_PORT 6379

#define FORMS "redis://[user:password@]host[:port][/database] or unix:/path/of/socket"

void redis_address_free(struct redis_address *a)
{
    free(a->path);
    free(a->host);
    free(a->user);
    if (a->password)
        explicit_bzero(a->password, strlen(a->password));
    free(a->password);
    *a = (struct redis_address){0};
}

static int copy_text(const char *from, char **ret)
{
    *ret = from ? strdup(from) : NULL;
    return from && !*ret ? -ENOMEM : 0;
}

int redis_address_copy(const struct redis_address *a, struct redis_address *ret)
{
    *ret = (struct redis_address){.port = a->port};
    memcpy(ret->database, a->database, sizeof(ret->database));
    if (copy_text(a->path, &ret->path) < 0 || copy_text(a->host, &ret->host) < 0 ||
        copy_text(a->user, &ret->user) < 0 || copy_text(a->password, &ret->password) < 0) {
        redis_address_free(ret);
        return -ENOMEM;
    }
    return 0;
}

const char *redis_address_show(const struct redis_address *a, char *out, size_t size)
{
    const char *database = a->database[0] ? a->database : "0";
    if (a->path)
        (void)snprintf(out, size, "unix:%s", a->path);
    else
        (void)snprintf(out, size, strchr(a->host, ':') ? "redis://[%s]:%u/%s" : "redis://%s:%u/%s",
                       a->host, a->port, database);
    return out;
}

// --- parsing ---

// A copy of `len` bytes, each %XX turned to its byte. An empty text is NULL. -EINVAL: no %XX, or a
// NUL.
static int decode(const char *text, size_t len, char **ret)
{
    char *out = malloc(len + 1);
    if (!out)
        return -ENOMEM;
    int n = text_percent_decode(text, len, out);
    if (n <= 0) {
        free(out);
        out = NULL;
    }
    *ret = out;
    return n < 0 ? n : 0;
}

// "user:password", ":password" or "user:"; decoded.
static int parse_login(const char *text, size_t len, struct redis_address *a, struct err *e)
{
    const char *colon = memchr(text, ':', len);
    if (!colon)
        return err_set(e, -EINVAL, "before the @: expected user:password or :password");
    size_t user = (size_t)(colon - text);
    int r = decode(text, user, &a->user);
    if (r == 0)
        r = decode(colon + 1, len - user - 1, &a->password);
    if (r == 0 && a->user && !a->password)
        return err_set(e, -EINVAL, "a user without a password");
    return r == -EINVAL ? err_set(e, r, "user or password: after a %% two hex digits are needed")
                        : r;
}

static int parse_port(const char *text, struct redis_address *a, struct err *e)
{
    char *end;
    unsigned long port = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || port < 1 || port > UINT16_MAX)
        return err_set(e, -EINVAL, "port: expected a number from 1 to %d, found \"%.20s\"",
                       UINT16_MAX, text);
    a->port = (uint16_t)port;
    return 0;
}

// "host", "host:port" or "[v6 address]:port".
static int parse_host(char *text, struct redis_address *a, struct err *e)
{
    char *end = text[0] == '[' ? strchr(text, ']') : NULL;
    if (text[0] == '[' && !end)
        return err_set(e, -EINVAL, "host: no ] behind \"%.60s\"", text);
    char *colon = strchr(end ? end : text, ':');
    int r = colon ? parse_port(colon + 1, a, e) : 0;
    if (r < 0)
        return r;
    if (colon)
        *colon = '\0';
    if (end && !end[1]) {
        *end = '\0';
        text++;
    }
    if (!text[0] || strpbrk(text, "[]@?# "))
        return err_set(e, -EINVAL, "host: expected a name or an address, found \"%.60s\"", text);
    return copy_text(text, &a->host);
}

static int parse_database(const char *text, struct redis_address *a, struct err *e)
{
    size_t len = strlen(text);
    if (len >= sizeof(a->database) || strspn(text, "0123456789") != len)
        return err_set(e, -EINVAL, "database: expected a number, found \"%.20s\"", text);
    memcpy(a->database, text, len + 1);
    return 0;
}

static int parse_tcp(char *rest, struct redis_address *a, struct err *e)
{
    char *at = strrchr(rest, '@');
    a->port = DEFAULT_PORT;
    int r = at ? parse_login(rest, (size_t)(at - rest), a, e) : 0;
    if (r < 0)
        return r;
    rest = at ? at + 1 : rest;
    char *slash = strchr(rest, '/');
    if (slash) {
        *slash = '\0';
        r = parse_database(slash + 1, a, e);
    }
    return r < 0 ? r : parse_host(rest, a, e);
}

static int parse(char *text, struct redis_address *a, struct err *e)
{
    if (strncmp(text, "unix:/", 6) == 0)
        return copy_text(text + 5 + (strncmp(text + 5, "///", 3) == 0 ? 2 : 0), &a->path);
    if (strncmp(text, "redis://", 8) == 0)
        return parse_tcp(text + 8, a, e);
    if (strncmp(text, "rediss://", 9) == 0)
        return err_set(e, -EINVAL,
                       "rediss: the hiredis of this build has no TLS: run a TLS tunnel (stunnel) "
                       "beside the master and give the unix: socket that it listens on");
    return err_set(e, -EINVAL, "expected " FORMS);
}

int redis_address_parse(const char *url, struct redis_address *ret, struct err *e)
{
    char *text = strdup(url);
    *ret = (struct redis_address){0};
    int r = text ? parse(text, ret, e) : -ENOMEM;
    if (r < 0)
        redis_address_free(ret);
    if (text)
        explicit_bzero(text, strlen(url));
    free(text);
    return r == -ENOMEM ? err_set(e, r, "out of memory") : r;
}
