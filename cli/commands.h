// SPDX-License-Identifier: Apache-2.0
// The commands' functions, for the table. Each returns the exit status.
#pragma once

struct cli;
struct args;

int cmd_up(struct cli *cli, const struct args *args);
int cmd_down(struct cli *cli, const struct args *args);
int cmd_status(struct cli *cli, const struct args *args);
int cmd_dashboard(struct cli *cli, const struct args *args);
int cmd_version(struct cli *cli, const struct args *args);
int cmd_node_list(struct cli *cli, const struct args *args);
int cmd_node_show(struct cli *cli, const struct args *args);
int cmd_node_join_command(struct cli *cli, const struct args *args);
int cmd_node_approve(struct cli *cli, const struct args *args);
int cmd_node_replace(struct cli *cli, const struct args *args);
int cmd_node_remove(struct cli *cli, const struct args *args);
int cmd_node_label(struct cli *cli, const struct args *args);
int cmd_node_drain(struct cli *cli, const struct args *args);
int cmd_node_resume(struct cli *cli, const struct args *args);
int cmd_job_start(struct cli *cli, const struct args *args);
int cmd_job_list(struct cli *cli, const struct args *args);
int cmd_job_show(struct cli *cli, const struct args *args);
int cmd_job_explain(struct cli *cli, const struct args *args);
int cmd_job_logs(struct cli *cli, const struct args *args);
int cmd_job_wait(struct cli *cli, const struct args *args);
int cmd_job_stop(struct cli *cli, const struct args *args);
int cmd_job_hold(struct cli *cli, const struct args *args);
int cmd_job_release(struct cli *cli, const struct args *args);
int cmd_job_plan(struct cli *cli, const struct args *args);
int cmd_job_delete(struct cli *cli, const struct args *args);
int cmd_data_push(struct cli *cli, const struct args *args);
int cmd_data_list(struct cli *cli, const struct args *args);
int cmd_backup(struct cli *cli, const struct args *args);
int cmd_restore(struct cli *cli, const struct args *args);
int cmd_events(struct cli *cli, const struct args *args);
int cmd_user_add(struct cli *cli, const struct args *args);
int cmd_user_list(struct cli *cli, const struct args *args);
int cmd_user_show(struct cli *cli, const struct args *args);
int cmd_user_set(struct cli *cli, const struct args *args);
int cmd_user_remove(struct cli *cli, const struct args *args);
int cmd_login(struct cli *cli, const struct args *args);
int cmd_logout(struct cli *cli, const struct args *args);
int cmd_audit(struct cli *cli, const struct args *args);
int cmd_token_create(struct cli *cli, const struct args *args);
int cmd_token_list(struct cli *cli, const struct args *args);
int cmd_token_revoke(struct cli *cli, const struct args *args);
int cmd_secret_set(struct cli *cli, const struct args *args);
int cmd_secret_list(struct cli *cli, const struct args *args);
int cmd_secret_remove(struct cli *cli, const struct args *args);
int cmd_key_new(struct cli *cli, const struct args *args);
int cmd_key_register(struct cli *cli, const struct args *args);
int cmd_key_list(struct cli *cli, const struct args *args);
int cmd_key_remove(struct cli *cli, const struct args *args);
int cmd_key_master(struct cli *cli, const struct args *args);
int cmd_key_rotate(struct cli *cli, const struct args *args);
