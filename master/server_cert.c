// SPDX-License-Identifier: Apache-2.0
// Issuing and replacing the server's certificate. A wall-clock timer stands on the moment of the
// next step; the machine's full name comes from the resolver, which may take its time, so it is
// added when it is there.
#include "master/server_cert.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/pki.h"
#include "common/renewal.h"
#include "common/wall_timer.h"
#include "master/server_names.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_LIMIT 262144
#define FILE_WARN_MS INT64_C(1209600000) // a certificate brought along: two weeks before its end
#define CA_WARN_DAYS 90

struct server_cert {
    struct server_cert_options options;
    struct server_names names;
    char *cert, *key; // key: of the files; NULL = the identity's
    char *bundle;
    char bundle_sha256[65];
    int64_t until_ms, ca_until_ms;
    struct wall_timer *timer;
    uv_getaddrinfo_t lookup;
    bool looking, closing;
    char full_name[256];
};

static bool from_files(const struct server_cert *s)
{
    return s->options.config->tls_cert != NULL;
}

// --- the bundle ---

static int read_file(const char *path, const char *field, char **ret, struct err *e)
{
    int r = atomic_file_read(path, FILE_LIMIT, ret, NULL, e);
    return r < 0 ? err_wrap(e, r, "%s", field) : 0;
}

static int make_bundle(struct server_cert *s, struct err *e)
{
    char sha256[65];
    cleanup_free char *more = NULL, *all = NULL;
    const char *ca = s->options.identity->ca_cert;
    const char *path = s->options.config->tls_ca;
    int r = path ? read_file(path, "tls.ca", &more, e) : 0;
    if (r == 0 && path && pki_cert_fingerprint(more, sha256, e) < 0)
        return err_set(e, -EINVAL, "tls.ca: %s: no certificate in it", path);
    if (r == 0 && asprintf(&all, "%s%s", ca, more ? more : "") < 0) {
        all = NULL;
        return err_set(e, -ENOMEM, "out of memory");
    }
    if (r == 0)
        r = pki_cert_fingerprint(all, sha256, e);
    if (r < 0)
        return r;
    free(s->bundle);
    s->bundle = TAKE_PTR(all);
    memcpy(s->bundle_sha256, sha256, sizeof(sha256));
    return 0;
}

// --- the certificate ---

static void collect_names(const struct server_cert *s, struct server_names *x)
{
    const struct master_config *c = s->options.config;
    server_names_of_machine(x);
    server_names_add(x, s->full_name);
    server_names_add(x, c->advertise);
    if (strcmp(c->listen_address, "0.0.0.0") != 0 && strcmp(c->listen_address, "::") != 0)
        server_names_add(x, c->listen_address);
    for (char **more = c->names; more && *more; more++)
        server_names_add(x, *more);
}

static int issue(struct server_cert *s, char **ret, struct err *e)
{
    const struct identity *i = s->options.identity;
    return pki_server_cert(i->ca_cert, i->ca_key, i->server_key,
                           (const char *const *)s->names.items,
                           s->options.config->server_cert_ms / 1000, ret, e);
}

static int make(struct server_cert *s, char **ret_cert, char **ret_key, struct err *e)
{
    const struct master_config *c = s->options.config;
    if (!from_files(s)) {
        server_names_reset(&s->names);
        collect_names(s, &s->names);
        return issue(s, ret_cert, e);
    }
    int r = read_file(c->tls_cert, "tls.cert", ret_cert, e);
    return r < 0 ? r : read_file(c->tls_key, "tls.key", ret_key, e);
}

static int64_t next_step(const struct server_cert *s, int64_t now)
{
    if (!from_files(s)) {
        int64_t life = s->options.config->server_cert_ms;
        return renewal_due_ms(s->until_ms - life, s->until_ms);
    }
    if (s->until_ms - FILE_WARN_MS > now)
        return s->until_ms - FILE_WARN_MS;
    return s->until_ms > now ? s->until_ms : 0;
}

// On failure everything stays as it is.
static int replace(struct server_cert *s, struct err *e)
{
    int64_t until;
    cleanup_free char *cert = NULL, *key = NULL;
    int r = make(s, &cert, &key, e);
    if (r == 0)
        r = pki_cert_not_after_ms(cert, &until, e);
    if (r < 0)
        return r;
    const struct tls_server_options tls = {
        .cert_pem = cert,
        .key_pem = key ? key : s->options.identity->server_key,
        .ca_pem = s->options.identity->ca_cert,
        .allow_tls12 = strcmp(s->options.config->tls_min_version, "1.2") == 0};
    r = s->options.changed(&tls, s->options.userdata, e);
    if (r < 0)
        return r;
    free(s->cert);
    free(s->key);
    s->cert = TAKE_PTR(cert);
    s->key = TAKE_PTR(key);
    s->until_ms = until;
    (void)wall_timer_set(s->timer, next_step(s, clock_real_ms()));
    return 0;
}

static void try_replace(struct server_cert *s)
{
    struct err e = {""};
    int64_t now = clock_real_ms();
    if (replace(s, &e) < 0) {
        log_error("tls", "the server's certificate stays as it is: %s", e.text);
        (void)wall_timer_set(s->timer, renewal_retry_ms(now, s->until_ms));
        return;
    }
    log_info("tls", "the server's certificate is new: %lld days",
             (long long)renewal_days_left(now, s->until_ms));
}

static void on_time(void *userdata)
{
    struct server_cert *s = userdata;
    int64_t now = clock_real_ms();
    if (!from_files(s)) {
        try_replace(s);
        return;
    }
    if (now >= s->until_ms)
        log_error("tls", "%s is over: nobody trusts this master until it is replaced (then SIGHUP)",
                  s->options.config->tls_cert);
    else
        log_warn("tls", "%s is over in %lld days", s->options.config->tls_cert,
                 (long long)renewal_days_left(now, s->until_ms));
    (void)wall_timer_set(s->timer, next_step(s, now));
}

// --- the machine's full name ---

static void free_closed(struct server_cert *s)
{
    server_names_reset(&s->names);
    free(s->cert);
    if (s->key)
        explicit_bzero(s->key, strlen(s->key));
    free(s->key);
    free(s->bundle);
    free(s);
}

static void on_full_name(uv_getaddrinfo_t *req, int status, struct addrinfo *found)
{
    struct server_cert *s = req->data;
    s->looking = false;
    if (s->closing) {
        uv_freeaddrinfo(found);
        free_closed(s);
        return;
    }
    if (status == 0 && found && found->ai_canonname)
        (void)snprintf(s->full_name, sizeof(s->full_name), "%.250s", found->ai_canonname);
    uv_freeaddrinfo(found);
    struct server_names now = {0};
    collect_names(s, &now);
    if (!from_files(s) && !server_names_equal(&now, &s->names))
        try_replace(s);
    server_names_reset(&now);
}

static void look_up(struct server_cert *s)
{
    char host[HOST_NAME_MAX + 1];
    const struct addrinfo hints = {.ai_flags = AI_CANONNAME, .ai_socktype = SOCK_STREAM};
    if (s->looking || gethostname(host, sizeof(host)) < 0)
        return;
    s->lookup.data = s;
    s->looking = uv_getaddrinfo(s->options.loop, &s->lookup, on_full_name, host, NULL, &hints) == 0;
}

// --- public ---

int server_cert_new(const struct server_cert_options *o, struct server_cert **ret, struct err *e)
{
    struct server_cert *s = calloc(1, sizeof(*s));
    if (!s)
        return err_set(e, -ENOMEM, "out of memory");
    s->options = *o;
    int r = wall_timer_new(o->loop, on_time, s, &s->timer, e);
    if (r == 0)
        r = make_bundle(s, e);
    if (r == 0)
        r = pki_cert_not_after_ms(o->identity->ca_cert, &s->ca_until_ms, e);
    if (r == 0)
        r = replace(s, e);
    if (r < 0) {
        server_cert_close(s);
        return r;
    }
    look_up(s);
    *ret = s;
    return 0;
}

struct tls_server_options server_cert_tls(const struct server_cert *s)
{
    return (struct tls_server_options){.cert_pem = s->cert,
                                       .key_pem = s->key ? s->key : s->options.identity->server_key,
                                       .ca_pem = s->options.identity->ca_cert,
                                       .allow_tls12 =
                                           strcmp(s->options.config->tls_min_version, "1.2") == 0};
}

const char *server_cert_bundle(const struct server_cert *s)
{
    return s->bundle;
}

const char *server_cert_bundle_sha256(const struct server_cert *s)
{
    return s->bundle_sha256;
}

void server_cert_reload(struct server_cert *s)
{
    struct err e = {""};
    if (make_bundle(s, &e) < 0)
        log_error("tls", "the bundle of CAs stays as it is: %s", e.text);
    try_replace(s);
    look_up(s);
}

int64_t server_cert_until_ms(const struct server_cert *s)
{
    return s->until_ms;
}

int64_t server_cert_ca_until_ms(const struct server_cert *s)
{
    return s->ca_until_ms;
}

static json_t *validity(int64_t until_ms, int64_t now)
{
    json_t *j = json_object();
    json_put_time(j, "not_after", until_ms);
    json_put_i64(j, "days_left", renewal_days_left(now, until_ms));
    return j;
}

static void warn(json_t *warnings, const char *what, int64_t until_ms, int64_t now,
                 const char *todo)
{
    char text[400];
    if (!warnings)
        return;
    if (until_ms <= now)
        (void)snprintf(text, sizeof(text), "%s is over: %s", what, todo);
    else
        (void)snprintf(text, sizeof(text), "%s is over in %lld days: %s", what,
                       (long long)renewal_days_left(now, until_ms), todo);
    (void)json_array_append_new(warnings, json_string(text));
}

json_t *server_cert_view(const struct server_cert *s, json_t *warnings)
{
    int64_t now = clock_real_ms();
    json_t *j = json_object();
    json_t *server = validity(s->until_ms, now);
    json_put_str(server, "source", from_files(s) ? "file" : "cluster");
    json_t *names = json_array();
    for (size_t i = 0; i < s->names.n; i++)
        (void)json_array_append_new(names, json_string(s->names.items[i]));
    json_put(server, "names", names);
    json_put(j, "ca", validity(s->ca_until_ms, now));
    json_put(j, "server", server);
    // One made here is replaced at two thirds of its life: with less than a sixth left that fails.
    int64_t early = from_files(s) ? FILE_WARN_MS : s->options.config->server_cert_ms / 6;
    if (s->until_ms - now < early)
        warn(warnings, "the server's certificate", s->until_ms, now,
             from_files(s) ? "put a new one in its place and send the master SIGHUP"
                           : "its replacement fails; see the master's log");
    if (renewal_days_left(now, s->ca_until_ms) < CA_WARN_DAYS)
        warn(warnings, "the cluster's CA", s->ca_until_ms, now, "make a new cluster before that");
    return j;
}

void server_cert_close(struct server_cert *s)
{
    if (!s)
        return;
    s->closing = true;
    wall_timer_close(TAKE_PTR(s->timer));
    if (!s->looking)
        free_closed(s);
    else
        (void)uv_cancel((uv_req_t *)&s->lookup);
}
