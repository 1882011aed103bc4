// SPDX-License-Identifier: Apache-2.0
// Sets of conditions over nodes: bits follow the labels.
#include "master/scheduler/where.h"

#include "proto/constraint.h"
#include "test/unit/suite.h"

#include <check.h>
#include <string.h>

static struct plan_label ssd = {"disk", "ssd"}, hdd = {"disk", "hdd"};

static struct plan_index *index_of(struct plan_node *nodes)
{
    struct plan_index *x = NULL;
    nodes[0] = (struct plan_node){.name = "n0", .runtime = PLAN_RUNTIME_ANY};
    nodes[1] = nodes[0];
    nodes[1].name = "n1";
    nodes[1].labels = &ssd;
    nodes[1].n_labels = 1;
    ck_assert_int_eq(plan_index_new(nodes, 2, &x), 0);
    return x;
}

START_TEST(bits_follow_the_labels)
    {
        struct plan_node nodes[2];
        const struct plan_where *w, *again;
        struct plan_index *x = index_of(nodes);
        ck_assert_int_eq(where_of(x, "disk\nssd\n", &w), 0);
        ck_assert_int_eq(where_of(x, "disk\nssd\n", &again), 0);
        ck_assert_ptr_eq(w, again);
        ck_assert(!where_has(w, 0));
        ck_assert(where_has(w, 1));
        nodes[1].labels = &hdd;
        ck_assert(!plan_index_relabel(x, 1));
        ck_assert(!where_has(w, 1));
        nodes[0].labels = &ssd;
        nodes[0].n_labels = 1;
        ck_assert(plan_index_relabel(x, 0));
        ck_assert(where_has(w, 0));
        plan_index_free(x);
    }
END_TEST

START_TEST(no_conditions_are_met_by_all)
    {
        struct plan_node nodes[2];
        const struct plan_where *w;
        struct plan_index *x = index_of(nodes);
        ck_assert_int_eq(where_of(x, NULL, &w), 0);
        ck_assert_ptr_null(w);
        ck_assert(where_has(w, 1));
        plan_index_free(x);
    }
END_TEST

START_TEST(tells_the_first_that_is_not_met)
    {
        char label[CONSTRAINT_LABEL_BYTES], condition[CONSTRAINT_TEXT_BYTES];
        const struct plan_node n = {.name = "n7", .labels = &ssd, .n_labels = 1};
        ck_assert(where_unmet(&n, "node\nn7\ndisk\n!= ssd\nzone\na\n", label, condition));
        ck_assert_str_eq(label, "disk");
        ck_assert_str_eq(condition, "!= ssd");
        ck_assert(!where_unmet(&n, "node\nn7\ndisk\nin hdd, ssd\n", label, condition));
        ck_assert(!where_unmet(&n, NULL, label, condition));
    }
END_TEST

START_TEST(what_was_not_used_lately_is_dropped)
    {
        struct plan_node nodes[2];
        const struct plan_where *w, *kept;
        struct plan_index *x = index_of(nodes);
        char text[32];
        for (int i = 0; i <= WHERE_MAX; i++) {
            ck_assert(!where_trim(x));
            (void)snprintf(text, sizeof(text), "disk\n!= %d\n", i);
            ck_assert_int_eq(where_of(x, text, &w), 0);
        }
        ck_assert(!where_trim(x)); // each was used
        ck_assert_int_eq(where_of(x, "disk\n!= 7\n", &w), 0);
        ck_assert(where_trim(x));
        ck_assert_uint_eq(HASH_COUNT(x->wheres), 1);
        ck_assert_int_eq(where_of(x, "disk\n!= 7\n", &kept), 0);
        ck_assert_ptr_eq(w, kept);
        plan_index_free(x);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("where");
    tcase_add_test(t, bits_follow_the_labels);
    tcase_add_test(t, no_conditions_are_met_by_all);
    tcase_add_test(t, what_was_not_used_lately_is_dropped);
    tcase_add_test(t, tells_the_first_that_is_not_met);
    return run_case("where", t);
}
