// SPDX-License-Identifier: Apache-2.0
// People's routes, as routes.c lists them. Every one answers its call exactly once, now or later.
#pragma once

#include "master/api/api.h"

// jobs.c
void jobs_submit(struct call *call);
void jobs_validate(struct call *call);
void jobs_list(struct call *call);
void jobs_show(struct call *call);
void jobs_stop(struct call *call);
void jobs_stop_all(struct call *call);
void jobs_hold(struct call *call);
void jobs_release(struct call *call);
void jobs_plan(struct call *call);
void jobs_delete(struct call *call);
void jobs_tasks(struct call *call);
// explain.c
void jobs_explain(struct call *call);
// logs.c
void logs_get(struct call *call);
// nodes.c
void nodes_list(struct call *call);
void nodes_show(struct call *call);
void nodes_drain(struct call *call);
void nodes_resume(struct call *call);
void nodes_stop_orphans(struct call *call);
void nodes_approve(struct call *call);
void nodes_replace(struct call *call);
void nodes_patch(struct call *call);
void nodes_remove(struct call *call);
struct node *nodes_find(struct call *call); // of parameter 0, by name or id; NULL: answered 404
// events.c
void events_get(struct call *call);
// system.c
void system_health(struct call *call);
void system_ready(struct call *call);
void system_version(struct call *call);
void system_cluster(struct call *call);
void system_ca(struct call *call);
// metrics.c
void metrics_get(struct call *call);
// access.c
void access_token_create(struct call *call);
void access_token_list(struct call *call);
void access_token_revoke(struct call *call);
void access_join_token_create(struct call *call);
// audit_get.c
void audit_get(struct call *call);
// users.c
void users_whoami(struct call *call);
void users_list(struct call *call);
void users_show(struct call *call);
void users_create(struct call *call);
void users_change(struct call *call);
void users_delete(struct call *call);
// teams.c
void teams_list(struct call *call);
void teams_show(struct call *call);
void teams_change(struct call *call);
void teams_delete(struct call *call);
// secrets.c
void secrets_list(struct call *call);
void secrets_put(struct call *call);
void secrets_remove(struct call *call);
// key_routes.c
void keys_register(struct call *call);
void keys_list(struct call *call);
void keys_remove(struct call *call);
void keys_master(struct call *call);
void keys_master_rotate(struct call *call);
// backup.c
void backup_get(struct call *call);
// data.c
void data_put(struct call *call);
void data_get(struct call *call);
void data_list(struct call *call);
void data_delete(struct call *call);
