// SPDX-License-Identifier: Apache-2.0
// What happens on every new connection before anything else: is this server safe to write to (every
// answer is on disk, nothing is evicted, it is no replica), does it know our script, and is the
// store still ours. The first connection takes the epoch, which makes every other owner's batches
// fail; later ones check that it is still the last.
#include "master/store/store_internal.h"

#include "common/cleanup.h"

#include <stdio.h>
#include <string.h>

static const struct wanted {
    const char *name, *value, *why;
} settings[] = {
    {"appendonly", "yes", "what is acknowledged would not be on disk"},
    {"appendfsync", "always", "what is acknowledged would not be on disk"},
    {"no-appendfsync-on-rewrite", "no", "what is acknowledged would not be on disk for a while"},
    {"maxmemory-policy", "noeviction", "records would be thrown away"},
};

static void begin_ownership(struct store *s);

void store_refused(struct store *s, const struct redisReply *reply, const char *what)
{
    char text[300];
    bool error = reply_kind(reply) == REPLY_ERROR;
    bool denied = reply_is_error(reply, "NOPERM") || reply_is_error(reply, "NOAUTH") ||
                  strncmp(reply_text(reply, NULL), "ERR unknown command", 19) == 0;
    (void)snprintf(text, sizeof(text), "%s: %s: %s%s", s->name, what,
                   error ? reply_text(reply, NULL) : "unexpected answer of Redis",
                   denied ? ": meadow's user there needs this command (ACL SETUSER)" : "");
    if (denied)
        store_unsafe(s, -EACCES, text);
    else if (store_is_busy(reply))
        redis_conn_drop(s->conn, text);
    else
        store_fail(s, -EPROTO, text);
}

static void on_setting(const struct redisReply *reply, void *userdata)
{
    const struct setup_check *check = userdata;
    struct store *s = check->store;
    const struct wanted *w = &settings[check->what];
    char text[400];
    if (!reply || !redis_conn_is_up(s->conn))
        return;
    const struct redisReply *value = reply_item(reply, 1);
    if (!value) {
        (void)snprintf(text, sizeof(text), "CONFIG GET %s", w->name);
        store_refused(s, reply, text);
    } else if (strcmp(reply_text(value, NULL), w->value) != 0) {
        (void)snprintf(text, sizeof(text),
                       "%s has %s %.40s, but it must be %s, or %s: CONFIG SET %s %s there, and put "
                       "it into its redis.conf",
                       s->name, w->name, reply_text(value, NULL), w->value, w->why, w->name,
                       w->value);
        store_unsafe(s, -EINVAL, text);
    } else if (check->of_batch && check->what == (int)ARRAY_SIZE(settings) - 1) {
        store_confirmed(s);
    }
}

int store_ask_settings(struct store *s, bool of_batch)
{
    int r = 0;
    for (size_t i = 0; i < ARRAY_SIZE(settings) && r == 0; i++) {
        s->checks[of_batch][i] = (struct setup_check){s, (int)i, of_batch};
        r = redis_conn_call(s->conn, on_setting, &s->checks[of_batch][i], "CONFIG", "GET",
                            settings[i].name, (const char *)NULL);
    }
    return r;
}

static void on_role(const struct redisReply *reply, void *userdata)
{
    struct store *s = userdata;
    char text[300];
    if (!reply || !redis_conn_is_up(s->conn))
        return;
    const struct redisReply *role = reply_item(reply, 0);
    if (!role)
        store_refused(s, reply, "ROLE");
    else if (strcmp(reply_text(role, NULL), "master") != 0) {
        (void)snprintf(text, sizeof(text),
                       "%s is a replica of another server, which can't be written to: give "
                       "redis_url of the primary, or make it one (REPLICAOF NO ONE)",
                       s->name);
        store_unsafe(s, -EINVAL, text);
    }
}

bool store_keep_script(struct store *s, const struct redisReply *reply)
{
    size_t len;
    const char *sha = reply_text(reply, &len);
    if (reply_kind(reply) != REPLY_TEXT || len >= sizeof(s->script_sha)) {
        store_refused(s, reply, "SCRIPT LOAD");
        return false;
    }
    memcpy(s->script_sha, sha, len + 1);
    return true;
}

int store_load_script(struct store *s, redis_reply_fn *fn)
{
    return redis_conn_call(s->conn, fn, s, "SCRIPT", "LOAD", batch_script, (const char *)NULL);
}

// Answers come in order: when this one is here, all checks before it have passed.
static void on_script(const struct redisReply *reply, void *userdata)
{
    struct store *s = userdata;
    if (!reply || !redis_conn_is_up(s->conn) || !store_keep_script(s, reply))
        return;
    if (s->external && !s->epoch)
        store_find_rivals(s);
    else
        begin_ownership(s);
}

void store_alone(struct store *s)
{
    begin_ownership(s);
}

static void on_named(const struct redisReply *reply, void *userdata)
{
    struct store *s = userdata;
    if (reply && redis_conn_is_up(s->conn) && reply_kind(reply) == REPLY_ERROR)
        store_refused(s, reply, "CLIENT SETNAME");
}

void store_setup(struct store *s)
{
    int r = s->external ? redis_conn_call(s->conn, on_named, s, "CLIENT", "SETNAME", s->prefix,
                                          (const char *)NULL)
                        : 0;
    if (r == 0)
        r = store_ask_settings(s, false);
    if (r == 0)
        r = redis_conn_call(s->conn, on_role, s, "ROLE", (const char *)NULL);
    if (r == 0)
        r = store_load_script(s, on_script);
    if (r < 0)
        redis_conn_drop(s->conn, strerror(-r));
}

// --- whose store it is ---

static void on_taken(const struct redisReply *reply, void *userdata)
{
    struct store *s = userdata;
    const struct redisReply *epoch = reply ? reply_item(reply, 0) : NULL;
    const struct redisReply *commit = reply ? reply_item(reply, 1) : NULL;
    if (!reply || !redis_conn_is_up(s->conn))
        return; // taken once more on the next connection: numbers may be skipped
    int64_t e = 0, c = 0;
    if (!epoch || !commit || reply_integer(epoch, &e) < 0 || reply_integer(commit, &c) < 0) {
        store_refused(s, reply, "taking the store");
        return;
    }
    s->epoch = e;
    s->commit = s->first_commit =
        c; // the mark tells of what was lost until the first batch is there
    store_set_up(s);
}

static void on_raised(const struct redisReply *reply, void *userdata)
{
    struct store *s = userdata;
    int64_t epoch = 0;
    if (!reply || !redis_conn_is_up(s->conn))
        return;
    if (reply_integer(reply, &epoch) < 0) {
        store_refused(s, reply, "raising the epoch");
    } else if (epoch != s->epoch_wanted) {
        store_fail(s, -ESTALE, "another owner took the store");
    } else {
        s->epoch = epoch;
        s->epoch_wanted = 0;
        store_set_up(s);
    }
}

// Once more is harmless: it may have happened on a connection that broke before the answer.
static void raise_epoch(struct store *s)
{
    char from[24], to[24];
    if (!s->epoch_wanted) {
        store_set_up(s);
        return;
    }
    (void)snprintf(from, sizeof(from), "%lld", (long long)s->epoch);
    (void)snprintf(to, sizeof(to), "%lld", (long long)s->epoch_wanted);
    if (redis_conn_call(s->conn, on_raised, s, "EVAL", raise_script, "1", s->meta_key, from, to,
                        (const char *)NULL) < 0)
        redis_conn_drop(s->conn, "out of memory");
}

static void on_owner(const struct redisReply *reply, void *userdata)
{
    struct store *s = userdata;
    int64_t epoch = 0, commit = 0;
    char text[200];
    if (!reply || !redis_conn_is_up(s->conn))
        return;
    if (reply_count(reply) != 2) {
        store_refused(s, reply, "reading the owner");
        return;
    }
    // Absent fields stay 0: the data were lost or put back to an old state.
    (void)!reply_integer(reply_item(reply, 0), &epoch);
    (void)!reply_integer(reply_item(reply, 1), &commit);
    if (epoch != s->epoch && (epoch != s->epoch_wanted || !epoch))
        (void)snprintf(text, sizeof(text),
                       "another owner took the store: epoch is %lld, ours is %lld",
                       (long long)epoch, (long long)s->epoch);
    else if (commit < s->commit)
        (void)snprintf(text, sizeof(text),
                       "the store went back: last commit is %lld, acknowledged was %lld",
                       (long long)commit, (long long)s->commit);
    else {
        raise_epoch(s);
        return;
    }
    store_fail(s, -ESTALE, text);
}

static void begin_ownership(struct store *s)
{
    char schema[16], above[24];
    (void)snprintf(schema, sizeof(schema), "%d", STORE_SCHEMA);
    (void)snprintf(above, sizeof(above), "%lld", (long long)s->marked_epoch);
    int r = s->epoch ? redis_conn_call(s->conn, on_owner, s, "HMGET", s->meta_key, "epoch",
                                       "commit", (const char *)NULL)
                     : redis_conn_call(s->conn, on_taken, s, "EVAL", epoch_script, "1", s->meta_key,
                                       schema, above, (const char *)NULL);
    if (r < 0)
        redis_conn_drop(s->conn, strerror(-r));
}
