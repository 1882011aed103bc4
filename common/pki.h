// SPDX-License-Identifier: Apache-2.0
// The cluster's certificates: ECDSA P-256 keys, one CA, server and node certificates (RFC 5280), on
// OpenSSL. All inputs and outputs are PEM text; returned texts are owned by the caller.
#pragma once

#include "common/err.h"
#include <stdint.h>

#define PKI_DAY_S INT64_C(86400)
#define PKI_SKEW_S                                                                                 \
    INT64_C(300) // certificates begin so long before they are made: clocks differ a little

// A new ECDSA P-256 key as PEM (PKCS#8); the caller wipes and frees it. -EIO.
int pki_key_new(char **ret_key_pem, struct err *e) WARN_UNUSED;
// Self-signed CA, pathlen 0, key usage certSign+cRLSign; CN "meadow cluster <id>".
int pki_ca_new(const char *key_pem, const char *cluster_id, int64_t life_s, char **ret_cert_pem,
               struct err *e) WARN_UNUSED;
// Server certificate with subjectAltName entries from `names` (NULL-terminated; "DNS" or IP is told
// apart by form), extendedKeyUsage serverAuth.
int pki_server_cert(const char *ca_cert_pem, const char *ca_key_pem, const char *key_pem,
                    const char *const *names, int64_t life_s, char **ret_cert_pem,
                    struct err *e) WARN_UNUSED;
// A certificate request with CN `name`, proving possession of the key. -EINVAL: it is none.
int pki_csr_new(const char *key_pem, const char *name, char **ret_csr_pem,
                struct err *e) WARN_UNUSED;
// Signs the key of the (verified) request as CN `node_id`, extendedKeyUsage clientAuth; nothing
// else of the request is taken over. -EPROTO for a bad request or a key that is not ECDSA P-256.
int pki_node_cert(const char *ca_cert_pem, const char *ca_key_pem, const char *csr_pem,
                  const char *node_id, int64_t life_s, char **ret_cert_pem,
                  struct err *e) WARN_UNUSED;
// SHA-256 of the DER of one certificate, or of all of a bundle one after another: lower-case hex,
// 64 characters + NUL. -EPROTO when the text has any other PEM block: what is trusted by its
// fingerprint must be covered by it.
int pki_cert_fingerprint(const char *cert_pem, char ret_hex[65], struct err *e) WARN_UNUSED;
// SHA-256 of the public key (SubjectPublicKeyInfo DER) of a request: a node is its key.
int pki_csr_key_fingerprint(const char *csr_pem, char ret_hex[65], struct err *e) WARN_UNUSED;
// Begin and end of validity, ms since the epoch.
int pki_cert_not_before_ms(const char *cert_pem, int64_t *ret_ms, struct err *e) WARN_UNUSED;
int pki_cert_not_after_ms(const char *cert_pem, int64_t *ret_ms, struct err *e) WARN_UNUSED;
// SHA-256 of any bytes as lower-case hex.
int pki_sha256_hex(const void *data, unsigned long len, char ret_hex[65]) WARN_UNUSED;
