// SPDX-License-Identifier: Apache-2.0
// What makes a cluster this cluster: its id, its CA, the server's key and certificate. Made at
// first start, kept in DATA/identity (0600).
#pragma once

#include "common/err.h"
#include "common/id.h"

struct identity {
    char id[ID_BYTES]; // 'c' + 12
    char *ca_cert, *ca_key;
    char *server_key; // PEM; its certificate: server_cert.h
};

// Loads it, or makes it durably when there is none. A half-written identity is an error that names
// the file; nothing is replaced.
int identity_open(const char *data_dir, struct identity *ret, struct err *e) WARN_UNUSED;
void identity_free(struct identity *i);
