// SPDX-License-Identifier: Apache-2.0
// A cluster and what happens to it in one line of text, so that a case reads as a table row. Nodes
// as in plan_world.h. Commands, separated by ';' ('|' lets the scheduler run):
//   j1 ann 50 2,4,1*3 1,1 t60   submit: name, user, priority, tasks (cpu,memory,gpu*count; "all"),
//                               with a time limit of 60 s; s = spread, b = balanced by cpu,
//                               c = compacted by cpu
//                               c = compacted by cpu; @zone:a = its tasks need that label ("_" for
//                               a space); %A100* = cards of that model, %40 = of 40 GiB or more
//                               ^same, ^few = on one node, on few; ^alone = no other job there;
//                               ^0+1 = its first tasks (word) need one of the second beside them,
//                               ^0-1 = none; ^0+b, ^0-b = of job b
//                               =A the image of its tasks
//                               p = may be stopped for others: then "j1^j2" is told, and "-j1"
//                               ends it and queues it again
//   images n1 A B  what the node has from now on
//   label n1 zone a;  cards n1 A100 40 T4 16   before anything runs
//   ~j1 40  it is queued anew, with that priority
//   -j1  it ends;  !j1  it is withdrawn;  +60  time passes (s)
//   weight ann 2;  team ann red;  quota ann gpu 2;  most n1 2 (tasks);  allow red 3 (cores of the
//   team);  restart  of the master;  level 2  jobs at once;  x n1  no work for n1;  o n1  again
// Answer: what started in each run, in order: "j1>n1,n2 j2>n1 | -".
#pragma once

#include "test/unit/scheduler/queue_scene.h"

static const char *scene_keep(struct scene *s, const char *text)
{
    char *to = s->label_texts[s->n_label_texts++];
    (void)snprintf(to, sizeof(s->label_texts[0]), "%s", text);
    return to;
}

static void scene_rule(struct scene *s, struct scene_job *j, const char *word)
{
    size_t len = strlen(j->rules_key);
    (void)snprintf(j->rules_key + len, sizeof(j->rules_key) - len, "%s ", word);
    if (strcmp(word, "alone") == 0)
        j->alone = true;
    else if (strcmp(word, "same") == 0 || strcmp(word, "few") == 0)
        j->rules.gang = *word == 's' ? GANG_SAME_NODE : GANG_FEW_NODES;
    else {
        struct plan_tie *t = &j->ties[j->rules.n_ties++];
        bool own = word[2] >= '0' && word[2] <= '9';
        if (!own)
            j->names[j->rules.n_groups++] = scene_keep(s, word + 2);
        *t = (struct plan_tie){(uint16_t)(word[0] - '0'),
                               (uint16_t)(own ? (size_t)(word[2] - '0') : j->rules.n_groups - 1),
                               word[1] == '-'};
    }
}

static void scene_rules(struct scene_job *j)
{
    if (!j->rules_key[0])
        return;
    j->rules.key = j->rules_key;
    j->rules.names = j->names;
    j->rules.ties = j->ties;
    j->entry.rules = &j->rules;
    for (size_t i = 0; i < j->shape.n_demands; i++) {
        j->demands[i].ruled = true;
        j->demands[i].exclusive = j->alone;
    }
}

static void scene_add_tasks(struct scene_job *j, char *word)
{
    char *star = strchr(word, '*');
    int count = star ? atoi(star + 1) : 1;
    if (star)
        *star = '\0';
    struct amounts a = world_amounts(word, 0, 0);
    size_t group = j->rules.n_own++;
    j->rules.n_groups = j->rules.n_own; // rules that name jobs come after the tasks
    j->names[group] = "?";
    for (; count > 0; count--)
        j->demands[j->shape.n_demands++] = (struct plan_demand){.resources = world_resources(&a),
                                                                .cpu_all = a.all[0],
                                                                .memory_all = a.all[1],
                                                                .gpu_all = a.all[2],
                                                                .runtimes = PLAN_RUNTIME_ANY,
                                                                .group = (uint16_t)group};
}

static void scene_where(struct scene_job *j, char *word)
{
    size_t len = strlen(j->where);
    char *colon = strchr(word, ':');
    *colon = '\0';
    for (char *p = colon + 1; *p; p++)
        *p = *p == '_' ? ' ' : *p;
    (void)snprintf(j->where + len, sizeof(j->where) - len, "%s\n%s\n", word, colon + 1);
}

static void scene_card(struct scene_job *j, const char *word)
{
    size_t len = strlen(j->where);
    bool memory = *word >= '0' && *word <= '9';
    if (memory)
        (void)snprintf(j->where + len, sizeof(j->where) - len, "$gpu.memory\n>= %lld\n",
                       (long long)(GIB * atoi(word)));
    else
        (void)snprintf(j->where + len, sizeof(j->where) - len, "$gpu.model\n%s\n", word);
}

static void scene_cards(struct scene *s, char **words, int n)
{
    for (size_t i = 0; i < s->world.n_nodes; i++) {
        struct plan_node *node = &s->world.nodes[i];
        if (strcmp(node->name, words[1]) != 0)
            continue;
        node->cards = s->cards[i];
        node->n_cards = 0;
        for (int k = 2; k + 1 < n; k += 2)
            s->cards[i][node->n_cards++] =
                (struct plan_card){scene_keep(s, words[k]), GIB * atoi(words[k + 1])};
        if (plan_index_relabel(s->index, i))
            plan_queue_grew(s->queue);
    }
}

static void scene_label(struct scene *s, char **words)
{
    for (size_t i = 0; i < s->world.n_nodes; i++) {
        struct plan_node *n = &s->world.nodes[i];
        if (strcmp(n->name, words[1]) != 0)
            continue;
        size_t at = 0;
        while (at < n->n_labels && strcmp(s->labels[i][at].name, words[2]) != 0)
            at++;
        s->labels[i][at] = (struct plan_label){scene_keep(s, words[2]), scene_keep(s, words[3])};
        n->labels = s->labels[i];
        n->n_labels = at == n->n_labels ? at + 1 : n->n_labels;
        if (plan_index_relabel(s->index, i))
            plan_queue_grew(s->queue);
    }
}

static void scene_set_images(struct scene *s, char **words, int n)
{
    for (size_t i = 0; i < s->world.n_nodes; i++) {
        if (strcmp(s->world.nodes[i].name, words[1]) != 0)
            continue;
        ck_assert_int_eq(plan_images_set(&s->images, &s->holders[i], (const char *const *)&words[2],
                                         (size_t)(n - 2)),
                         0);
        s->holders[i]->slot = (uint32_t)i;
        s->world.nodes[i].holder = s->holders[i];
    }
}

static void scene_submit(struct scene *s, char *id, char **words, int n)
{
    struct scene_job *j = &s->jobs[s->n_jobs];
    (void)snprintf(j->id, sizeof(j->id), "%s", id);
    (void)snprintf(j->user, sizeof(j->user), "%s", words[1]);
    j->entry = (struct plan_entry){.id = j->id, .name = j->id, .order = (int64_t)s->n_jobs};
    j->shape =
        (struct plan_shape){.user = j->user, .priority = atoi(words[2]), .demands = j->demands};
    for (int i = 3; i < n; i++)
        if (words[i][0] == '^')
            scene_rule(s, j, words[i] + 1);
        else if (words[i][0] == '@')
            scene_where(j, words[i] + 1);
        else if (words[i][0] == '%')
            scene_card(j, words[i] + 1);
        else if (words[i][0] == '=')
            (void)snprintf(j->image, sizeof(j->image), "%s", words[i] + 1);
        else if (words[i][0] == 't')
            j->shape.bound_ms = INT64_C(1000) * atoi(words[i] + 1);
        else if (words[i][0] == 'p')
            j->preemptible = true;
        else if (words[i][0] == 's')
            j->shape.alloc = ALLOC_SPREAD;
        else if (words[i][0] == 'b')
            j->shape.alloc = ALLOC_BALANCED;
        else if (words[i][0] == 'c')
            j->shape.alloc = ALLOC_COMPACTED;
        else
            scene_add_tasks(j, words[i]);
    for (size_t i = 0; i < j->shape.n_demands; i++)
        j->demands[i].where = j->where[0] ? j->where : NULL;
    scene_rules(j);
    s->n_jobs++;
    ck_assert_int_eq(plan_queue_add(s->queue, &j->entry, &j->shape), 0);
}

static void scene_account(struct scene *s, char **words)
{
    size_t i = 0;
    while (i < s->n_accounts && strcmp(s->accounts[i].user, words[1]) != 0)
        i++;
    if (i == s->n_accounts) {
        s->n_accounts++;
        (void)snprintf(s->accounts[i].user, sizeof(s->accounts[i].user), "%s", words[1]);
        s->accounts[i].account = (struct plan_account){NULL, 1, PLAN_NO_QUOTA};
    }
    struct plan_account *a = &s->accounts[i].account;
    if (strcmp(words[0], "weight") == 0) {
        a->weight = atoi(words[2]);
    } else if (strcmp(words[0], "team") == 0) {
        (void)snprintf(s->accounts[i].team, sizeof(s->accounts[i].team), "%s", words[2]);
        a->team = s->accounts[i].team;
    } else {
        int64_t v = atoi(words[3]);
        char kind = words[2][0];
        *(kind == 'c'   ? &a->quota.cpu
          : kind == 'm' ? &a->quota.memory
          : kind == 'g' ? &a->quota.gpu
          : kind == 't' ? &a->quota.tasks
                        : &a->quota.jobs) = kind == 'c'   ? 1000 * v
                                            : kind == 'm' ? GIB * v
                                                          : v;
    }
    ck_assert_int_eq(plan_queue_set_user(s->queue, words[1], a), 0);
}

static void scene_eligible(struct scene *s, const char *name, bool eligible)
{
    for (size_t i = 0; i < s->world.n_nodes; i++)
        if (strcmp(s->world.nodes[i].name, name) == 0) {
            s->world.nodes[i].ineligible = eligible ? NULL : "draining";
            if (plan_index_touch(s->index, i))
                plan_queue_grew(s->queue);
            return;
        }
    ck_abort_msg("no node %s", name);
}

static void scene_end_all(struct scene *s)
{
    plan_queue_free(s->queue);
    plan_index_free(s->index);
}

static void scene_free(struct scene *s)
{
    scene_end_all(s);
    for (size_t i = 0; i < s->world.n_nodes; i++)
        plan_images_drop(&s->holders[i]);
}

// A new queue and index that know what the old ones would have stored, but for usage.
static void scene_restart(struct scene *s)
{
    char head[8] = "";
    bool waits[SCENE_JOBS];
    struct plan_sticky sticky = plan_queue_sticky(s->queue);
    (void)snprintf(head, sizeof(head), "%s", sticky.id ? sticky.id : "");
    sticky.id = head;
    for (size_t i = 0; i < s->n_jobs; i++)
        waits[i] = s->jobs[i].entry.lane != NULL;
    scene_end_all(s);
    ck_assert_int_eq(plan_index_new(s->world.nodes, s->world.n_nodes, &s->index), 0);
    s->queue = plan_queue_new();
    plan_queue_set_policy(s->queue, &s->policy);
    if (head[0])
        plan_queue_restore_head(s->queue, &sticky, s->now_ms);
    for (size_t i = 0; i < s->n_jobs; i++) {
        struct scene_job *j = &s->jobs[i];
        if (j->runs)
            scene_hold(s, j, 1);
        if (!waits[i])
            continue;
        j->entry.id = j->id;
        j->entry.order = (int64_t)i;
        ck_assert_int_eq(plan_queue_add(s->queue, &j->entry, &j->shape), 0);
    }
}

static void scene_allow(struct scene *s, const char *team, int cores)
{
    struct plan_quota quota = PLAN_NO_QUOTA;
    quota.cpu = INT64_C(1000) * cores;
    ck_assert_int_eq(plan_queue_set_team(s->queue, team, 1, &quota), 0);
}

static void scene_most(struct scene *s, const char *name, int tasks)
{
    for (size_t i = 0; i < s->world.n_nodes; i++)
        if (strcmp(s->world.nodes[i].name, name) == 0) {
            s->world.nodes[i].max_tasks = tasks;
            if (plan_index_touch(s->index, i))
                plan_queue_grew(s->queue);
        }
}

static void scene_anew(struct scene *s, struct scene_job *j, int priority)
{
    struct plan_standing standing = plan_queue_standing(s->queue, &j->entry);
    plan_queue_remove(s->queue, &j->entry);
    j->shape.priority = priority;
    ck_assert_int_eq(plan_queue_add(s->queue, &j->entry, &j->shape), 0);
    plan_queue_stand(s->queue, &j->entry, &standing);
}

static void scene_command(struct scene *s, char *text)
{
    char *words[24], *save;
    int n = 0;
    for (char *w = strtok_r(text, " ", &save); w && n < 24; w = strtok_r(NULL, " ", &save))
        words[n++] = w;
    if (n == 0)
        return;
    char *what = words[0];
    if (*what == '-')
        scene_end(s, scene_job(s, what + 1));
    else if (*what == '~')
        scene_anew(s, scene_job(s, what + 1), atoi(words[1]));
    else if (*what == '!')
        plan_queue_remove(s->queue, &scene_job(s, what + 1)->entry);
    else if (*what == '+')
        s->now_ms += INT64_C(1000) * atoi(what + 1);
    else if (strcmp(what, "x") == 0 || strcmp(what, "o") == 0)
        scene_eligible(s, words[1], *what == 'o');
    else if (strcmp(what, "label") == 0)
        scene_label(s, words);
    else if (strcmp(what, "images") == 0)
        scene_set_images(s, words, n);
    else if (strcmp(what, "cards") == 0)
        scene_cards(s, words, n);
    else if (strcmp(what, "level") == 0) {
        s->policy.max_jobs = atoi(words[1]);
        plan_queue_set_policy(s->queue, &s->policy);
    } else if (strcmp(what, "restart") == 0)
        scene_restart(s);
    else if (strcmp(what, "allow") == 0)
        scene_allow(s, words[1], atoi(words[2]));
    else if (strcmp(what, "most") == 0)
        scene_most(s, words[1], atoi(words[2]));
    else if (strcmp(what, "weight") == 0 || strcmp(what, "team") == 0 || strcmp(what, "quota") == 0)
        scene_account(s, words);
    else
        scene_submit(s, what, words, n);
}

static void scene_begin(struct scene *s, const char *nodes, const struct plan_policy *policy)
{
    memset(s, 0, sizeof(*s));
    world_read(&s->world, nodes, "", ALLOC_BEST_FIT, METRIC_CPU);
    ck_assert_int_eq(plan_index_new(s->world.nodes, s->world.n_nodes, &s->index), 0);
    s->queue = plan_queue_new();
    ck_assert_ptr_nonnull(s->queue);
    s->policy = *policy;
    plan_queue_set_policy(s->queue, policy);
    s->now_ms = INT64_C(1700000000000);
}

// Plays the commands; the answer is in s->log.
static void scene_play(struct scene *s, const char *commands)
{
    char copy[2048], *at = copy;
    (void)snprintf(copy, sizeof(copy), "%s", commands);
    for (char *end; *at; at = end) {
        end = at + strcspn(at, ";|");
        char mark = *end;
        if (mark)
            *end++ = '\0';
        scene_command(s, at);
        if (mark == '|' || !mark) {
            scene_run(s);
            if (mark && end[strspn(end, " ")])
                scene_say(s, "|");
        }
    }
}
