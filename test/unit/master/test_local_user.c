// SPDX-License-Identifier: Apache-2.0
// Local administrators: root, the own user, members of the group; nobody else.
#include "master/api/local_user.h"
#include "test/unit/suite.h"

#include <check.h>
#include <grp.h>
#include <pwd.h>
#include <string.h>
#include <unistd.h>

static char name[NAME_BYTES];

START_TEST(test_root_and_self)
    {
        ck_assert(local_user_allowed((gid_t)-1, 0, 0, name));
        ck_assert_str_eq(name, "root");
        ck_assert(local_user_allowed((gid_t)-1, geteuid(), getegid(), name));
    }
END_TEST

START_TEST(test_members_of_the_group)
    {
        const struct passwd *nobody = getpwnam("nobody");
        const struct group *tty = getgrnam("tty");
        ck_assert_ptr_nonnull(nobody);
        ck_assert_ptr_nonnull(tty);
        uid_t uid = nobody->pw_uid;
        gid_t gid = nobody->pw_gid;
        ck_assert(!local_user_allowed((gid_t)-1, uid, gid, name));
        ck_assert_str_eq(name, "nobody");
        ck_assert(!local_user_allowed(tty->gr_gid, uid, gid, name));
        ck_assert(local_user_allowed(gid, uid, gid, name)); // its primary group
    }
END_TEST

START_TEST(test_unknown_uid)
    {
        for (unsigned i = 0; i < 40; i++) // more than are remembered
            ck_assert(!local_user_allowed(5, 3999999990u + i, 5, name));
        ck_assert_str_eq(name, "uid-4000000029");
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("local_user");
    tcase_add_test(t, test_root_and_self);
    tcase_add_test(t, test_members_of_the_group);
    tcase_add_test(t, test_unknown_uid);
    return run_case("local_user", t);
}
