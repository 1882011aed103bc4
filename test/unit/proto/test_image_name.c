// SPDX-License-Identifier: Apache-2.0
// One form for the names of images.
#include "proto/image_name.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *reference, *name;
} cases[] = {
    {"python", "python:latest"},
    {"python:3", "python:3"},
    {"library/python:3", "python:3"},
    {"docker.io/library/python", "python:latest"},
    {"index.docker.io/library/python:3", "python:3"},
    {"docker.io/team/app:1", "team/app:1"},
    {"team/app", "team/app:latest"},
    {"localhost:5000/app", "localhost:5000/app:latest"},
    {"localhost:5000/app:2", "localhost:5000/app:2"},
    {"index.example.org/app:2", "index.example.org/app:2"},
    {"app@sha256:01", "app@sha256:01"},
    {"app:3@sha256:01", "app@sha256:01"},
    {"localhost:5000/app@sha256:01", "localhost:5000/app@sha256:01"},
    {"", ":latest"},
};

START_TEST(short_form)
    {
        char out[IMAGE_NAME_BYTES];
        image_name(cases[_i].reference, out, sizeof(out));
        ck_assert_str_eq(out, cases[_i].name);
    }
END_TEST

START_TEST(cut_to_its_room)
    {
        char out[8];
        image_name("team/application:1", out, sizeof(out));
        ck_assert_str_eq(out, "team/ap");
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("image_name");
    tcase_add_loop_test(t, short_form, 0, (int)ARRAY_SIZE(cases));
    tcase_add_test(t, cut_to_its_room);
    return run_case("image_name", t);
}
