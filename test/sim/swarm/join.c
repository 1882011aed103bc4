// SPDX-License-Identifier: Apache-2.0
// The join conversation of proto/AGENT.md: the CA is fetched once and held against the token's
// fingerprint, then every agent sends its own request (a P-256 key takes some 20 us to make), a
// number of them at once over connections that stay open.
#include "test/sim/swarm/swarm.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/pki.h"
#include "proto/version.h"

#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>

#define LANES 16
#define FINGERPRINT_AT 6 // mjoin_<64 hex>_<secret>
#define FINGERPRINT_CHARS 64

struct lane { // one connection, one agent at a time
    struct swarm *swarm;
    struct conn *conn;
    struct agent *agent;
    char *text; // its request
};

static struct {
    struct lane lanes[LANES];
    int64_t next;
    struct conn *first;
} joining;

static _Noreturn void die(const char *what, const char *why)
{
    (void)fprintf(stderr, "swarm: %s: %s\n", what, why);
    exit(1);
}

static void *read_pem(const char *pem, bool key)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    void *ret = key ? (void *)PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL)
                    : (void *)PEM_read_bio_X509(bio, NULL, NULL, NULL);
    (void)BIO_free(bio);
    if (!ret)
        die("join", "unreadable PEM");
    return ret;
}

static void join_next(struct lane *l);

static void joined(struct conn *c, int status, const char *body, size_t len)
{
    struct lane *l = conn_userdata(c);
    struct err e = {""};
    const char *cert;
    cleanup_json json_t *j = NULL;
    // The store is slow: again, as agents do; a join is one per key.
    if (status == 503 && conn_request(l->conn, "POST", "/v1/join", l->text, strlen(l->text)) == 0)
        return;
    if (status != 200 || json_parse(body, len, &j, &e) < 0 ||
        json_get_str(j, "certificate", &cert, &e) < 0)
        die("join", status == 200 ? e.text : body);
    l->agent->cert = read_pem(cert, false);
    l->swarm->stats.joined++;
    if (agent_begin(l->agent, &e) < 0)
        die("agent", e.text);
    join_next(l);
}

static void lane_failed(struct conn *c, const char *why)
{
    (void)c;
    die("join", why);
}

static char *request_text(struct agent *a, struct err *e)
{
    cleanup_free char *key = NULL;
    cleanup_free char *csr = NULL;
    char machine[40];
    (void)snprintf(machine, sizeof(machine), "5eed%028llx", (long long)a->number + 1);
    if (pki_key_new(&key, e) < 0 || pki_csr_new(key, a->name, &csr, e) < 0)
        return NULL;
    a->key = read_pem(key, true);
    cleanup_json json_t *j = json_pack("{s:i,s:s,s:s,s:s,s:s,s:s}", "protocol", MEADOW_PROTOCOL,
                                       "token", a->swarm->o.token, "name", a->name, "csr", csr,
                                       "machine_id", machine, "agent_version", MEADOW_VERSION);
    return json_text(j);
}

static void join_next(struct lane *l)
{
    struct swarm *s = l->swarm;
    struct err e = {""};
    free(TAKE_PTR(l->text));
    if (joining.next == s->o.nodes) {
        conn_close(TAKE_PTR(l->conn));
        return;
    }
    l->agent = &s->agents[joining.next];
    l->agent->swarm = s;
    l->agent->number = joining.next++;
    (void)snprintf(l->agent->name, sizeof(l->agent->name), "%s%lld", s->o.prefix,
                   (long long)l->agent->number);
    l->text = request_text(l->agent, &e);
    if (!l->text || conn_request(l->conn, "POST", "/v1/join", l->text, strlen(l->text)) < 0)
        die("join", e.text);
}

static void ca_fetched(struct conn *c, int status, const char *body, size_t len)
{
    struct swarm *s = conn_userdata(c);
    struct err e = {""};
    char found[65];
    cleanup_free char *pem = strndup(body, len);
    if (status != 200 || !pem || pki_cert_fingerprint(pem, found, &e) < 0)
        die("the master's CA", e.text);
    if (strncmp(found, s->o.token + FINGERPRINT_AT, FINGERPRINT_CHARS) != 0)
        die("the master's CA", "is not the one of the join token");
    X509 *ca = read_pem(pem, false);
    if (X509_STORE_add_cert(SSL_CTX_get_cert_store(s->tls), ca) != 1)
        die("the master's CA", "can't be used");
    X509_free(ca);
    conn_close(TAKE_PTR(joining.first));
    for (size_t i = 0; i < LANES && joining.next < s->o.nodes; i++) {
        struct lane *l = &joining.lanes[i];
        struct conn_options o = {.loop = s->loop,
                                 .tls = s->tls,
                                 .master = &s->master,
                                 .host = s->o.host,
                                 .answered = joined,
                                 .failed = lane_failed,
                                 .userdata = l};
        l->swarm = s;
        if (conn_open(&o, &l->conn, &e) < 0)
            die("join", e.text);
        join_next(l);
    }
}

int join_all(struct swarm *s, struct err *e)
{
    struct conn_options o = {.loop = s->loop,
                             .tls = s->tls,
                             .master = &s->master,
                             .answered = ca_fetched,
                             .failed = lane_failed,
                             .userdata = s};
    if (strncmp(s->o.token, "mjoin_", FINGERPRINT_AT) != 0 ||
        strlen(s->o.token) < FINGERPRINT_AT + FINGERPRINT_CHARS + 2)
        return err_set(e, -EINVAL, "the join token has not the form mjoin_<fingerprint>_<secret>");
    int r = conn_open(&o, &joining.first, e);
    if (r == 0)
        r = conn_request(joining.first, "GET", "/v1/ca", "", 0);
    return r;
}
