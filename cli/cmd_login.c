// SPDX-License-Identifier: Apache-2.0
// login, logout. Login learns the cluster's CA from the master, trusts it only by its fingerprint
// (given, or confirmed by who sits there), checks the token, and keeps both as a context. The token
// comes from standard input, never from the command line.
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/context.h"
#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "common/pki.h"

#include <string.h>
#include <strings.h>
#include <termios.h>
#include <unistd.h>

#define WHAT "can't log in"
#define LINE_BYTES 512

// --- asking ---

// A line of standard input without its end; echo off for secrets. Caller frees and wipes.
static char *ask(const char *prompt, bool secret)
{
    char line[LINE_BYTES];
    struct termios before, quiet;
    bool terminal = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;

    if (terminal) {
        (void)fputs(prompt, stderr);
        quiet = before;
        if (secret)
            quiet.c_lflag &= ~(tcflag_t)ECHO;
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
    }
    char *got = fgets(line, sizeof(line), stdin);
    if (terminal) {
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
        if (secret)
            (void)fputc('\n', stderr);
    }
    if (!got)
        return NULL;
    line[strcspn(line, "\r\n")] = '\0';
    char *copy = cli_strdup(line);
    explicit_bzero(line, sizeof(line));
    return copy;
}

static void wipe(char **text)
{
    if (*text)
        explicit_bzero(*text, strlen(*text));
    free(*text);
}
#define cleanup_secret __attribute__((__cleanup__(wipe)))

// --- the CA ---

static int fetch_ca(const char *url, char **ret_pem, struct err *e)
{
    struct api *a = NULL;
    struct api_answer answer = {0};
    struct api_target t = {.url = (char *)url, .origin = (char *)url, .no_verify = true};
    const struct api_request req = {.method = "GET", .path = "/v1/ca", .accept = "*/*"};
    int r = api_open(&t, &a, e);
    if (r == 0)
        r = api_call(a, &req, &answer, e);
    if (r == 0 && answer.status != 200)
        r = err_set(e, -EPROTO, "%s does not answer as a master does (status %d)", url,
                    answer.status);
    if (r == 0)
        *ret_pem = cli_strdup(answer.body);
    api_answer_free(&answer);
    api_close(a);
    return r;
}

// "SHA256:AB:CD..." or "abcd..." as 64 lower-case digits.
static void plain_hex(const char *text, char out[65])
{
    size_t n = 0;
    if (strncasecmp(text, "sha256:", 7) == 0)
        text += 7;
    for (; *text && n < 64; text++)
        if (*text != ':')
            out[n++] = (char)(*text >= 'A' && *text <= 'F' ? *text + 32 : *text);
    out[n] = '\0';
}

static int confirm(const char *url, const char *found)
{
    if (!isatty(STDIN_FILENO))
        return cli_fail(CLI_USAGE, WHAT, "the cluster's CA is not known here",
                        "give --fingerprint (`meadow token create` prints it) or --ca");
    (void)fprintf(stderr,
                  "The master at %s shows a CA with the fingerprint\n  %s\nCompare it with what "
                  "`meadow token create` printed.\n",
                  url, found);
    cleanup_free char *answer = ask("Is it the same (yes/no)? ", false);
    return answer && strcasecmp(answer, "yes") == 0
               ? CLI_OK
               : cli_fail(CLI_FAILED, WHAT, "the CA was not confirmed; nothing was sent", NULL);
}

static int learn_ca(const struct args *args, const char *url, char **ret_pem)
{
    struct err e = {""};
    char found[65], wanted[65];
    size_t len;
    const char *given = args_value(args, "fingerprint");
    const char *file = args_value(args, "ca");
    int r = file ? atomic_file_read(file, 1u << 20, ret_pem, &len, &e) : fetch_ca(url, ret_pem, &e);

    if (r == 0)
        r = pki_cert_fingerprint(*ret_pem, found, &e);
    if (r < 0)
        return cli_fail(file || r == -EPROTO ? CLI_FAILED : CLI_UNREACHABLE, WHAT, e.text, NULL);
    if (!given)
        return file ? CLI_OK : confirm(url, found);
    plain_hex(given, wanted);
    if (strcmp(found, wanted) == 0)
        return CLI_OK;
    return cli_failf(CLI_FAILED, WHAT, "look at the fingerprint on the master again",
                     "the CA of %s has the fingerprint %s, not the one given; nothing was sent",
                     url, found);
}

// --- the context ---

static char *context_name(const struct args *args, const char *url)
{
    const char *name = args_value(args, "context");
    const char *host = strncmp(url, "https://", 8) == 0 ? url + 8 : url;
    return name ? cli_strdup(name) : cli_format("%.*s", (int)strcspn(host, "/"), host);
}

static int keep(const char *name, const char *url, const char *token, const char *ca)
{
    struct err e = {""};
    cleanup_json json_t *all = NULL;
    cleanup_free char *file = context_file();
    int r = file ? context_load(file, &all, &e) : err_set(&e, -ENOENT, "HOME is not set");
    if (r == 0) {
        json_put(json_object_get(all, "contexts"), name,
                 json_pack("{s:s,s:s,s:s}", "master", url, "token", token, "ca_pem", ca));
        json_put_str(all, "current", name);
        r = context_save(file, all, &e);
    }
    return r < 0 ? cli_fail(CLI_FAILED, WHAT, e.text, NULL) : CLI_OK;
}

static int check(struct cli *cli, const char *url, const char *token, const char *ca,
                 json_t **ret_who)
{
    struct err e = {""};
    struct api_target t = {
        .url = (char *)url, .token = (char *)token, .ca_pem = (char *)ca, .origin = (char *)url};
    api_close(TAKE_PTR(cli->api));
    int r = api_open(&t, &cli->api, &e);
    return r < 0 ? cli_fail(CLI_FAILED, WHAT, e.text, NULL)
                 : cli_get(cli, WHAT, "/v1/whoami", ret_who);
}

int cmd_login(struct cli *cli, const struct args *args)
{
    cleanup_json json_t *who = NULL;
    cleanup_free char *ca = NULL;
    cleanup_free char *url = cli_strdup(args->words[0]);
    cleanup_secret char *token = NULL;
    size_t len = strlen(url);

    if (strncmp(url, "https://", 8) != 0 || len < 9)
        return cli_usage(args, "expected https://HOST:PORT");
    if (args_has(args, "token"))
        return cli_usage(args, "the token is read from standard input, where nobody sees it");
    while (url[len - 1] == '/')
        url[--len] = '\0';
    int code = learn_ca(args, url, &ca);
    if (code != CLI_OK)
        return code;
    token = ask("Token: ", true);
    if (!token || !token[0])
        return cli_fail(CLI_USAGE, WHAT, "no token was given",
                        "give it on standard input; `meadow token create` makes one");
    code = check(cli, url, token, ca, &who);
    cleanup_free char *name = context_name(args, url);
    if (code == CLI_OK)
        code = keep(name, url, token, ca);
    if (code != CLI_OK || cli_print_value(cli, who))
        return code;
    (void)printf("logged in to %s as %s, role %s (context %s)\n", url,
                 json_opt_str(who, "user", "?"), json_opt_str(who, "role", "?"), name);
    return CLI_OK;
}

// The token ends on the master as well, unless it can't be reached: then it is only forgotten.
static void end_token(const json_t *x)
{
    struct api *a = NULL;
    struct err e = {""};
    // Of the context alone: options and environment may name another token.
    struct api_target t = {.url = (char *)json_opt_str(x, "master", ""),
                           .token = (char *)json_opt_str(x, "token", ""),
                           .ca_pem = (char *)json_opt_str(x, "ca_pem", "")};
    struct api_answer answer = {0};
    const struct api_request who = {.method = "GET", .path = "/v1/whoami"};
    if (api_open(&t, &a, &e) < 0)
        return;
    int r = api_call(a, &who, &answer, &e);
    cleanup_json json_t *j = cli_good(r, &answer) ? json_loads(answer.body, 0, NULL) : NULL;
    const char *id = json_opt_str(json_object_get(j, "token"), "id", NULL);
    api_answer_free(&answer);
    answer = (struct api_answer){0};
    cleanup_free char *path = cli_path("/v1/tokens/", id ? id : "none", "");
    const struct api_request end = {.method = "DELETE", .path = path};
    if (id)
        r = api_call(a, &end, &answer, &e);
    if (!id || !cli_good(r, &answer))
        (void)fputs("meadow: the token is forgotten here, but the master could not be told to "
                    "revoke it: `meadow token revoke` does that\n",
                    stderr);
    api_answer_free(&answer);
    api_close(a);
}

int cmd_logout(struct cli *cli, const struct args *args)
{
    struct err e = {""};
    cleanup_json json_t *all = NULL;
    cleanup_free char *file = context_file();
    if (context_load(file, &all, &e) < 0)
        return cli_fail(CLI_FAILED, "can't log out", e.text, NULL);
    json_t *contexts = json_object_get(all, "contexts");
    const char *given = args_value(args, "context");
    cleanup_free char *name = cli_strdup(given ? given : json_opt_str(all, "current", ""));
    const json_t *x = json_object_get(contexts, name);
    if (!x || !json_object_get(x, "ca_pem"))
        return cli_failf(CLI_FAILED, "can't log out", NULL,
                         "\"%s\" is no context that `meadow login` made", name);
    end_token(x);
    (void)json_object_del(contexts, name);
    if (strcmp(json_opt_str(all, "current", ""), name) == 0)
        json_put_str(all, "current", NULL);
    if (context_save(file, all, &e) < 0)
        return cli_fail(CLI_FAILED, "can't log out", e.text, NULL);
    (void)printf("%s%s\n", name, cli->quiet ? "" : ": logged out");
    return CLI_OK;
}
