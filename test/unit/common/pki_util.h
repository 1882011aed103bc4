// SPDX-License-Identifier: Apache-2.0
// Certificates for tests, made by pki.c as the cluster makes them.
#pragma once

#include "common/cleanup.h"
#include "common/pki.h"
#include "test/unit/suite.h"

struct identity {
    char *key, *cert;
};

#define DAYS 10

static inline void must(int r, const struct err *e)
{
    ck_assert_msg(r == 0, "%s", e->text);
}

static inline struct identity make_ca(void)
{
    struct identity ca = {0};
    struct err e;
    must(pki_key_new(&ca.key, &e), &e);
    must(pki_ca_new(ca.key, "test", DAYS * PKI_DAY_S, &ca.cert, &e), &e);
    return ca;
}

static inline struct identity make_server_id(const struct identity *ca, const char *name)
{
    struct identity id = {0};
    struct err e;
    const char *const names[] = {name, NULL};
    must(pki_key_new(&id.key, &e), &e);
    must(pki_server_cert(ca->cert, ca->key, id.key, names, DAYS * PKI_DAY_S, &id.cert, &e), &e);
    return id;
}

static inline struct identity make_node(const struct identity *ca, const char *node, int days)
{
    struct identity id = {0};
    cleanup_free char *csr = NULL;
    struct err e;
    must(pki_key_new(&id.key, &e), &e);
    must(pki_csr_new(id.key, "someone", &csr, &e), &e);
    must(pki_node_cert(ca->cert, ca->key, csr, node, days * PKI_DAY_S, &id.cert, &e), &e);
    return id;
}

static inline void identity_free(struct identity *id)
{
    free(id->key);
    free(id->cert);
}
