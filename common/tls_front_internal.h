// SPDX-License-Identifier: Apache-2.0
// Shared by tls_front.c (life of a connection), tls_pump.c (moving bytes) and tls_room.c (who may
// have a place).
#pragma once

#include "common/http_address.h"
#include "common/http_guard.h"
#include "common/tls_front.h"

#include <openssl/ssl.h>
#include <uthash.h>

#define TLS_BLOCK 16384

struct block {
    char *data; // NULL = empty
    size_t len, sent;
};

// What a connection is counted as; each kind has a list, the one that is it for longest first.
enum tls_kind {
    TLS_HANDSHAKE,
    TLS_STARVED, // handshake done, no descriptors for a socket pair yet
    TLS_AGENT,
    TLS_IDLE, // of people, without a request
    TLS_BUSY, // of people, with one
    TLS_LINGER,
    TLS_CLOSING, // only its handles are left
    TLS_KINDS
};

// Whom the limits count; gone with its last connection.
struct tls_address {
    char group[HTTP_ADDRESS_BYTES];
    unsigned handshakes, people, conns;
    UT_hash_handle hh;
};

struct tls_conn {
    struct tls_front *front;
    int fd, pair;
    int inner_fd; // the HTTP server's end of the pair; -1 = there is none (any more)
    SSL *ssl;
    uv_poll_t net, inner;
    int net_events, inner_events; // what they wait for now
    bool inner_open;
    uv_timer_t deadline;
    struct http_peer peer;
    enum tls_kind kind;
    uint64_t since_ms; // uv_now when it became that
    struct tls_address *address;
    struct http_guard guard;
    bool spared; // its handshake was given its time once more
    bool ready;  // handshake done
    bool agent;
    bool client_eof; // close_notify came
    bool inner_deaf; // the HTTP server takes nothing more in; its answer still comes out
    bool inner_eof;  // the HTTP server is done: what is left is sent, then the end
    bool bad;        // the guard refused what came; told when earlier answers are out
    bool ssl_wants_write;
    struct block to_client, to_inner;
    int handles;
    struct tls_conn *prev, *next; // in its kind's list
};

struct tls_front {
    struct tls_front_options options;
    SSL_CTX *ctx;
    struct tls_conn *lists[TLS_KINDS];
    unsigned counts[TLS_KINDS];
    struct tls_address *addresses;
    struct tls_conn **by_inner; // by the HTTP server's descriptor
    size_t by_inner_size;
    struct tls_front_stats stats;
    char scratch[TLS_BLOCK];
};

// tls_front.c
void tls_conn_close(struct tls_conn *c);
void tls_conn_linger(struct tls_conn *c);
// Answers with a problem that is not the HTTP server's, and ends.
void tls_conn_refuse(struct tls_conn *c, int status, const char *title, const char *detail);
// Callbacks of the handles.
void tls_on_net(uv_poll_t *poll, int status, int events);
void tls_on_inner(uv_poll_t *poll, int status, int events);
void tls_on_deadline(uv_timer_t *timer);

// tls_pump.c
// One look at everything that may move, and what follows from it.
void tls_pump(struct tls_conn *c);
// Sets what the handles wait for.
void tls_pump_update(struct tls_conn *c);
void tls_block_drop(struct block *b);
// For a client to take the end of its answer.
#define TLS_LAST_BLOCK_MS 30000

// tls_room.c
// A new connection of that address: -ENOMEM, or -EUSERS when the address has too many handshakes.
int tls_room_enter(struct tls_conn *c, const char *address) WARN_UNUSED;
void tls_room_move(struct tls_conn *c, enum tls_kind kind);
void tls_room_leave(struct tls_conn *c); // the last thing, before it is freed
// The handshake is done: whether there is a place, an agent's or of people. False: it was refused.
bool tls_room_admit(struct tls_conn *c) WARN_UNUSED;
void tls_room_settle(struct tls_conn *c);                        // takes that place
int tls_room_pair(struct tls_conn *c, int inner_fd) WARN_UNUSED; // remembers it; -ENOMEM
void tls_room_unpair(struct tls_conn *c);
