// SPDX-License-Identifier: Apache-2.0
// TLS 1.3 in front of the HTTP server: takes accepted TCP connections, does the handshake, and
// pumps plaintext both ways over a socket pair whose other end belongs to the HTTP server. OpenSSL
// on the same loop; idle and half-done handshakes cost no CPU.
//
// Who gets a place: agents are known by their certificate; people have a limit in all and for each
// address, so that a part is left to agents. At a limit the oldest handshake, or the people's
// connection that is idle for longest, makes room when it had its time (common/limits.h).
#pragma once

#include "common/http_server.h"

struct tls_front;

struct tls_front_options {
    uv_loop_t *loop;
    // A handshake is done: takes the descriptor (and closes it on failure). peer says who.
    int (*connected)(int fd, const struct http_peer *peer, void *userdata);
    void (*ended)(void *userdata); // a connection is gone: its descriptors are free
    void *userdata;
    unsigned connections; // in all, handshakes too
    struct http_limits limits;
    void *limits_userdata;
};

struct tls_front_stats { // since the start
    uint64_t handshakes, handshakes_failed, handshakes_evicted;
    uint64_t refused_address, refused_full, evicted_idle, bad_requests, starved;
};

// Owned by the caller: tls_front_free once it is idle. A negative errno with text.
int tls_front_new(const struct tls_front_options *o, const struct tls_server_options *tls,
                  struct tls_front **ret, struct err *e) WARN_UNUSED;
// New connections use the new certificate and CA.
int tls_front_set(struct tls_front *f, const struct tls_server_options *tls,
                  struct err *e) WARN_UNUSED;
// Whether a connection may be accepted now; makes room when it can. Else *ret_ms tells when room
// can be made at the earliest (0 = only the end of a connection helps).
bool tls_front_room(struct tls_front *f, unsigned *ret_ms) WARN_UNUSED;
// Takes a connected non-blocking TCP descriptor.
int tls_front_accept(struct tls_front *f, int fd, const struct http_peer *peer) WARN_UNUSED;
// The HTTP server's end `inner_fd` has a request, or none any more.
void tls_front_busy(struct tls_front *f, int inner_fd, bool busy);
// Descriptors lack: ends the people's connection that is idle for longest. False: there is none.
bool tls_front_evict_idle(struct tls_front *f);
void tls_front_counts(const struct tls_front *f, struct tls_front_stats *ret,
                      struct http_server_stats *ret_now); // its part of it
// Ends every connection, now.
void tls_front_close_all(struct tls_front *f); // NULL allowed
bool tls_front_idle(
    const struct tls_front *f);           // nothing of it is in the loop any more; true for NULL
void tls_front_free(struct tls_front *f); // only when idle; NULL allowed
