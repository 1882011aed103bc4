// SPDX-License-Identifier: Apache-2.0
// The master of a local cluster: its port, its start, and what is fetched from it over its unix
// socket, where the caller is an administrator by owning it: the CA, the first token.
#include "cli/up.h"

#include "cli/up_spawn.h"
#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "proto/version.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#define READY_MS 30000
#define TOKEN_TTL "3650d"

int up_daemon_failed(const struct spawn_set *s, const char *name, const struct err *e)
{
    cleanup_free char *what = cli_format("%s did not start", name);
    cleanup_free char *words = spawn_last_words(s, name, 6);
    cleanup_free char *todo = cli_format("see log/%s.log in the cluster's folder", name);
    char *rest = NULL;
    int code = cli_fail(CLI_FAILED, what, e->text, todo);

    for (char *line = strtok_r(words, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        (void)fprintf(stderr, "       | %s\n", line);
    return code;
}

// --- the port ---

static bool port_taken(int port)
{
    int one = 1;
    cleanup_close int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons((uint16_t)port),
                            .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    return bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 && errno == EADDRINUSE;
}

// 0 = any free one. Exit status.
static int choose_port(const struct local *l, const struct up_options *o, int *ret)
{
    int before = (int)json_opt_i64(l->state, "port", 0);
    int wanted = o->port ? o->port : before ? before : MEADOW_DEFAULT_PORT;

    *ret = wanted;
    if (!port_taken(wanted))
        return CLI_OK;
    *ret = 0;
    if (o->port)
        return cli_failf(CLI_FAILED, UP_WHAT, "leave --port out to get a free one",
                         "port %d is taken", wanted);
    if (before && local_agent_lives(l))
        return cli_failf(
            CLI_FAILED, UP_WHAT,
            "free the port, or `meadow down` and `meadow up` to get another one",
            "port %d, where its agents look for the master, is taken by another program", wanted);
    return CLI_OK;
}

// --- starting it ---

// 0, or -errno with *ret_in_use telling that only the port was the matter.
static int start_once(const struct local *l, const char *binary, int port, bool *ret_in_use,
                      int *ret_code)
{
    struct err e = {""};
    struct spawn_set *s = NULL;
    const char *name = "master";

    *ret_in_use = false;
    int r = up_write_master(l, port, &e);
    if (r == 0)
        r = spawn_open(l, &s, &e);
    if (r == 0)
        r = spawn_daemon(s, binary, name, -1, &e);
    if (r == 0)
        r = spawn_wait(s, READY_MS, &name, &e);
    if (r < 0 && s) {
        cleanup_free char *words = spawn_last_words(s, name, 6);
        *ret_in_use = port != 0 && strcasestr(words, "in use") != NULL;
        *ret_code = *ret_in_use ? CLI_FAILED : up_daemon_failed(s, name, &e);
    } else if (r < 0) {
        *ret_code = cli_fail(CLI_FAILED, UP_WHAT, e.text, NULL);
    }
    if (s)
        spawn_free(s);
    return r;
}

int up_start_master(struct cli *cli, struct local *l, const struct up_options *o)
{
    struct err e = {""};
    cleanup_free char *binary = NULL;
    bool in_use;
    int port;

    if (local_daemon(l, "master"))
        return CLI_OK;
    if (spawn_find("meadow-master", &binary, &e) < 0)
        return cli_fail(CLI_FAILED, UP_WHAT, e.text, "build it: make");
    int code = choose_port(l, o, &port);
    if (code != CLI_OK)
        return code;
    cli_progress(cli, "starting the master");
    int r = start_once(l, binary, port, &in_use, &code);
    if (r < 0 && in_use && !o->port) // taken between our look and its bind
        r = start_once(l, binary, 0, &in_use, &code);
    if (r < 0 && in_use)
        return cli_failf(CLI_FAILED, UP_WHAT, "leave --port out to get a free one",
                         "port %d is taken", port);
    return r < 0 ? code : CLI_OK;
}

// --- meeting it ---

static int connect_socket(struct cli *cli, const struct local *l)
{
    struct err e = {""};
    struct api_target t = {.unix_socket = local_path(l, "run/master.sock"),
                           .origin = cli_format("the local cluster in %s", l->dir)};

    t.url = cli_strdup(t.unix_socket);
    api_close(TAKE_PTR(cli->api));
    int r = api_open(&t, &cli->api, &e);
    api_target_free(&t);
    return r < 0 ? cli_fail(CLI_FAILED, UP_WHAT, e.text, NULL) : CLI_OK;
}

static int learn_address(struct cli *cli, struct local *l)
{
    struct err e = {""};
    cleanup_json json_t *cluster = NULL;
    const struct api_request req = {.method = "GET", .path = "/v1/cluster", .patience_ms = 10000};
    int code = cli_request(cli, UP_WHAT, &req, &cluster);

    if (code != CLI_OK)
        return code;
    const char *url = json_opt_str(cluster, "api", "");
    const char *colon = strrchr(url, ':');
    int port = colon ? atoi(colon + 1) : 0;
    if (port <= 0)
        return cli_fail(CLI_FAILED, UP_WHAT, "the master does not say where it listens", NULL);
    cleanup_free char *here = cli_format("https://127.0.0.1:%d", port);
    local_set_api(l, here, port);
    int r = up_write_master(l, port, &e); // with the port it took, for its next start
    if (r == 0)
        r = local_save(l, &e);
    return r < 0 ? cli_fail(CLI_FAILED, UP_WHAT, e.text, NULL) : CLI_OK;
}

static int save_ca(struct cli *cli, const struct local *l)
{
    struct err e = {""};
    struct api_answer answer = {0};
    cleanup_free char *path = local_path(l, "ca.pem");
    const struct api_request req = {.method = "GET", .path = "/v1/ca", .accept = "*/*"};
    int code = CLI_OK;
    int r = api_call(cli->api, &req, &answer, &e);

    if (!cli_good(r, &answer))
        code = cli_report(cli, "can't get the cluster's CA", r, &e, &answer);
    else if (atomic_file_write(path, answer.body, answer.len, 0644, &e) < 0)
        code = cli_fail(CLI_FAILED, "can't save the cluster's CA", e.text, NULL);
    api_answer_free(&answer);
    return code;
}

// Whether the token on disk still opens the door.
static bool token_good(struct cli *cli, const struct local *l)
{
    struct err e = {""};
    struct api_answer answer = {0};
    cleanup_free char *path = local_path(l, "admin.token");
    cleanup_free char *token = NULL;
    size_t len;

    if (atomic_file_read(path, 4096, &token, &len, &e) < 0)
        return false;
    token[strcspn(token, "\r\n")] = '\0';
    cleanup_free char *header = cli_format("Authorization: Bearer %s", token);
    const struct api_request req = {.method = "GET", .path = "/v1/tokens", .headers = {header}};
    int r = api_call(cli->api, &req, &answer, &e);
    bool good = cli_good(r, &answer);
    api_answer_free(&answer);
    return good;
}

static int save_token(struct cli *cli, const struct local *l)
{
    struct err e = {""};
    cleanup_json json_t *answer = NULL;
    cleanup_json json_t *body = cli_need(
        json_pack("{s:s,s:s,s:s}", "name", "local admin", "role", "admin", "ttl", TOKEN_TTL));
    cleanup_free char *path = local_path(l, "admin.token");

    if (token_good(cli, l))
        return CLI_OK;
    int code = cli_send(cli, "can't make the admin's token", "POST", "/v1/tokens", body, &answer);
    if (code != CLI_OK)
        return code;
    cleanup_free char *text = cli_format("%s\n", json_opt_str(answer, "token", ""));
    if (atomic_file_write(path, text, strlen(text), 0600, &e) < 0)
        return cli_fail(CLI_FAILED, "can't save the admin's token", e.text, NULL);
    return CLI_OK;
}

int up_meet_master(struct cli *cli, struct local *l)
{
    int code = connect_socket(cli, l);

    if (code == CLI_OK)
        code = learn_address(cli, l);
    if (code == CLI_OK)
        code = save_ca(cli, l);
    if (code == CLI_OK)
        code = save_token(cli, l);
    return code;
}
