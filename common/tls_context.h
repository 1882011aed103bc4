// SPDX-License-Identifier: Apache-2.0
// The server side's TLS settings as an OpenSSL context.
#pragma once

#include "common/http_server.h"

#include <openssl/ssl.h>

// TLS 1.3 only (1.2 when allowed), ALPN http/1.1, client certificates asked for and verified
// against ca_pem when one is sent; one that is over passes (cert_until_ms tells). Owned:
// SSL_CTX_free.
int tls_context_new(const struct tls_server_options *o, SSL_CTX **ret, struct err *e) WARN_UNUSED;
// After the handshake: fills has_cert, cert_cn, cert_sha256 and cert_until_ms; nothing when the
// client sent none.
void tls_context_peer(SSL *ssl, struct http_peer *peer);
