// SPDX-License-Identifier: Apache-2.0
// What images nodes tell: shown, of use between equal nodes, refused when it is no such list.
#include "test/unit/master/cluster_fixture.h"

#include "common/cleanup.h"
#include "common/json.h"
#include "master/cluster/cluster_internal.h"
#include "test/unit/suite.h"

#define JOB(name)                                                                                  \
    "{\"name\":\"" name                                                                            \
    "\",\"components\":{\"m\":{\"image\":\"docker.io/library/rare\",\"command\":\"true\","         \
    "\"resources\":{\"cpu\":2}}}}"

static const char *first_image(const struct node *n)
{
    static char text[64];
    cleanup_json json_t *view = node_view(n);
    const json_t *list = json_object_get(view, "images");
    const char *name = json_string_value(json_array_get(list, 0));
    (void)snprintf(text, sizeof(text), "%zu %s", json_array_size(list), name ? name : "");
    return text;
}

static void tell(struct agent *a, json_t *images, int expected)
{
    said_images = images;
    ck_assert_int_eq(say(a, false, NULL, false), expected);
}

static struct node *runs_on(const char *text)
{
    struct job *j = submit(text);
    settle();
    return j->tasks[0].node;
}

START_TEST(of_equal_nodes_the_one_that_has_it)
    {
        struct agent a = {0}, b = {0};
        agent_join(&a, "n1", 8);
        agent_join(&b, "n2", 8);
        ck_assert_str_eq(first_image(b.node), "0 ");
        tell(&b, json_pack("[s, s]", "other:1", "rare:latest"), 0);
        ck_assert_str_eq(first_image(b.node), "2 other:1");
        cleanup_json json_t *listed = node_summary(b.node);
        ck_assert_ptr_null(json_object_get(listed, "images"));
        ck_assert_ptr_eq(runs_on(JOB("j")), b.node);
    }
END_TEST

START_TEST(what_was_told_last_counts)
    {
        struct agent a = {0}, b = {0};
        agent_join(&a, "n1", 8);
        agent_join(&b, "n2", 8);
        b.seq = 10;
        tell(&b, json_pack("[s]", "rare:latest"), 0); // 11
        b.seq = 9;
        tell(&b, json_array(), 0); // 10, overtaken
        ck_assert_str_eq(first_image(b.node), "1 rare:latest");
        ck_assert_int_eq(say(&b, false, node_info(8), false), 0); // says nothing of images
        ck_assert_str_eq(first_image(b.node), "1 rare:latest");
        b.seq = 12;
        tell(&b, json_array(), 0);
        ck_assert_str_eq(first_image(b.node), "0 ");
        ck_assert_ptr_eq(runs_on(JOB("j")), a.node);
    }
END_TEST

START_TEST(no_such_list)
    {
        struct agent a = {0};
        agent_join(&a, "n1", 8);
        tell(&a, json_pack("[s]", "rare:latest"), 0);
        json_t *many = json_array();
        for (int i = 0; i <= 100; i++)
            (void)json_array_append_new(many, json_string("x:1"));
        tell(&a, many, -EPROTO);
        tell(&a, json_pack("[i]", 1), -EPROTO);
        tell(&a, json_pack("[o]", json_sprintf("%0600d", 0)), -EPROTO);
        ck_assert_str_eq(first_image(a.node), "1 rare:latest");
    }
END_TEST

START_TEST(a_node_that_leaves_takes_them_along)
    {
        struct agent a = {0}, b = {0};
        agent_join(&a, "n1", 8);
        agent_join(&b, "n2", 8);
        tell(&b, json_pack("[s]", "rare:latest"), 0);
        ck_assert_ptr_eq(runs_on(JOB("first")), b.node);
        tell(&a, json_pack("[s]", "x:1"), 0);
        cluster_node_remove(cluster, a.node, "op");
        settle();
        ck_assert_ptr_null(cluster_node_by_name(cluster, "n1"));
        ck_assert_ptr_null(plan_images_find(&cluster->images, "x:1"));
        ck_assert_ptr_eq(runs_on(JOB("j")), b.node);
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("node_images");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, of_equal_nodes_the_one_that_has_it);
    tcase_add_test(t, what_was_told_last_counts);
    tcase_add_test(t, no_such_list);
    tcase_add_test(t, a_node_that_leaves_takes_them_along);
    return run_case("node_images", t);
}
