// SPDX-License-Identifier: Apache-2.0
// The elements of a job array, as ranges.
#include "proto/job_array.h"

#include "common/cleanup.h"
#include "common/id.h"
#include "common/strbuf.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define FORM "expected indices such as 1-1000%%50, 0-15:4 or 1,3,7"

// Digits only, at most `max`.
static bool read_number(const char **at, int max, int *ret)
{
    const char *p = *at;
    int n = 0;
    while (isdigit((unsigned char)*p)) {
        n = n * 10 + (*p++ - '0');
        if (n > max)
            return false;
    }
    bool some = p > *at;
    *at = p;
    *ret = n;
    return some;
}

static bool read_range(const char **at, struct job_array_range *r)
{
    *r = (struct job_array_range){.step = 1};
    if (!read_number(at, JOB_ARRAY_INDEX_MAX, &r->from))
        return false;
    r->to = r->from;
    if (**at != '-')
        return true;
    (*at)++;
    if (!read_number(at, JOB_ARRAY_INDEX_MAX, &r->to) || r->to < r->from)
        return false;
    if (**at == ':') {
        (*at)++;
        if (!read_number(at, JOB_ARRAY_INDEX_MAX, &r->step) || r->step == 0)
            return false;
    }
    r->to -= (r->to - r->from) % r->step;
    return true;
}

static int add(struct job_array *a, const struct job_array_range *r, struct err *e)
{
    if (a->n_ranges && r->from <= a->ranges[a->n_ranges - 1].to)
        return err_set(e, -EINVAL, "index %d comes after %d: expected ascending indices", r->from,
                       a->ranges[a->n_ranges - 1].to);
    struct job_array_range *ranges = realloc(a->ranges, (a->n_ranges + 1) * sizeof(*ranges));
    if (!ranges)
        return err_set(e, -ENOMEM, "out of memory");
    a->ranges = ranges;
    a->ranges[a->n_ranges++] = *r;
    a->count += (r->to - r->from) / r->step + 1;
    if (a->count > JOB_ARRAY_MAX)
        return err_set(e, -EINVAL, "expected at most %d elements", JOB_ARRAY_MAX);
    return 0;
}

static int parse(const char *at, struct job_array *a, struct err *e)
{
    struct job_array_range r;
    int x;
    do {
        if (!read_range(&at, &r))
            return err_set(e, -EINVAL, FORM ", indices from 0 to %d", JOB_ARRAY_INDEX_MAX);
        x = add(a, &r, e);
    } while (x == 0 && *at++ == ',');
    if (x < 0)
        return x;
    at--;
    if (*at == '%') {
        at++;
        if (!read_number(&at, JOB_ARRAY_MAX, &a->limit) || a->limit == 0)
            return err_set(e, -EINVAL, "%% is followed by how many may run at once, 1 to %d",
                           JOB_ARRAY_MAX);
    }
    return *at ? err_set(e, -EINVAL, FORM) : 0;
}

int job_array_parse(const char *text, struct job_array *ret, struct err *e)
{
    struct job_array a = {0};
    int r = strlen(text) > JOB_ARRAY_TEXT_MAX
                ? err_set(e, -EINVAL, "longer than %d characters", JOB_ARRAY_TEXT_MAX)
                : parse(text, &a, e);
    if (r < 0)
        job_array_reset(&a);
    else
        *ret = a;
    return r;
}

void job_array_reset(struct job_array *a)
{
    free(a->ranges);
    *a = (struct job_array){0};
}

char *job_array_text(const struct job_array *a)
{
    struct strbuf b = {0};
    for (size_t i = 0; i < a->n_ranges; i++) {
        const struct job_array_range *r = &a->ranges[i];
        strbuf_printf(&b, "%s%d", i ? "," : "", r->from);
        if (r->to > r->from)
            strbuf_printf(&b, "-%d", r->to);
        if (r->to > r->from && r->step > 1)
            strbuf_printf(&b, ":%d", r->step);
    }
    if (a->limit)
        strbuf_printf(&b, "%%%d", a->limit);
    return strbuf_take(&b);
}

int job_array_index(const struct job_array *a, int number)
{
    for (size_t i = 0; i < a->n_ranges; i++) {
        const struct job_array_range *r = &a->ranges[i];
        int n = (r->to - r->from) / r->step + 1;
        if (number < n)
            return r->from + number * r->step;
        number -= n;
    }
    return -1;
}

int job_array_number(const struct job_array *a, int index)
{
    int before = 0;
    for (size_t i = 0; i < a->n_ranges; i++) {
        const struct job_array_range *r = &a->ranges[i];
        if (index >= r->from && index <= r->to)
            return (index - r->from) % r->step ? -1 : before + (index - r->from) / r->step;
        before += (r->to - r->from) / r->step + 1;
    }
    return -1;
}

bool job_element_split(const char *text, size_t *ret_len, int *ret_index)
{
    const char *at = strrchr(text, '_');
    int index;
    if (!at || at == text)
        return false;
    const char *digits = at + 1;
    bool zeros = digits[0] == '0' && digits[1];
    if (!read_number(&digits, JOB_ARRAY_INDEX_MAX, &index) || *digits || zeros)
        return false;
    *ret_len = (size_t)(at - text);
    *ret_index = index;
    return true;
}

bool job_id_is(const char *text)
{
    size_t len;
    int index;
    char array[ID_BYTES];
    if (id_is('j', text))
        return true;
    if (!job_element_split(text, &len, &index) || len >= sizeof(array))
        return false;
    memcpy(array, text, len);
    array[len] = '\0';
    return id_is('j', array);
}
