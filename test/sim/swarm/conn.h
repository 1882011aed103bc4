// SPDX-License-Identifier: Apache-2.0
// One TLS 1.3 connection to the master with one HTTP/1.1 request at a time: as little as thousands
// in one process can be made of. Callbacks may close the connection.
#pragma once

#include "common/err.h"

#include <netinet/in.h>
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

struct conn;

struct conn_options {
    uv_loop_t *loop;
    SSL_CTX *tls;
    const struct sockaddr_in *master;
    const char *host; // must be in the server's certificate; NULL = whoever answers
    X509 *cert;       // of the client, NULL = none; borrowed while the connection lives
    EVP_PKEY *key;
    void (*shaken)(struct conn *c); // the handshake is done; NULL = nobody cares
    // The answer of the request under way; `body` is borrowed.
    void (*answered)(struct conn *c, int status, const char *body, size_t len);
    // The connection is of no use any more: the owner closes it.
    void (*failed)(struct conn *c, const char *why);
    void *userdata;
};

int conn_open(const struct conn_options *o, struct conn **ret, struct err *e) WARN_UNUSED;
void *conn_userdata(const struct conn *c);
// Sent as soon as the handshake is done. One at a time. -ENOMEM.
int conn_request(struct conn *c, const char *method, const char *path, const char *body,
                 size_t len) WARN_UNUSED;
bool conn_is_shaken(const struct conn *c);
void conn_close(struct conn *c); // no callback any more; freed from the loop; NULL allowed
