// SPDX-License-Identifier: Apache-2.0
// The certificate that the API shows: issued by the cluster's CA for all names of the machine and
// replaced at two thirds of its life, or one that was brought along and is read from its files.
// Also the bundle of CAs that clients are told to trust.
#pragma once

#include "common/http_server.h"
#include "master/config.h"
#include "master/identity.h"
#include <jansson.h>

struct server_cert;

struct server_cert_options {
    uv_loop_t *loop;
    const struct master_config *config; // borrowed, as the identity
    const struct identity *identity;
    // A new certificate is to be used from now on; negative: it can't (e says why), the old one
    // stays.
    int (*changed)(const struct tls_server_options *tls, void *userdata, struct err *e);
    void *userdata;
};

// Owned: server_cert_close. Files that can't be read or don't fit are an error.
int server_cert_new(const struct server_cert_options *o, struct server_cert **ret,
                    struct err *e) WARN_UNUSED;
// Borrowed texts, until the next change.
struct tls_server_options server_cert_tls(const struct server_cert *s);
// The CAs that clients are to trust, PEM (valid until server_cert_reload), and their fingerprint.
const char *server_cert_bundle(const struct server_cert *s);
const char *server_cert_bundle_sha256(const struct server_cert *s);
// Reads the files again, or issues anew when names came or went. What is wrong is logged, and the
// old certificate stays.
void server_cert_reload(struct server_cert *s);
// {ca: {not_after, days_left}, server: {not_after, days_left, source, names}}; texts of warnings
// are added to `warnings` (an array, or NULL).
json_t *server_cert_view(const struct server_cert *s, json_t *warnings);
// Ends of validity, ms since the epoch.
int64_t server_cert_until_ms(const struct server_cert *s);
int64_t server_cert_ca_until_ms(const struct server_cert *s);
void server_cert_close(struct server_cert *s); // frees from the loop; NULL allowed
