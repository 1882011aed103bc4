// SPDX-License-Identifier: Apache-2.0
// secret set, list, remove. A value comes from a file or from standard input, never from the
// command line, where everybody on the machine would see it.
#include "cli/cli.h"
#include "cli/commands.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "proto/attempt_secret.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#define ROOM (SECRET_MAX_BYTES + 1)

// From a terminal: one line, not shown.
static size_t read_terminal(char *out)
{
    struct termios before, quiet;
    bool known = tcgetattr(STDIN_FILENO, &before) == 0;
    if (known) {
        quiet = before;
        quiet.c_lflag &= ~(tcflag_t)ECHO;
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &quiet);
    }
    (void)fprintf(stderr, "value (one line, not shown): ");
    if (!fgets(out, ROOM, stdin))
        out[0] = '\0';
    (void)fprintf(stderr, "\n");
    if (known)
        (void)tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
    return strcspn(out, "\n");
}

// Up to ROOM bytes; -1 = can't be read.
static ssize_t read_value(const char *path, char *out)
{
    bool given = path && strcmp(path, "-") != 0;
    if (!given && isatty(STDIN_FILENO))
        return (ssize_t)read_terminal(out);
    FILE *f = given ? fopen(path, "re") : stdin;
    if (!f)
        return -1;
    size_t n = fread(out, 1, ROOM, f);
    bool bad = ferror(f);
    if (given)
        (void)fclose(f);
    return bad ? -1 : (ssize_t)n;
}

static int send(struct cli *cli, const char *name, const char *value, size_t len)
{
    cleanup_json json_t *answer = NULL;
    cleanup_json json_t *body = cli_need(json_object());
    cleanup_free char *path = cli_path("/v1/secrets/", name, "");
    char *coded = cli_need(secret_encode(value, len));
    json_put_str(body, "base64", coded);
    OPENSSL_cleanse(coded, strlen(coded));
    free(coded);
    int code = cli_send(cli, "secret set", "PUT", path, body, &answer);
    if (code != CLI_OK || cli_print_value(cli, answer))
        return code;
    if (cli->quiet)
        (void)printf("%s\n", name);
    else
        (void)printf("secret %s is set (version %lld)\n", name,
                     (long long)json_opt_i64(answer, "version", 0));
    return CLI_OK;
}

int cmd_secret_set(struct cli *cli, const struct args *args)
{
    const char *file = args_value(args, "file");
    char *value = cli_need(malloc(ROOM));
    ssize_t n = read_value(file, value);
    int code = CLI_FAILED;

    if (n < 0)
        (void)fprintf(stderr, "secret set: %s can't be read: %s\n", file ? file : "standard input",
                      strerror(errno));
    else if (n == ROOM)
        (void)fprintf(stderr, "secret set: the value is longer than %d bytes\n", SECRET_MAX_BYTES);
    else
        code = send(cli, args->words[0], value, (size_t)n);
    OPENSSL_cleanse(value, ROOM);
    free(value);
    return code;
}

static void secret_row(struct table *t, const json_t *x)
{
    table_cell(t, json_opt_str(x, "name", NULL));
    table_cell(t, json_opt_str(x, "user", NULL));
    table_cellf(t, "%lld", (long long)json_opt_i64(x, "version", 0));
    table_cell(t, json_opt_str(x, "created_at", NULL));
    table_cell(t, json_opt_str(x, "changed_at", NULL));
}

int cmd_secret_list(struct cli *cli, const struct args *args)
{
    static const char *const headings[] = {"NAME", "USER", "VERSION", "CREATED", "CHANGED", NULL};
    static const struct list_view view = {"name", headings, secret_row, false};
    (void)args;
    return cli_list(cli, "secret list", "/v1/secrets", &view);
}

int cmd_secret_remove(struct cli *cli, const struct args *args)
{
    cleanup_free char *user =
        args_has(args, "user") ? cli_path("?user=", args_value(args, "user"), "") : NULL;
    cleanup_free char *path = cli_path("/v1/secrets/", args->words[0], user ? user : "");
    return cli_remove(cli, "secret remove", path, args->words[0], " removed");
}
