// SPDX-License-Identifier: Apache-2.0
// TLS 1.3 in front of the HTTP server: takes accepted TCP connections, does the handshake, and
// pumps plaintext both ways over a socket pair whose other end belongs to the HTTP server. OpenSSL
// on the same loop; idle and half-done handshakes cost no CPU.
#pragma once

#include "common/http_server.h"

struct tls_front;

struct tls_front_options {
    uv_loop_t *loop;
    // A handshake is done: takes the descriptor (and closes it on failure). peer says who.
    int (*connected)(int fd, const struct http_peer *peer, void *userdata);
    void (*ended)(void *userdata); // a connection is gone: its descriptors are free
    void *userdata;
    unsigned handshake_timeout_ms;
};

int tls_front_new(const struct tls_front_options *o, const struct tls_server_options *tls,
                  struct tls_front **ret, struct err *e) WARN_UNUSED;
// New connections use the new certificate and CA.
int tls_front_set(struct tls_front *f, const struct tls_server_options *tls,
                  struct err *e) WARN_UNUSED;
// Takes a connected non-blocking TCP descriptor.
int tls_front_accept(struct tls_front *f, int fd, const struct http_peer *peer) WARN_UNUSED;
unsigned tls_front_connections(const struct tls_front *f);
// Ends every connection, now.
void tls_front_close_all(struct tls_front *f); // NULL allowed
bool tls_front_idle(
    const struct tls_front *f);           // nothing of it is in the loop any more; true for NULL
void tls_front_free(struct tls_front *f); // only when idle; NULL allowed
