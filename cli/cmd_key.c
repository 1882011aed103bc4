// SPDX-License-Identifier: Apache-2.0
// key new, register, list, remove, master, rotate.
#include "cli/cli.h"
#include "cli/commands.h"
#include "cli/sealed_key.h"
#include "common/cleanup.h"
#include "common/jose/jws.h"
#include "common/json.h"

#include <string.h>

#define RSA_BITS 2048

// The one that is named as the argument, else as elsewhere.
static const char *wanted(const struct cli *cli, const struct args *args)
{
    return args->n_words ? args->words[0] : cli_key_name(cli);
}

static int kind_of(const char *type, enum jwk_kind *ret)
{
    static const struct {
        const char *name;
        enum jwk_kind kind;
    } kinds[] = {{"ec", JWK_EC}, {"ed25519", JWK_OKP}, {"rsa", JWK_RSA}};
    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
        if (strcmp(kinds[i].name, type) == 0) {
            *ret = kinds[i].kind;
            return 0;
        }
    return -EINVAL;
}

int cmd_key_new(struct cli *cli, const struct args *args)
{
    struct err e = {""};
    struct sealed_key k = {0};
    enum jwk_kind kind = JWK_EC;
    const char *type = args_value(args, "type");
    if (type && kind_of(type, &kind) < 0)
        return cli_failf(CLI_USAGE, "key new", "give --type ec, ed25519 or rsa",
                         "--type: there is no kind \"%.40s\"", type);
    int r = sealed_key_name(wanted(cli, args), &k, &e);
    if (r == 0)
        r = jwk_generate(kind, RSA_BITS, &k.key, &e);
    if (r == 0)
        r = jwk_thumbprint(k.key, k.id);
    if (r == 0)
        r = sealed_key_save(&k, &e);
    if (r == 0) {
        cli_progress(cli, "key %s is in %s; `meadow key register %s` makes the master know it",
                     k.name, k.pem_file, k.name);
        (void)printf("%s\n", k.id);
    }
    sealed_key_reset(&k);
    return r < 0 ? cli_fail(CLI_FAILED, "key new", e.text, "give it another NAME") : CLI_OK;
}

// --- register ---

static char *proof(const struct sealed_key *k, const char *user, struct err *e)
{
    char *text = NULL;
    cleanup_json json_t *j = cli_need(json_object());
    json_put_str(j, "cluster", k->cluster);
    json_put_str(j, "user", user);
    cleanup_free char *payload = cli_need(json_text(j));
    return jws_sign(k->key, jws_default_alg(k->key), k->id, payload, strlen(payload), &text, e) < 0
               ? NULL
               : text;
}

// Asks who we are there, signs that, sends it. Exit status.
static int send_registration(struct cli *cli, const struct args *args, struct sealed_key *k,
                             json_t **ret)
{
    struct err e = {""};
    cleanup_json json_t *about = NULL;
    int code = cli_get(cli, "key register", "/v1/keys", &about);
    if (code != CLI_OK)
        return code;
    const char *user = args_value(args, "user");
    user = user ? user : json_opt_str(about, "user", "");
    free(k->cluster);
    k->cluster = cli_strdup(json_opt_str(about, "cluster", ""));
    cleanup_free char *signed_text = proof(k, user, &e);
    if (!signed_text)
        return cli_fail(CLI_FAILED, "key register", e.text, NULL);
    cleanup_json json_t *body = cli_need(json_object());
    json_put(body, "jwk", jwk_public_json(k->key));
    json_put_str(body, "proof", signed_text);
    json_put_str(body, "name", k->name);
    json_put_str(body, "user", user);
    return cli_send(cli, "key register", "POST", "/v1/keys", body, ret);
}

// Fetches the master's key, which must be the one of that thumbprint (NULL = any), and keeps it.
static int pin(struct cli *cli, struct sealed_key *k, const char *thumbprint)
{
    struct err e = {""};
    cleanup_json json_t *master = NULL;
    int code = cli_get(cli, "the master's key", "/v1/keys/master", &master);
    if (code != CLI_OK)
        return code;
    int r = sealed_key_take_master(k, master, thumbprint, &e);
    if (r == 0)
        r = sealed_key_save_registration(k, &e);
    return r < 0 ? cli_fail(CLI_FAILED, "the master's key", e.text, NULL) : CLI_OK;
}

int cmd_key_register(struct cli *cli, const struct args *args)
{
    struct err e = {""};
    struct sealed_key k = {0};
    cleanup_json json_t *answer = NULL;
    if (sealed_key_load(wanted(cli, args), &k, &e) < 0)
        return cli_fail(CLI_FAILED, "key register", e.text, "`meadow key new` makes one");
    int code = send_registration(cli, args, &k, &answer);
    if (code == CLI_OK) {
        free(k.user);
        free(k.url);
        k.user = cli_strdup(json_opt_str(answer, "user", ""));
        k.url = cli_strdup(api_url(cli->api));
        code = pin(cli, &k, json_opt_str(answer, "master_key", ""));
    }
    if (code == CLI_OK && !cli_print_value(cli, answer)) {
        cli_progress(cli, "registered for %s; the master's key, pinned from now on:", k.user);
        (void)printf("%s\n", k.master_id);
    }
    sealed_key_reset(&k);
    return code;
}

// --- what the master knows ---

static void key_row(struct table *t, const json_t *x)
{
    table_cell(t, json_opt_str(x, "id", NULL));
    table_cell(t, json_opt_str(x, "name", NULL));
    table_cell(t, json_opt_str(x, "user", NULL));
    table_cell(t, json_opt_str(x, "alg", NULL));
    table_cell(t, json_opt_str(x, "created_at", NULL));
}

int cmd_key_list(struct cli *cli, const struct args *args)
{
    static const char *const headings[] = {"ID", "NAME", "USER", "ALG", "CREATED", NULL};
    static const struct list_view view = {"id", headings, key_row, false};
    (void)args;
    return cli_list(cli, "key list", "/v1/keys", &view);
}

int cmd_key_remove(struct cli *cli, const struct args *args)
{
    cleanup_free char *path = cli_path("/v1/keys/", args->words[0], "");
    return cli_remove(cli, "key remove", path, args->words[0], " removed");
}

// --- the master's own ---

static int pin_again(struct cli *cli)
{
    struct err e = {""};
    struct sealed_key k = {0};
    int r = sealed_key_load(cli_key_name(cli), &k, &e);
    if (r == 0 && !k.master)
        r = err_set(&e, -EINVAL, "the key %s is not registered", k.name);
    int code = r < 0 ? cli_fail(CLI_FAILED, "key master --pin", e.text, "`meadow key register`")
                     : pin(cli, &k, NULL);
    if (code == CLI_OK)
        (void)printf("%s\n", k.master_id);
    sealed_key_reset(&k);
    return code;
}

static int show_master(const struct cli *cli, const json_t *j)
{
    if (cli_print_value(cli, j))
        return CLI_OK;
    (void)printf("%s\n", json_opt_str(j, "thumbprint", ""));
    const json_t *previous = json_object_get(j, "previous");
    if (json_is_object(previous))
        cli_progress(cli, "still good: %s", json_opt_str(previous, "thumbprint", ""));
    return CLI_OK;
}

int cmd_key_master(struct cli *cli, const struct args *args)
{
    cleanup_json json_t *answer = NULL;
    if (args_has(args, "pin"))
        return pin_again(cli);
    int code = cli_get(cli, "key master", "/v1/keys/master", &answer);
    if (code != CLI_OK)
        return code;
    if (!args_has(args, "pem"))
        return show_master(cli, answer);
    (void)printf("%s", json_opt_str(answer, "pem", ""));
    return CLI_OK;
}

int cmd_key_rotate(struct cli *cli, const struct args *args)
{
    cleanup_json json_t *body = cli_need(json_object());
    cleanup_json json_t *answer = NULL;
    const char *bits = args_value(args, "bits");
    if (bits)
        json_put_i64(body, "bits", strtol(bits, NULL, 10));
    int code = cli_send(cli, "key rotate", "POST", "/v1/keys/master:rotate", body, &answer);
    return code == CLI_OK ? show_master(cli, answer) : code;
}
