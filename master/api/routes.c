// SPDX-License-Identifier: Apache-2.0
// The table of routes. proto/openapi.yaml describes the same set; a test holds the two together.
#include "master/api/agents.h"
#include "master/api/handlers.h"
#include "master/api/sealed.h"

#define KiB 1024u
#define MiB (1024u * KiB)
#define AGENT_BODY (16 * MiB)
// Read before anybody is known, so no larger than needed: some 280 KiB of text, encoded twice.
#define SEALED_BODY (512 * KiB)

const struct route api_routes[] = {
    // method, pattern, role, flags, handler, body limit
    {"GET", "/healthz", ROLE_OPEN, 0, system_health, 0},
    {"GET", "/readyz", ROLE_OPEN, 0, system_ready, 0},
    {"GET", "/metrics", ROLE_VIEWER, 0, metrics_get, 0},
    {"GET", "/v1/ca", ROLE_OPEN, 0, system_ca, 0},
    {"GET", "/v1/version", ROLE_OPEN, 0, system_version, 0},
    {"GET", "/v1/cluster", ROLE_VIEWER, 0, system_cluster, 0},

    {"GET", "/v1/nodes", ROLE_VIEWER, 0, nodes_list, 0},
    {"GET", "/v1/nodes/{n}", ROLE_VIEWER, 0, nodes_show, 0},
    {"POST", "/v1/nodes/{n}:drain", ROLE_OPERATOR, ROUTE_MUTATES, nodes_drain, 4 * KiB},
    {"POST", "/v1/nodes/{n}:resume", ROLE_OPERATOR, ROUTE_MUTATES, nodes_resume, 4 * KiB},
    {"POST", "/v1/nodes/{n}:approve", ROLE_OPERATOR, ROUTE_MUTATES, nodes_approve, 4 * KiB},
    {"POST", "/v1/nodes/{n}:stop-orphans", ROLE_OPERATOR, ROUTE_MUTATES, nodes_stop_orphans,
     4 * KiB},
    {"POST", "/v1/nodes/{n}:replace", ROLE_OPERATOR, ROUTE_MUTATES, nodes_replace, 4 * KiB},
    {"PATCH", "/v1/nodes/{n}", ROLE_OPERATOR, ROUTE_MUTATES, nodes_patch, 64 * KiB},
    {"DELETE", "/v1/nodes/{n}", ROLE_OPERATOR, ROUTE_MUTATES, nodes_remove, 4 * KiB},

    {"POST", "/v1/jobs", ROLE_USER, ROUTE_MUTATES, jobs_submit, 1 * MiB},
    {"POST", "/v1/jobs:validate", ROLE_USER, 0, jobs_validate, 1 * MiB},
    {"POST", "/v1/jobs:plan", ROLE_USER, 0, jobs_plan, 1 * MiB},
    {"POST", "/v1/jobs:stop", ROLE_USER, ROUTE_MUTATES, jobs_stop_all, 4 * KiB},
    {"GET", "/v1/jobs", ROLE_VIEWER, 0, jobs_list, 0},
    {"GET", "/v1/jobs/{j}", ROLE_VIEWER, 0, jobs_show, 0},
    {"DELETE", "/v1/jobs/{j}", ROLE_USER, ROUTE_MUTATES, jobs_delete, 4 * KiB},
    {"POST", "/v1/jobs/{j}:stop", ROLE_USER, ROUTE_MUTATES, jobs_stop, 4 * KiB},
    {"POST", "/v1/jobs/{j}:hold", ROLE_USER, ROUTE_MUTATES, jobs_hold, 4 * KiB},
    {"POST", "/v1/jobs/{j}:release", ROLE_USER, ROUTE_MUTATES, jobs_release, 4 * KiB},
    {"GET", "/v1/jobs/{j}/tasks", ROLE_VIEWER, 0, jobs_tasks, 0},
    {"GET", "/v1/jobs/{j}/explain", ROLE_VIEWER, 0, jobs_explain, 0},
    {"GET", "/v1/jobs/{j}/logs", ROLE_VIEWER, 0, logs_get, 0},

    {"GET", "/v1/events", ROLE_VIEWER, 0, events_get, 0},

    {"GET", "/v1/whoami", ROLE_VIEWER, 0, users_whoami, 0},
    {"GET", "/v1/users", ROLE_VIEWER, 0, users_list, 0},
    {"POST", "/v1/users", ROLE_ADMIN, ROUTE_MUTATES, users_create, 4 * KiB},
    {"GET", "/v1/users/{u}", ROLE_VIEWER, 0, users_show, 0},
    {"PATCH", "/v1/users/{u}", ROLE_ADMIN, ROUTE_MUTATES, users_change, 4 * KiB},
    {"DELETE", "/v1/users/{u}", ROLE_ADMIN, ROUTE_MUTATES, users_delete, 4 * KiB},
    {"GET", "/v1/teams", ROLE_VIEWER, 0, teams_list, 0},
    {"GET", "/v1/teams/{t}", ROLE_VIEWER, 0, teams_show, 0},
    {"PATCH", "/v1/teams/{t}", ROLE_ADMIN, ROUTE_MUTATES, teams_change, 4 * KiB},
    {"DELETE", "/v1/teams/{t}", ROLE_ADMIN, ROUTE_MUTATES, teams_delete, 4 * KiB},
    {"POST", "/v1/tokens", ROLE_USER, ROUTE_MUTATES, access_token_create, 4 * KiB},
    {"GET", "/v1/tokens", ROLE_VIEWER, 0, access_token_list, 0},
    {"DELETE", "/v1/tokens/{t}", ROLE_VIEWER, ROUTE_MUTATES, access_token_revoke, 4 * KiB},
    {"POST", "/v1/join-tokens", ROLE_ADMIN, ROUTE_MUTATES, access_join_token_create, 4 * KiB},

    {"GET", "/v1/audit", ROLE_ADMIN, 0, audit_get, 0},
    {"GET", "/v1/keys/master", ROLE_OPEN, 0, keys_master, 0},
    {"POST", "/v1/keys/master:rotate", ROLE_ADMIN, ROUTE_MUTATES, keys_master_rotate, 4 * KiB},
    {"POST", "/v1/keys", ROLE_USER, ROUTE_MUTATES, keys_register, 16 * KiB},
    {"GET", "/v1/keys", ROLE_VIEWER, 0, keys_list, 0},
    {"DELETE", "/v1/keys/{k}", ROLE_USER, ROUTE_MUTATES, keys_remove, 4 * KiB},
    {"POST", "/v1/sealed", ROLE_OPEN, ROUTE_NOT_SEALED, sealed_post, SEALED_BODY},
    {"POST", "/v1/backup", ROLE_ADMIN, ROUTE_AUDITED, backup_get, 4 * KiB},

    {"GET", "/v1/secrets", ROLE_USER, 0, secrets_list, 0},
    {"PUT", "/v1/secrets/{s}", ROLE_USER, ROUTE_MUTATES, secrets_put, 256 * KiB},
    {"DELETE", "/v1/secrets/{s}", ROLE_USER, ROUTE_MUTATES, secrets_remove, 4 * KiB},

    {"GET", "/v1/data", ROLE_VIEWER, 0, data_list, 0},
    {"GET", "/v1/data/", ROLE_VIEWER, 0, data_list, 0},
    {"GET", "/v1/data/{path...}", ROLE_VIEWER, 0, data_get, 0},
    {"PUT", "/v1/data/{path...}", ROLE_USER, ROUTE_STREAM_BODY | ROUTE_AUDITED | ROUTE_DATA_WRITE,
     data_put, 0},
    {"DELETE", "/v1/data/{path...}", ROLE_USER, ROUTE_MUTATES | ROUTE_DATA_WRITE, data_delete,
     4 * KiB},

    {"POST", "/v1/join", ROLE_OPEN, ROUTE_MUTATES | ROUTE_NOT_SEALED, agents_join, 64 * KiB},
    {"POST", "/v1/agent/renew", ROLE_NODE, ROUTE_MUTATES, agents_renew, 64 * KiB},
    {"POST", "/v1/agent/sync", ROLE_NODE, 0, agents_sync, AGENT_BODY},
    {"POST", "/v1/agent/report", ROLE_NODE, 0, agents_report, AGENT_BODY},
    {"POST", "/v1/agent/logs/{attempt}", ROLE_NODE, 0, agents_logs, 4 * MiB},
    {0},
};
