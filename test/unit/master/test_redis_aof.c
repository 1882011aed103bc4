// SPDX-License-Identifier: Apache-2.0
// Zeros at the end of Redis' file go, and nothing else.
#include "master/store/redis_aof.h"

#include "test/unit/master/store_fixture.h"
#include "test/unit/suite.h"

static void put(const char *dir, const char *name, const char *data, size_t len)
{
    char path[200];
    (void)snprintf(path, sizeof(path), "%s/appendonlydir/%s", dir, name);
    ck_assert_int_eq(atomic_file_write(path, data, len, 0600, NULL), 0);
}

static void expect(const char *dir, const char *name, const char *data, size_t len)
{
    char path[200], *found = NULL;
    size_t n;
    (void)snprintf(path, sizeof(path), "%s/appendonlydir/%s", dir, name);
    ck_assert_int_eq(atomic_file_read(path, 1 << 20, &found, &n, NULL), 0);
    ck_assert_uint_eq(n, len);
    ck_assert(memcmp(found, data, len) == 0);
    free(found);
}

START_TEST(zeros_at_the_end_are_cut)
    {
        static const char manifest[] = "file a.base.rdb seq 1 type b\nfile a.1 seq 1 type i\n"
                                       "file a.2 seq 2 type i\nfile old seq 0 type h\n";
        static const size_t sizes[] = {0, 1, 4, 65535, 65536, 65537, 200000};
        struct place p;
        char folder[200], *data = calloc(1, 300000);
        int64_t cut;
        place_make(&p);
        ck_assert_int_eq(redis_aof_cut_zeros(p.dir, &cut, NULL), 0); // nothing there yet
        ck_assert_int_eq(cut, 0);
        (void)snprintf(folder, sizeof(folder), "%s/appendonlydir", p.dir);
        ck_assert_int_eq(make_dirs(folder, 0700, NULL), 0);
        put(p.dir, "appendonly.aof.manifest", manifest, sizeof(manifest) - 1);
        ck_assert_int_eq(redis_aof_cut_zeros(p.dir, &cut, NULL), 0); // named, but not made yet
        put(p.dir, "a.base.rdb", "x\0\0", 3);
        put(p.dir, "a.1", "x\0\0", 3);
        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
            for (size_t zeros = 0; zeros <= 70000; zeros += zeros ? 69999 : 1) {
                memset(data, 'x', sizes[i]);
                if (sizes[i] > 2)
                    data[1] = '\0'; // one in the middle stays
                memset(data + sizes[i], 0, zeros);
                put(p.dir, "a.2", data, sizes[i] + zeros);
                ck_assert_int_eq(redis_aof_cut_zeros(p.dir, &cut, NULL), 0);
                ck_assert_int_eq(cut, (int64_t)zeros);
                expect(p.dir, "a.2", data, sizes[i]);
            }
        expect(p.dir, "a.1", "x\0\0", 3);
        expect(p.dir, "a.base.rdb", "x\0\0", 3);
        free(data);
        place_drop(&p);
    }
END_TEST

START_TEST(odd_manifests_touch_nothing)
    {
        static const char *const manifests[] = {"", "file", "file ../x seq 1 type i\n",
                                                "file a.1 seq 1 type b\n", "nonsense\n\n\n"};
        struct place p;
        char folder[200];
        int64_t cut;
        place_make(&p);
        (void)snprintf(folder, sizeof(folder), "%s/appendonlydir", p.dir);
        ck_assert_int_eq(make_dirs(folder, 0700, NULL), 0);
        put(p.dir, "a.1", "x\0", 2);
        put(p.dir, "../x", "x\0", 2);
        for (size_t i = 0; i < sizeof(manifests) / sizeof(manifests[0]); i++) {
            put(p.dir, "appendonly.aof.manifest", manifests[i], strlen(manifests[i]));
            ck_assert_int_eq(redis_aof_cut_zeros(p.dir, &cut, NULL), 0);
            ck_assert_int_eq(cut, 0);
        }
        expect(p.dir, "a.1", "x\0", 2);
        expect(p.dir, "../x", "x\0", 2);
        place_drop(&p);
    }
END_TEST

int main(void)
{
    TCase *all = tcase_create("all");
    tcase_add_test(all, zeros_at_the_end_are_cut);
    tcase_add_test(all, odd_manifests_touch_nothing);
    return run_case("redis_aof", all);
}
