// SPDX-License-Identifier: Apache-2.0
// The renewal: a request by the key that the node has, answered with a certificate. The old one
// stays valid until the new one is used, so a lost answer costs nothing but another try.
#include "node-agent/renew.h"

#include "node-agent/post.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/pki.h"
#include "common/renewal.h"
#include "common/wall_timer.h"

#include <stdlib.h>

#define TIMEOUT_MS 15000

struct renew {
    struct renew_options options;
    struct wall_timer *timer;
    int64_t until_ms;
    bool under_way, retrying;
};

static int schedule(struct renew *r, struct err *e)
{
    int64_t from;
    int k = pki_cert_not_before_ms(r->options.identity->cert_pem, &from, e);
    if (k == 0)
        k = pki_cert_not_after_ms(r->options.identity->cert_pem, &r->until_ms, e);
    if (k < 0)
        return err_wrap(e, k, "the node's certificate");
    r->retrying = false;
    (void)wall_timer_set(r->timer, renewal_due_ms(from + PKI_SKEW_S * 1000, r->until_ms));
    return 0;
}

static void failed(struct renew *r, const char *why)
{
    int64_t now = clock_real_ms();
    r->retrying = true;
    log_warn("renew", "the node's certificate (%lld days left) is not renewed yet: %s",
             (long long)renewal_days_left(now, r->until_ms), why);
    (void)wall_timer_set(r->timer, renewal_retry_ms(now, r->until_ms));
}

static int take(struct renew *r, const json_t *body, struct err *e)
{
    const char *cert, *ca;
    int k = json_get_str(body, "certificate", &cert, e);
    if (k == 0)
        k = json_get_str(body, "ca", &ca, e);
    if (k == 0)
        k = identity_renewed(r->options.identity, r->options.state_dir, cert, ca, e);
    return k == 0 ? schedule(r, e) : k;
}

static void on_answer(int error, int status, const json_t *body, const struct err *http_err,
                      void *userdata)
{
    struct renew *r = userdata;
    struct err e = {""};
    char text[sizeof(struct err)];
    r->under_way = false;
    if (error == -ECANCELED)
        return;
    if (error < 0) {
        failed(r, http_err->text);
    } else if (status != 200) {
        failed(r, post_problem(status, body, text, sizeof(text)));
    } else if (take(r, body, &e) < 0) {
        failed(r, e.text);
    } else {
        log_info("renew", "the node's certificate is new: %lld days",
                 (long long)renewal_days_left(clock_real_ms(), r->until_ms));
        r->options.renewed(r->options.userdata);
    }
}

static int send_request(struct renew *r, struct err *e)
{
    const struct identity *id = r->options.identity;
    cleanup_free char *csr = NULL;
    int k = pki_csr_new(id->key_pem, id->name, &csr, e);
    if (k < 0)
        return k;
    cleanup_json json_t *body = json_object();
    json_put_str(body, "csr", csr);
    return post_json(r->options.client, "/v1/agent/renew", body, TIMEOUT_MS, on_answer, r, e);
}

static void begin(struct renew *r)
{
    struct err e = {""};
    if (r->under_way)
        return;
    r->under_way = true;
    if (send_request(r, &e) < 0) {
        r->under_way = false;
        failed(r, e.text);
    }
}

static void on_time(void *userdata)
{
    begin(userdata);
}

void renew_now(struct renew *r)
{
    if (r && !r->retrying)
        begin(r);
}

int renew_new(const struct renew_options *options, struct renew **ret, struct err *e)
{
    struct renew *r = calloc(1, sizeof(*r));
    if (!r)
        return err_set(e, -ENOMEM, "out of memory");
    r->options = *options;
    int k = wall_timer_new(options->loop, on_time, r, &r->timer, e);
    if (k == 0)
        k = schedule(r, e);
    if (k < 0) {
        renew_close(r);
        return k;
    }
    *ret = r;
    return 0;
}

void renew_close(struct renew *r)
{
    if (!r)
        return;
    wall_timer_close(r->timer);
    free(r);
}
