// SPDX-License-Identifier: Apache-2.0
// The table itself, with each command's options.
#include "cli/command.h"

#include "cli/commands.h"

#include <string.h>

static const struct option_spec up_options[] = {
    {"nodes", 0, "N", "how many nodes (default 1; more than before adds)"},
    {"runtime", 0, "process|docker", "what runs tasks (default process)"},
    {"cpu", 0, "C", "cores of each node (default: the machine's)"},
    {"memory", 0, "M", "memory of each node, as 16g (default: the machine's)"},
    {"gpu", 0, "G", "GPUs of each node (default: the machine's)"},
    {"port", 0, "P", "port of the API (default 7420, or a free one)"},
    {"parallel-level", 0, "N",
     "so many jobs run at once at most (0: any number); from the master's start on"},
    {"docker-socket", 0, "PATH", "socket of the container engine"},
    {0},
};
static const struct option_spec down_options[] = {
    {"purge", 0, NULL, "delete its state as well"},
    {0},
};
static const struct option_spec job_start_options[] = {
    {"name", 0, "X", "the job's name, over that of the file"},
    {"set", 0, "K=V", "sets a field, as components.actor.num=4; repeatable"},
    {"follow", 'f', NULL, "print its logs until it is over, then exit as `job wait`"},
    {0},
};
static const struct option_spec job_plan_options[] = {
    {"name", 0, "X", "the job's name, over that of the file"},
    {"set", 0, "K=V", "sets a field, as components.actor.num=4; repeatable"},
    {0},
};
static const struct option_spec job_list_options[] = {
    {"all", 'a', NULL, "jobs that are over as well"},
    {"user", 0, "U", "only this user's"},
    {"state", 0, "S", "only jobs in this state"},
    {"array", 0, "J", "the elements of this array"},
    {"limit", 0, "N", "at most N (default: all)"},
    {0},
};
static const struct option_spec job_logs_options[] = {
    {"follow", 'f', NULL, "go on until the job is over"},
    {"component", 0, "C", "only this component"},
    {"index", 0, "I", "only the task with this index"},
    {"stream", 0, "stdout|stderr", "only this stream"},
    {"tail", 0, "N", "only the last N lines of each task"},
    {"timestamps", 0, NULL, "the time of each line"},
    {0},
};
static const struct option_spec events_options[] = {
    {"follow", 'f', NULL, "go on as they happen"},
    {"job", 0, "J", "only this job's"},
    {"after", 0, "ID", "only those after this event"},
    {"limit", 0, "N", "the last N (default 50)"},
    {0},
};
static const struct option_spec token_create_options[] = {
    {"role", 0, "R", "viewer, user (default), operator or admin"},
    {"user", 0, "U", "whose token it is (default: yours)"},
    {"ttl", 0, "D", "how long it is good, as 30d"},
    {0},
};

static const struct option_spec user_options[] = {
    {"role", 0, "R", "viewer, user (default), operator or admin"},
    {"rights", 0, "LIST", "of exec and data-write, or none (default: both from user on)"},
    {"team", 0, "T", "team, or none"},
    {"uid", 0, "N", "whose tasks run on the nodes: uid, or none"},
    {"gid", 0, "N", "the gid, or none"},
    {"weight", 0, "N", "of the share of the cluster (default 1)"},
    {"quota", 0, "Q", "cpu=8,memory=16g,gpu=2,jobs=5,tasks=50, any of them; or none"},
    {"disable", 0, NULL, "lock out; all tokens end"},
    {"enable", 0, NULL, "let in again (with new tokens)"},
    {0},
};
static const struct option_spec team_options[] = {
    {"weight", 0, "N", "of the share of the cluster (default 1)"},
    {"quota", 0, "Q", "of all its users together: cpu=8,memory=16g,gpu=2,jobs=5,tasks=50; or none"},
    {0},
};
static const struct option_spec login_options[] = {
    {"fingerprint", 0, "SHA256", "of the cluster's CA, as `meadow token create` prints it"},
    {0},
};
static const struct option_spec audit_options[] = {
    {"follow", 'f', NULL, "go on as it happens"},
    {"limit", 0, "N", "the last N (default 50)"},
    {"user", 0, "U", "only this user's"},
    {"after", 0, "N", "only those after this entry"},
    {0},
};
static const struct option_spec secret_set_options[] = {
    {"file", 0, "FILE", "where the value is (default: standard input)"},
    {0},
};
static const struct option_spec secret_remove_options[] = {
    {"user", 0, "U", "whose (admins; default: yours)"},
    {0},
};
static const struct option_spec key_new_options[] = {
    {"type", 0, "ec|ed25519|rsa", "what kind (default ec: P-256)"},
    {0},
};
static const struct option_spec key_user_options[] = {
    {"user", 0, "U", "whose key it is (admins; default: yours)"},
    {0},
};
static const struct option_spec key_master_options[] = {
    {"pem", 0, NULL, "the public key itself"},
    {"pin", 0, NULL, "trust it from now on, with the key of --key"},
    {0},
};
static const struct option_spec key_rotate_options[] = {
    {"bits", 0, "2048|3072", "its size (default 2048)"},
    {0},
};

static const struct option_spec join_options[] = {
    {"uses", 0, "U", "how many machines may use it (default 10)"},
    {"ttl", 0, "D", "how long it is good (default 1h)"},
    {"approved", 0, NULL, "the machines get work at once, without `meadow node approve`"},
    {0},
};
static const struct option_spec restore_options[] = {
    {"config", 0, "FILE", "the master's (default: of --dir, else /etc/meadow/master.yml)"},
    {0},
};
static const struct option_spec drain_options[] = {
    {"deadline", 0, "D", "stop and move what still runs after that time; none: let it finish"},
    {"reason", 0, "R", "why, for those who look"},
    {"off", 0, NULL, "it is unreachable and really off: move what it ran at once"},
    {0},
};

const struct command command_table[] = {
    {"up", NULL, "", "start (or repair) a whole cluster on this machine", up_options, 0, 0, cmd_up},
    {"down", NULL, "", "stop it, tasks included", down_options, 0, 0, cmd_down},
    {"status", NULL, "", "the cluster at a glance", NULL, 0, 0, cmd_status},

    {"node", "list", "", "the nodes", NULL, 0, 0, cmd_node_list},
    {"node", "show", "NODE", "one node, with its hardware", NULL, 1, 1, cmd_node_show},
    {"node", "join-command", "", "the line that makes a machine a node", join_options, 0, 0,
     cmd_node_join_command},
    {"node", "approve", "NODE", "let a machine that has joined get work", NULL, 1, -1,
     cmd_node_approve},
    {"node", "replace", "NODE", "let a re-installed machine take the name, within an hour", NULL, 1,
     1, cmd_node_replace},
    {"node", "drain", "NODE", "give it no new work; what runs there may finish", drain_options, 1,
     1, cmd_node_drain},
    {"node", "resume", "NODE", "give it work again", NULL, 1, -1, cmd_node_resume},
    {"node", "stop-orphans", "NODE", "end its tasks of jobs that the master does not know", NULL, 1,
     -1, cmd_node_stop_orphans},
    {"node", "remove", "NODE", "stop its work and revoke its certificate", NULL, 1, -1,
     cmd_node_remove},
    {"node", "label", "NODE K=V", "set labels; K- takes one away", NULL, 2, -1, cmd_node_label},
    {"node", "usage", "NODE", "", NULL, 0, -1, NULL},

    {"job", "start", "FILE", "submit a job file (- is standard input)", job_start_options, 1, 1,
     cmd_job_start},
    {"job", "list", "", "the jobs that are not over", job_list_options, 0, 0, cmd_job_list},
    {"job", "show", "JOB", "one job, with its tasks", NULL, 1, 1, cmd_job_show},
    {"job", "explain", "JOB", "why it waits", NULL, 1, 1, cmd_job_explain},
    {"job", "logs", "JOB", "what its tasks wrote", job_logs_options, 1, 1, cmd_job_logs},
    {"job", "wait", "JOB", "until it is over; exits 0 when it succeeded", NULL, 1, 1, cmd_job_wait},
    {"job", "hold", "JOB", "keep its waiting tasks from starting", NULL, 1, -1, cmd_job_hold},
    {"job", "release", "JOB", "let a held job go on", NULL, 1, -1, cmd_job_release},
    {"job", "plan", "FILE", "what would become of it if it were started now", job_plan_options, 1,
     1, cmd_job_plan},
    {"job", "stop", "JOB", "stop it", NULL, 1, -1, cmd_job_stop},
    {"job", "delete", "JOB", "forget a job that is over, with its logs", NULL, 1, -1,
     cmd_job_delete},
    {"job", "scale", "JOB C=N", "", NULL, 0, -1, NULL},
    {"job", "restart", "JOB", "", NULL, 0, -1, NULL},

    {"data", "push", "SRC [DST]", "copy a file or folder into the shared data", NULL, 1, 2,
     cmd_data_push},
    {"data", "list", "[PATH]", "the files of the shared data", NULL, 0, 1, cmd_data_list},
    {"data", "pull", "SRC [DST]", "", NULL, 0, -1, NULL},

    {"events", NULL, "", "what happened", events_options, 0, 0, cmd_events},
    {"token", "create", "NAME", "make an access token; it is shown once", token_create_options, 1,
     1, cmd_token_create},
    {"token", "list", "", "the tokens, without their secrets", NULL, 0, 0, cmd_token_list},
    {"token", "revoke", "ID", "end a token", NULL, 1, 1, cmd_token_revoke},
    {"backup", NULL, "[FILE]", "store and keys of the cluster in one file", NULL, 0, 1, cmd_backup},
    {"restore", NULL, "FILE", "lay a backup into the place of a lost master", restore_options, 1, 1,
     cmd_restore},
    {"user", "add", "NAME", "add a user", user_options, 1, 1, cmd_user_add},
    {"user", "list", "", "the users", NULL, 0, 0, cmd_user_list},
    {"user", "show", "NAME", "one user", NULL, 1, 1, cmd_user_show},
    {"user", "set", "NAME", "change role, rights, team, mapping, or lock out", user_options, 1, 1,
     cmd_user_set},
    {"user", "remove", "NAME", "remove a user, with all tokens and keys", NULL, 1, 1,
     cmd_user_remove},
    {"team", "list", "", "the teams that users belong to, with weights and quotas", NULL, 0, 0,
     cmd_team_list},
    {"team", "show", "NAME", "one team", NULL, 1, 1, cmd_team_show},
    {"team", "set", "NAME", "weight and quota of a team", team_options, 1, 1, cmd_team_set},
    {"team", "reset", "NAME", "back to weight 1 and no quota", NULL, 1, 1, cmd_team_reset},
    {"login", NULL, "URL", "keep a token for a master; it is read from standard input",
     login_options, 1, 1, cmd_login},
    {"logout", NULL, "", "revoke and forget the token of the current context", NULL, 0, 0,
     cmd_logout},
    {"audit", NULL, "", "who changed what, and who was refused what", audit_options, 0, 0,
     cmd_audit},
    {"secret", "set", "NAME", "store a value that jobs can name; from --file or standard input",
     secret_set_options, 1, 1, cmd_secret_set},
    {"secret", "list", "", "your secrets, without their values", NULL, 0, 0, cmd_secret_list},
    {"secret", "remove", "NAME", "forget a secret", secret_remove_options, 1, 1, cmd_secret_remove},
    {"key", "new", "[NAME]", "make a key for sealed requests", key_new_options, 0, 1, cmd_key_new},
    {"key", "register", "[NAME]", "make the master know it, and pin the master's", key_user_options,
     0, 1, cmd_key_register},
    {"key", "list", "", "the keys that the master knows", NULL, 0, 0, cmd_key_list},
    {"key", "remove", "ID", "end a key", NULL, 1, 1, cmd_key_remove},
    {"key", "master", "", "the master's key, its thumbprint first", key_master_options, 0, 0,
     cmd_key_master},
    {"key", "rotate", "", "give the master a new key", key_rotate_options, 0, 0, cmd_key_rotate},
    {"dashboard", NULL, "", "print the address of the API", NULL, 0, 0, cmd_dashboard},
    {"version", NULL, "", "of this command and of the master", NULL, 0, 0, cmd_version},
    {"help", NULL, "[COMMAND]", "this text, or help on a command", NULL, 0, 2, cmd_help},

    {"schedule", NULL, "", "", NULL, 0, -1, NULL},
    {"image", NULL, "", "", NULL, 0, -1, NULL},
    {"exec", NULL, "", "", NULL, 0, -1, NULL},
    {"top", NULL, "", "", NULL, 0, -1, NULL},
    {"template", NULL, "", "", NULL, 0, -1, NULL},
    {0},
};

bool command_has_subs(const char *verb)
{
    for (const struct command *c = command_table; c->verb; c++)
        if (c->sub && strcmp(c->verb, verb) == 0)
            return true;
    return false;
}

const struct command *command_find(const char *verb, const char *sub)
{
    for (const struct command *c = command_table; c->verb; c++)
        if (strcmp(c->verb, verb) == 0 && (!c->sub || (sub && strcmp(c->sub, sub) == 0)))
            return c;
    return NULL;
}
