// SPDX-License-Identifier: Apache-2.0
// `constraints`: label -> condition, or a list of values one of which the label must be.
#include "common/cleanup.h"
#include "common/strbuf.h"
#include "proto/constraint.h"
#include "proto/job_spec_internal.h"

#include <string.h>

static const char *const example = "a mapping of node labels such as {zone: a, cuda: '>= 12'}";

static bool label_ok(const char *label)
{
    return *label && strlen(label) < CONSTRAINT_LABEL_BYTES &&
           strspn(label, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/") ==
               strlen(label);
}

// [a, b] is "in a, b".
static void read_list(struct job_reader *r, const json_t *list, struct strbuf *out)
{
    size_t i;
    json_t *item;
    strbuf_printf(out, "in ");
    json_array_foreach ((json_t *)(uintptr_t)list, i, item) {
        char room[JOB_READER_TEXT_BYTES];
        const char *text = job_reader_text(r, item, room);
        if (text && !strpbrk(text, ",\n"))
            strbuf_printf(out, "%s%s", i ? ", " : "", text);
        else
            job_reader_problem(r, item, "expected a text without comma");
    }
}

static void read_condition(struct job_reader *r, const char *label, const json_t *value,
                           struct strbuf *all)
{
    char room[JOB_READER_TEXT_BYTES];
    cleanup_strbuf struct strbuf list = {0};
    if (json_is_array(value))
        read_list(r, value, &list);
    const char *text = json_is_array(value) ? list.data : job_reader_text(r, value, room);
    const char *problem = text ? constraint_problem(text) : "expected a text, a number or a list";
    if (!label_ok(label))
        problem = "expected a label of letters, digits and . _ - /, at most 63 characters";
    if (problem)
        job_reader_problem(r, value, "%s", problem);
    else
        strbuf_printf(all, "%s\n%s\n", label, text);
}

void job_read_constraints(struct job_reader *r, const struct job_field *f, const json_t *value,
                          void *object)
{
    struct job_component *c = object;
    cleanup_strbuf struct strbuf all = {0};
    const char *key;
    json_t *member;

    (void)f;
    if (!json_is_object(value)) {
        job_reader_expected(r, value, example);
        return;
    }
    json_object_foreach ((json_t *)(uintptr_t)value, key, member) {
        job_reader_push_key(r, value, key);
        read_condition(r, key, member, &all);
        job_reader_pop(r);
    }
    if (all.data && *all.data)
        c->where = job_reader_dup(r, all.data);
}
