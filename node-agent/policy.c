// SPDX-License-Identifier: Apache-2.0
// The node's policy. A host path is first compared as it is written, so that nothing is told about
// paths outside the list, then as it really is (links and ".." resolved), which is what gets
// mounted.
#include "node-agent/policy.h"

#include "common/cleanup.h"

#include <ctype.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int parse_range(const char *text, int64_t *first, int64_t *last)
{
    char *end;
    if (!isdigit((unsigned char)*text))
        return -EINVAL;
    *first = *last = strtoll(text, &end, 10);
    if (*end == '-' && isdigit((unsigned char)end[1]))
        *last = strtoll(end + 1, &end, 10);
    return *end == '\0' && *first <= *last && *last < UINT32_MAX ? 0 : -EINVAL;
}

int policy_ids_check(const char *field, char *const *list, struct err *e)
{
    int64_t first, last;
    for (char *const *p = list; p && *p; p++)
        if (parse_range(*p, &first, &last) < 0)
            return err_set(e, -EINVAL,
                           "policy.%s: \"%s\": expected a number or a range such as 1000-1999",
                           field, *p);
    return 0;
}

int policy_paths_check(char *const *list, struct err *e)
{
    for (char *const *p = list; p && *p; p++)
        if ((*p)[0] != '/' || strstr(*p, "/../"))
            return err_set(e, -EINVAL,
                           "policy.host_paths: \"%s\": expected an absolute path without \"..\"",
                           *p);
    return 0;
}

int policy_capabilities_check(char *const *list, struct err *e)
{
    for (char *const *p = list; p && *p; p++)
        if (!**p || strspn(*p, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") != strlen(*p) ||
            strncmp(*p, "CAP_", 4) == 0 || strcmp(*p, "ALL") == 0)
            return err_set(e, -EINVAL,
                           "policy.capabilities: \"%s\": expected a name without CAP_, such as "
                           "NET_BIND_SERVICE (there is no ALL)",
                           *p);
    return 0;
}

// --- who -----------------------------------------------------------------------------------------

static bool id_listed(char *const *list, int64_t id)
{
    int64_t first, last;
    for (char *const *item = list; item && *item; item++)
        if (parse_range(*item, &first, &last) == 0 && id >= first && id <= last)
            return true;
    return false;
}

// Whoever has the group of the engine's socket is root on this machine.
static bool is_engine_group(const struct policy *p, int64_t gid)
{
    struct stat st;
    return p->engine_socket && stat(p->engine_socket, &st) == 0 && st.st_gid == gid;
}

static int check_gid(const struct policy *p, const struct attempt_spec *s, struct err *e)
{
    if (p->allow_root)
        return 0;
    if (is_engine_group(p, s->gid))
        return err_set(e, -EACCES,
                       "agent.yml forbids it: gid %lld of %s is the group of the engine's socket, "
                       "which makes root (policy.allow_root is false)",
                       (long long)s->gid, s->user);
    if (s->gid != p->default_gid && !id_listed(p->allow_gids, s->gid))
        return err_set(e, -EACCES,
                       "agent.yml forbids it: policy.allow_gids does not have gid %lld of %s",
                       (long long)s->gid, s->user);
    return 0;
}

static int check_uid(const struct policy *p, const struct attempt_spec *s, struct err *e)
{
    if (s->uid == 0 || s->gid == 0) {
        if (!p->allow_root)
            return err_set(e, -EACCES,
                           "agent.yml forbids it: policy.allow_root is false, and the task of %s "
                           "would run as %s 0",
                           s->user, s->uid == 0 ? "uid" : "gid");
    } else if (!id_listed(p->allow_uids, s->uid)) {
        return err_set(e, -EACCES,
                       "agent.yml forbids it: policy.allow_uids does not have uid %lld of %s",
                       (long long)s->uid, s->user);
    }
    if (!p->container && p->agent_uid != 0 && s->uid != p->agent_uid)
        return err_set(e, -EACCES,
                       "the agent runs as uid %lld and can't start processes as uid %lld of %s",
                       (long long)p->agent_uid, (long long)s->uid, s->user);
    return check_gid(p, s, e);
}

static int apply_user(const struct policy *p, struct attempt_spec *s, struct err *e)
{
    if (s->uid < 0) {
        s->uid = p->default_uid;
        s->gid = p->default_gid;
    } else if (s->gid < 0) {
        s->gid = s->uid;
    }
    return check_uid(p, s, e);
}

// --- what of the machine -------------------------------------------------------------------------

// Whether `path` is `top` or below it.
static bool below(const char *path, const char *top)
{
    size_t len = strlen(top);
    while (len > 0 && top[len - 1] == '/')
        len--;
    return strncmp(path, top, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

static bool listed(char *const *list, const char *path, bool real)
{
    for (char *const *p = list; p && *p; p++) {
        char top[PATH_MAX];
        if (!real ? below(path, *p) : realpath(*p, top) && below(path, top))
            return true;
    }
    return false;
}

// A mount of it, of something in it or of something around it would show it to the task.
static bool touches(const char *path, const char *guarded)
{
    char real[PATH_MAX];
    if (!guarded || !*guarded)
        return false;
    const char *at = realpath(guarded, real) ? real : guarded;
    return below(path, at) || below(at, path) || below(path, guarded) || below(guarded, path);
}

static const char *guarded(const struct policy *p, const char *path)
{
    const char *const all[] = {
        "/run/meadow",           "/run/docker.sock", "/run/containerd",
        "/var/lib/meadow/agent", "/etc/meadow",      "/var/lib/meadow/master",
        p->engine_socket,        p->run_dir,         p->state_dir};
    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        if (touches(path, all[i]))
            return all[i];
    return NULL;
}

static int apply_mount(const struct policy *p, struct job_mount *m, struct err *e)
{
    char real[PATH_MAX];
    if (!m->source)
        return 0;
    if (!listed(p->host_paths, m->source, false))
        return err_set(e, -EACCES, "agent.yml forbids it: policy.host_paths %s %.300s",
                       p->host_paths && *p->host_paths ? "does not have" : "is empty, no mount of",
                       m->source);
    if (!realpath(m->source, real))
        return err_errno(e, -errno, "mount %.300s", m->source);
    if (!listed(p->host_paths, real, true))
        return err_set(e, -EACCES,
                       "agent.yml forbids it: %.200s leads to %.200s, which policy.host_paths does "
                       "not have",
                       m->source, real);
    const char *what = guarded(p, real);
    if (what)
        return err_set(e, -EACCES,
                       "forbidden on every node, whatever policy.host_paths says: a mount of "
                       "%.200s shows %.100s",
                       real, what);
    char *copy = strdup(real);
    if (!copy)
        return err_set(e, -ENOMEM, "out of memory");
    free(m->source);
    m->source = copy;
    return 0;
}

int policy_apply(const struct policy *p, struct attempt_spec *spec, struct err *e)
{
    int r = apply_user(p, spec, e);
    for (size_t i = 0; r == 0 && !p->container && i < spec->n_secrets; i++)
        if (spec->secrets[i].path)
            r = err_set(e, -EINVAL,
                        "secrets: \"path\" of %s needs a container; a process finds the file in "
                        "MEADOW_SECRETS",
                        spec->secrets[i].name);
    for (size_t i = 0; r == 0 && p->container && i < spec->n_mounts; i++)
        r = apply_mount(p, &spec->mounts[i], e);
    return r;
}
