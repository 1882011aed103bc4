// SPDX-License-Identifier: Apache-2.0
// What the audit's lines say, and how repeated offences become one line: the first is written at
// once, the others of the same kind are counted until the minute is over.
#include "master/api/audit.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/text.h"
#include "master/api/audit_file.h"

#include <stdlib.h>
#include <string.h>
#include <utlist.h>

#define FILE_BYTES ((size_t)16 * 1024 * 1024)
#define FILES 10
#define AGGREGATE_MS INT64_C(60000)
#define OFFENCES_MAX 1000 // kinds counted apart; the rest share one
#define TEXT_MAX 200      // of a path or reason
#define KEY_BYTES 256

struct offence {
    char key[KEY_BYTES];
    json_t *line; // the first, as a model for the count
    int64_t repeats, due_ms;
    UT_hash_handle hh; // insertion order = due order
};

struct audit {
    struct audit_file *file;
    char *folder;
    unsigned files;
    int64_t aggregate_ms, last_number;
    struct offence *offences;
    struct audit_watch *watches, *watch_next;
    uv_timer_t timer; // earliest offence's due
};

// --- text ---

void audit_mask(char *text)
{
    static const char *const prefixes[] = {"mtok_", "mjoin_"};
    for (size_t i = 0; i < ARRAY_SIZE(prefixes); i++)
        for (char *at = text; (at = strstr(at, prefixes[i]));) {
            at += strlen(prefixes[i]);
            at += strnlen(at, ID_CHARS + 1); // the id is no secret, nor a fingerprint's beginning
            while ((*at >= 'a' && *at <= 'z') || (*at >= '0' && *at <= '9') || *at == '_' ||
                   (*at >= 'A' && *at <= 'Z'))
                *at++ = '*';
        }
}

static void put_text(json_t *j, const char *key, const char *text)
{
    char copy[TEXT_MAX + 1];
    if (!text || !text[0])
        return;
    (void)snprintf(copy, sizeof(copy), "%s", text);
    text_make_utf8(copy);
    audit_mask(copy);
    json_put_str(j, key, copy);
}

static void put_who(json_t *j, const struct call *call)
{
    const struct principal *who = &call->who;
    const struct http_peer *peer = http_request_peer(call->req);
    put_text(j, "user", who->user);
    if (who->role != ROLE_OPEN)
        json_put_str(j, "role", role_to_string(who->role));
    put_text(j, "token", who->token_id);
    put_text(j, "key", who->key_id);
    if (who->sealed)
        json_put_bool(j, "sealed", true);
    if (who->node)
        json_put_str(j, "node", who->node->name);
    if (peer->local)
        json_put_i64(j, "uid", (json_int_t)peer->uid);
    else
        json_put_str(j, "address", peer->address);
}

static const char *object_of(const struct call *call, const json_t *answer)
{
    const char *id = json_opt_str(answer, "id", NULL);
    if (!id)
        id = json_opt_str(answer, "name", NULL);
    return id ? id : call->params[0];
}

static json_t *line_new(const struct call *call, int status, const json_t *answer,
                        const char *outcome, const char *why)
{
    json_t *j = json_object();
    json_put_i64(j, "n", 0); // keeps its place at the front
    json_put_time(j, "time", clock_real_ms());
    json_put_str(j, "outcome", outcome);
    put_who(j, call);
    put_text(j, "method", http_request_method(call->req));
    put_text(j, "path", http_request_path(call->req));
    if (call->route) {
        json_put_str(j, "route", call->route->pattern);
        put_text(j, "object", object_of(call, answer));
    }
    if (status)
        json_put_i64(j, "status", status);
    put_text(j, "why", why);
    json_put_str(j, "request", call->request_id);
    return j;
}

static void tell_watches(struct audit *a)
{
    for (struct audit_watch *w = a->watches; w; w = a->watch_next) {
        a->watch_next = w->next;
        w->line(w->userdata);
    }
}

void audit_watch_add(struct audit *a, struct audit_watch *w)
{
    DL_APPEND(a->watches, w);
}

void audit_watch_remove(struct audit *a, struct audit_watch *w)
{
    if (a->watch_next == w)
        a->watch_next = w->next;
    DL_DELETE(a->watches, w);
}

int64_t audit_last(const struct audit *a)
{
    return a->last_number;
}

static void write_line(struct audit *a, json_t *j)
{
    json_put_i64(j, "n", a->last_number + 1);
    cleanup_free char *text = json_text(j);
    int r = text ? audit_file_append(a->file, text, strlen(text)) : -ENOMEM;
    if (r == 0)
        a->last_number++;
    else
        log_error("audit", "a line can't be written (%s): %s", strerror(-r), text ? text : "");
    if (r == 0 && text && log_to_journal())
        log_info("audit", "%s", text);
    if (r == 0)
        tell_watches(a);
}

// --- repeated offences ---

static void arm(struct audit *a);

static void offence_end(struct audit *a, struct offence *o)
{
    if (o->repeats > 0) {
        json_put_time(o->line, "time", clock_real_ms());
        json_put_i64(o->line, "repeats", o->repeats);
        write_line(a, o->line);
    }
    HASH_DEL(a->offences, o);
    json_decref(o->line);
    free(o);
}

static void on_timer(uv_timer_t *timer)
{
    struct audit *a = timer->data;
    int64_t now = clock_boot_ms();
    while (a->offences && a->offences->due_ms <= now)
        offence_end(a, a->offences);
    arm(a);
}

static void arm(struct audit *a)
{
    if (!a->offences)
        return;
    int64_t left = a->offences->due_ms - clock_boot_ms();
    (void)uv_timer_start(&a->timer, on_timer, left > 0 ? (uint64_t)left : 0, 0);
}

// Takes the line.
static void offence(struct audit *a, const char *key, json_t *line)
{
    struct offence *o = NULL;
    HASH_FIND_STR(a->offences, key, o);
    if (!o && HASH_COUNT(a->offences) >= OFFENCES_MAX) {
        key = "others"; // the callers are many: who they are is told of the first ones
        HASH_FIND_STR(a->offences, key, o);
    }
    if (o) {
        o->repeats++;
        json_decref(line);
        return;
    }
    write_line(a, line);
    o = calloc(1, sizeof(*o));
    if (!o) {
        json_decref(line);
        return;
    }
    (void)snprintf(o->key, sizeof(o->key), "%s", key);
    o->line = line;
    o->due_ms = clock_boot_ms() + a->aggregate_ms;
    HASH_ADD_STR(a->offences, key, o);
    if (!uv_is_active((uv_handle_t *)&a->timer))
        arm(a);
}

static void caller_key(const struct call *call, const char *rest, char out[KEY_BYTES])
{
    const struct http_peer *peer = http_request_peer(call->req);
    char uid[32];
    (void)snprintf(uid, sizeof(uid), "uid %u", (unsigned)peer->uid);
    (void)snprintf(out, KEY_BYTES, "%s|%s|%s", peer->local ? uid : peer->address, call->who.user,
                   rest);
}

void audit_refused(struct call *call, const char *what, const char *why)
{
    char rest[80], key[KEY_BYTES];
    struct audit *a = call->api->audit;
    if (!a || call->audited)
        return;
    call->audited = true;
    (void)snprintf(rest, sizeof(rest), "refused %s", what);
    caller_key(call, rest, key);
    json_t *line = line_new(call, 0, NULL, "refused", why);
    json_put_str(line, "what", what);
    offence(a, key, line);
}

void audit_problem(struct call *call, int status, const char *detail)
{
    char rest[160], key[KEY_BYTES];
    struct audit *a = call->api->audit;
    bool refusal = status == 401 || status == 403;
    bool change = call->route && call->route->flags & (ROUTE_MUTATES | ROUTE_AUDITED);
    if (!a || call->audited || (!refusal && !change))
        return;
    call->audited = true;
    // Whoever proves nothing is one kind whatever he tries.
    (void)snprintf(rest, sizeof(rest), "%d %s", status,
                   status == 401 || !call->route ? "" : call->route->pattern);
    caller_key(call, rest, key);
    offence(a, key, line_new(call, status, NULL, refusal ? "refused" : "failed", detail));
}

void audit_changed(struct call *call, int status, const json_t *answer)
{
    struct audit *a = call->api->audit;
    if (!a || call->audited || !call->route ||
        !(call->route->flags & (ROUTE_MUTATES | ROUTE_AUDITED)))
        return;
    call->audited = true;
    json_t *line = line_new(call, status, answer, "done", NULL);
    write_line(a, line);
    json_decref(line);
}

// --- durability ---

bool audit_usable(struct audit *a)
{
    static const char probe[] = "{\"outcome\":\"resumed\",\"why\":\"lines can be written again\"}";
    if (!a || audit_file_ok(a->file))
        return true;
    return audit_file_append(a->file, probe, sizeof(probe) - 1) == 0;
}

bool audit_synced(const struct audit *a)
{
    return !a || audit_file_synced(a->file);
}

int audit_then(struct audit *a, void (*fn)(int result, void *userdata), void *userdata)
{
    return audit_file_then(a->file, fn, userdata);
}

const char *audit_folder(const struct audit *a, unsigned *ret_files)
{
    *ret_files = a->files;
    return a->folder;
}

// --- life ---

static bool newest_number(char *line, size_t len, void *userdata)
{
    struct err e = {""};
    cleanup_json json_t *j = NULL;
    int64_t *number = userdata;
    if (json_parse(line, len, &j, &e) == 0)
        *number = json_opt_i64(j, "n", 0);
    return *number == 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
    struct audit *a = handle->data;
    free(a->folder);
    free(a);
}

int audit_open(const struct audit_options *o, struct audit **ret, struct err *e)
{
    struct audit *a = calloc(1, sizeof(*a));
    char *folder = strdup(o->folder);
    if (!a || !folder) {
        free(a);
        free(folder);
        return err_set(e, -ENOMEM, "out of memory");
    }
    a->folder = folder;
    a->files = o->files ? o->files : FILES;
    a->aggregate_ms = o->aggregate_ms ? o->aggregate_ms : AGGREGATE_MS;
    int r = audit_file_scan(folder, a->files, newest_number, &a->last_number, e);
    if (r == 0)
        r = audit_file_open(o->loop, folder, o->file_bytes ? o->file_bytes : FILE_BYTES, a->files,
                            &a->file, e);
    if (r < 0) {
        free(folder);
        free(a);
        return r;
    }
    (void)uv_timer_init(o->loop, &a->timer);
    uv_unref((uv_handle_t *)&a->timer);
    a->timer.data = a;
    *ret = a;
    return 0;
}

void audit_close(struct audit *a)
{
    if (!a)
        return;
    while (a->offences)
        offence_end(a, a->offences);
    audit_file_close(a->file);
    uv_close((uv_handle_t *)&a->timer, on_timer_closed);
}
