// SPDX-License-Identifier: Apache-2.0
// Setting up from the global options, the way to the master, and failing in three lines.
#include "cli/cli.h"

#include "cli/api_sealed.h"
#include "cli/command.h"
#include "cli/context.h"
#include "common/cleanup.h"
#include "common/json.h"

#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

// --- memory and text ---

void *cli_need(void *memory)
{
    if (memory)
        return memory;
    (void)fputs("meadow: out of memory\n", stderr);
    exit(CLI_FAILED);
}

char *cli_strdup(const char *text)
{
    return cli_need(strdup(text));
}

char *cli_format(const char *fmt, ...)
{
    char *out = NULL;
    va_list ap;
    va_start(ap, fmt);
    int r = vasprintf(&out, fmt, ap);
    va_end(ap);
    return cli_need(r < 0 ? NULL : out);
}

char *cli_path(const char *prefix, const char *name, const char *suffix)
{
    struct strbuf b = {0};
    strbuf_puts(&b, prefix);
    api_encode(&b, name, false);
    strbuf_puts(&b, suffix);
    return cli_need(strbuf_take(&b));
}

// --- setting up ---

static bool want_color(const struct args *args)
{
    const char *no = getenv("NO_COLOR");
    const char *term = getenv("TERM");
    return !args_has(args, "no-color") && !(no && no[0]) && term && strcmp(term, "dumb") != 0 &&
           isatty(STDOUT_FILENO);
}

int cli_setup(struct cli *cli, const struct args *args)
{
    const char *format = args_value(args, "output");

    *cli = (struct cli){.args = args, .quiet = args_has(args, "quiet"), .color = want_color(args)};
    cli->progress = !cli->quiet && isatty(STDERR_FILENO);
    if (format && output_format_from_string(format, &cli->format) < 0)
        return cli_failf(CLI_USAGE, "options", "give -o table, -o json or -o yaml",
                         "--output: there is no format \"%.40s\"", format);
    return CLI_OK;
}

void cli_close(struct cli *cli)
{
    api_close(TAKE_PTR(cli->api));
}

static const char *filled(const char *text)
{
    return text && text[0] ? text : NULL;
}

const char *cli_key_name(const struct cli *cli)
{
    const char *name = args_value(cli->args, "key");
    name = name ? name : filled(getenv("MEADOW_KEY"));
    return name ? name : SEALED_KEY_DEFAULT;
}

static int open_sealed(struct cli *cli, const struct context_choice *c, bool *ret_resolved,
                       struct err *e)
{
    struct api_target t = {0};
    struct sealed_key key = {0};
    struct api_sealed *sealed = NULL;
    int r = sealed_key_load(cli_key_name(cli), &key, e);
    if (r == 0 && !key.master)
        r = err_set(e, -EINVAL, "the key %s is not registered", key.name);
    *ret_resolved = r != -ENOENT;
    if (r == 0)
        r = sealed_key_target(&key, c, &t, e);
    if (r == 0)
        r = api_sealed_open(&key, &sealed, e);
    if (r == 0)
        r = api_open(&t, &cli->api, e);
    if (r == 0)
        api_use_sealed(cli->api, TAKE_PTR(sealed));
    api_sealed_close(sealed);
    sealed_key_reset(&key);
    api_target_free(&t);
    return r;
}

// 0 or -errno; *ret_resolved tells whether a master was named.
static int open_api(struct cli *cli, bool *ret_resolved, struct err *e)
{
    struct api_target t = {0};
    const struct args *a = cli->args;
    const struct context_choice c = {.dir = args_value(a, "dir"),
                                     .master = args_value(a, "master"),
                                     .token = args_value(a, "token"),
                                     .ca = args_value(a, "ca"),
                                     .context = args_value(a, "context"),
                                     .env_dir = filled(getenv("MEADOW_DIR")),
                                     .env_master = filled(getenv("MEADOW_MASTER")),
                                     .env_token = filled(getenv("MEADOW_TOKEN")),
                                     .env_ca = filled(getenv("MEADOW_CA"))};

    *ret_resolved = true;
    if (cli->api)
        return 0;
    if (args_has(a, "sealed") || filled(getenv("MEADOW_SEALED")))
        return open_sealed(cli, &c, ret_resolved, e);
    int r = context_resolve(&c, &t, e);
    *ret_resolved = r == 0;
    if (r == 0)
        r = api_open(&t, &cli->api, e);
    api_target_free(&t);
    return r;
}

int cli_api_quiet(struct cli *cli, struct api **ret)
{
    bool resolved;
    int r = open_api(cli, &resolved, NULL);
    *ret = cli->api;
    return r;
}

int cli_api(struct cli *cli, struct api **ret)
{
    struct err e = {""};
    bool resolved;
    int r = open_api(cli, &resolved, &e);

    *ret = cli->api;
    if (r == 0)
        return CLI_OK;
    if (resolved)
        return cli_fail(CLI_FAILED, "can't speak to the master", e.text, NULL);
    return cli_fail(r == -EINVAL ? CLI_USAGE : CLI_UNREACHABLE, "can't find the master", e.text,
                    args_has(cli->args, "sealed")
                        ? "`meadow key new` and `meadow key register` first"
                    : r == -ENOENT ? "`meadow up` starts a cluster on this machine"
                                   : "see `meadow help` on --dir, --master, --context");
}

// --- saying what happened ---

int cli_fail(int code, const char *what, const char *why, const char *todo)
{
    cleanup_strbuf struct strbuf b = {0};

    (void)fflush(stdout);
    strbuf_puts(&b, "meadow: ");
    output_safe(&b, what);
    if (why && why[0]) {
        strbuf_puts(&b, "\n  why: ");
        output_safe(&b, why);
    }
    if (todo) {
        strbuf_puts(&b, "\n  try: ");
        output_safe(&b, todo);
    }
    strbuf_puts(&b, "\n");
    (void)fputs(b.data ? b.data : "meadow: out of memory\n", stderr);
    return code;
}

int cli_failf(int code, const char *what, const char *todo, const char *fmt, ...)
{
    struct err e = {""};
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(e.text, sizeof(e.text), fmt, ap);
    va_end(ap);
    return cli_fail(code, what, e.text, todo);
}

int cli_usage(const struct args *args, const char *why)
{
    const struct command *c = args->command;
    cleanup_free char *todo =
        !c ? cli_strdup("`meadow help` lists the commands")
           : cli_format("meadow %s%s%s%s%s%s; `meadow help %s%s%s` tells more", c->verb,
                        c->sub ? " " : "", c->sub ? c->sub : "", c->args[0] ? " " : "", c->args,
                        c->options ? " [options]" : "", c->verb, c->sub ? " " : "",
                        c->sub ? c->sub : "");
    return cli_fail(CLI_USAGE, "wrong usage", why, todo);
}

void cli_progress(const struct cli *cli, const char *fmt, ...)
{
    va_list ap;
    if (!cli->progress)
        return;
    va_start(ap, fmt);
    (void)vfprintf(stderr, fmt, ap);
    va_end(ap);
    (void)fputc('\n', stderr);
}

int cli_output_gone(void)
{
    (void)signal(SIGPIPE, SIG_DFL);
    (void)raise(SIGPIPE);
    return CLI_FAILED;
}

int cli_finish(int code)
{
    errno = 0;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    if (errno == EPIPE || errno == 0) // 0: an earlier write failed, which was told or was EPIPE
        return cli_output_gone();
    return cli_fail(CLI_FAILED, "can't write the output", strerror(errno), NULL);
}
