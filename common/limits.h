// SPDX-License-Identifier: Apache-2.0
// Hard bounds of the HTTP front and of what guards it: what no configuration can raise. What an
// operator may choose is the section `limits` of master.yml (master/config.c).
#pragma once

// A request's head. libmicrohttpd keeps it, and some 60 bytes for each header line, in one pool for
// each connection, which has room for both.
#define LIMIT_HEAD_BYTES 8192
#define LIMIT_HEAD_POOL 16384
// Header lines of one request; more is refused before they are parsed.
#define LIMIT_HEAD_LINES 100
// A handshake that is older than this may be ended to make room for a new one.
#define LIMIT_HANDSHAKE_GRACE_MS 1000
// A people's connection without a request that is older than this may be ended for a new one.
#define LIMIT_IDLE_GRACE_MS 1000
// Names and addresses whose request rate is remembered.
#define LIMIT_RATE_NAMES 8192
// Offences told apart in the log, and the time in which each has one line.
#define LIMIT_OFFENCES 1024
#define LIMIT_OFFENCE_MS 60000
// Descriptors that are not for connections: Redis, listeners, logs of tasks, audit, uploads.
#define LIMIT_OTHER_FDS 112
// What one TLS connection takes: its socket and a socket pair; a handshake takes only the first.
#define LIMIT_FDS_PER_TLS 3
// Lines in the log and places in the list of events that one node may cause: see
// master/cluster/event_limit.c.
#define LIMIT_NODE_EVENTS_PER_S 200
#define LIMIT_NODE_EVENTS_BURST 5000
