// SPDX-License-Identifier: Apache-2.0
// Reads along what a client sends and refuses what two HTTP parsers could understand differently
// (RFC 9112, sections 2.2, 3, 5, 6.3 and 7.1: request smuggling): a repeated Content-Length, one
// beside Transfer-Encoding, names with spaces, folded lines, bare CR or LF, NUL, targets that are
// no plain path. Two Authorization headers are refused as well. It keeps no bytes, so it costs no
// memory and can't be behind.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct http_guard { // all zero = before the first request
    uint8_t state;
    uint8_t part_len; // of the word that is compared: a name, a version, an encoding
    char part[20];
    uint16_t lines, head_len;
    uint32_t heads; // complete ones so far
    bool has_length, has_encoding, has_host, has_credentials, old_version, trailers;
    bool too_large;  // why it was refused, when it was: 431
    uint64_t left;   // of the body or chunk
    size_t good;     // bytes of the last call that belong to requests complete before the refusal
    const char *why; // of the refusal; NULL = none yet
};

// Feeds bytes in the order they came. True: they may go on to the server. False: the connection is
// to be ended; g->why tells the client the reason (static text). It stays false.
bool http_guard_feed(struct http_guard *g, const char *data, size_t len);
