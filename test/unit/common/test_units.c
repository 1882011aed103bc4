// SPDX-License-Identifier: Apache-2.0
// Units: what people may write, exactly; what is refused; printing and parsing are inverses.
#include "common/units.h"

#include "common/cleanup.h"
#include "test/unit/suite.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

typedef int (*parse_fn)(const char *, int64_t *, struct err *);

struct good {
    const char *text;
    int64_t value;
};

struct bad {
    const char *text;
    int code;
    const char *says;
};

static void check_good(parse_fn parse, const struct good *g, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct err e = {""};
        int64_t value = -1;
        ck_assert_msg(parse(g[i].text, &value, &e) == 0, "%s: %s", g[i].text, e.text);
        ck_assert_msg(value == g[i].value, "%s gave %lld", g[i].text, (long long)value);
    }
}

static void check_bad(parse_fn parse, const struct bad *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct err e = {""};
        int64_t value = -77;
        ck_assert_msg(parse(b[i].text, &value, &e) == b[i].code, "%s: %s", b[i].text, e.text);
        ck_assert_msg(value == -77, "%s wrote its result", b[i].text);
        ck_assert_msg(strstr(e.text, b[i].says) != NULL, "%s: %s", b[i].text, e.text);
    }
}

#define MIB (INT64_C(1) << 20)
#define GIB (INT64_C(1) << 30)

START_TEST(cpu)
    {
        static const struct good good[] = {
            {"4", 4000},     {"0.5", 500},    {"500m", 500},           {"0", 0},
            {"0.1", 100},    {"0.001", 1},    {"1.10", 1100},          {"1m", 1},
            {"0.5000", 500}, {"2500m", 2500}, {"1000000", 1000000000},
        };
        static const struct bad bad[] = {
            {"", -EINVAL, "number of cores"},
            {"x", -EINVAL, "number of cores"},
            {"-1", -EINVAL, "number of cores"},
            {"0.0001", -EINVAL, "millicores"},
            {"0.5m", -EINVAL, "millicores"},
            {"1.", -EINVAL, "number of cores"},
            {".5", -EINVAL, "number of cores"},
            {"1 m", -EINVAL, "number of cores"},
            {"4 ", -EINVAL, "number of cores"},
            {"1e3", -EINVAL, "number of cores"},
            {"0x10", -EINVAL, "number of cores"},
            {"nan", -EINVAL, "number of cores"},
            {"9223372036854775807", -ERANGE, "too large"},
            {"99999999999999999999", -EINVAL, "number of cores"},
        };
        check_good(units_parse_cpu, good, ARRAY_SIZE(good));
        check_bad(units_parse_cpu, bad, ARRAY_SIZE(bad));
    }
END_TEST

START_TEST(memory)
    {
        static const struct good good[] = {
            {"8192m", 8192 * MIB},
            {"4096M", 4096 * MIB},
            {"1MB", MIB},
            {"1Mi", MIB},
            {"1MiB", MIB},
            {"2g", 2 * GIB},
            {"2G", 2 * GIB},
            {"2GB", 2 * GIB},
            {"2Gi", 2 * GIB},
            {"512", 512 * MIB},
            {"1.5g", 3 * GIB / 2},
            {"0", 0},
            {"1k", 1024},
            {"1Ki", 1024},
            {"1t", 1024 * GIB},
            {"1Ti", 1024 * GIB},
            {"7b", 7},
            {"0.5", MIB / 2},
            {"9223372036854775807b", INT64_MAX},
        };
        static const struct bad bad[] = {
            {"", -EINVAL, "amount of memory"},
            {"m", -EINVAL, "amount of memory"},
            {"1q", -EINVAL, "amount of memory"},
            {"1mm", -EINVAL, "amount of memory"},
            {"1 g", -EINVAL, "amount of memory"},
            {"-1g", -EINVAL, "amount of memory"},
            {"1.1g", -EINVAL, "bytes"},
            {"0.5b", -EINVAL, "bytes"},
            {"9223372036854775808b", -ERANGE, "too large"},
            {"9000000000000g", -ERANGE, "too large"},
        };
        check_good(units_parse_memory, good, ARRAY_SIZE(good));
        check_bad(units_parse_memory, bad, ARRAY_SIZE(bad));
    }
END_TEST

START_TEST(duration)
    {
        static const struct good good[] = {
            {"1500ms", 1500},
            {"10s", 10000},
            {"5m", 300000},
            {"12h", 43200000},
            {"7d", 604800000},
            {"90", 90000},
            {"1h30m", 5400000},
            {"0", 0},
            {"1.5s", 1500},
            {"0.25", 250},
            {"1d1h1m1s1ms", 90061001},
            {"0ms", 0},
        };
        static const struct bad bad[] = {
            {"", -EINVAL, "duration"},
            {"s", -EINVAL, "duration"},
            {"1w", -EINVAL, "duration"},
            {"30m1h", -EINVAL, "duration"},
            {"1h1h", -EINVAL, "duration"},
            {"1h30", -EINVAL, "duration"},
            {"-5s", -EINVAL, "duration"},
            {"5 s", -EINVAL, "duration"},
            {"22:22", -EINVAL, "duration"},
            {"0.5ms", -EINVAL, "milliseconds"},
            {"9999999999999999d", -ERANGE, "too large"},
            {"106751991167d9223372036854775807ms", -ERANGE, "too large"},
        };
        check_good(units_parse_duration, good, ARRAY_SIZE(good));
        check_bad(units_parse_duration, bad, ARRAY_SIZE(bad));
    }
END_TEST

static void round_trip(void (*format)(int64_t, char *), parse_fn parse, int64_t value)
{
    char text[UNITS_TEXT_BYTES];
    int64_t back = -1;
    struct err e = {""};

    format(value, text);
    ck_assert_msg(parse(text, &back, &e) == 0, "%s: %s", text, e.text);
    ck_assert_msg(back == value, "%lld -> %s -> %lld", (long long)value, text, (long long)back);
}

START_TEST(printing_and_parsing_are_inverses)
    {
        static const int64_t some[] = {0,          1,       999,      1000,  1001, 1023,
                                       1024,       1025,    60000,    61000, MIB,  MIB + 1,
                                       MIB + 1024, 3600000, 86400000, GIB};
        for (size_t i = 0; i < ARRAY_SIZE(some); i++) {
            round_trip(units_format_cpu, units_parse_cpu, some[i]);
            round_trip(units_format_memory, units_parse_memory, some[i]);
            round_trip(units_format_duration, units_parse_duration, some[i]);
        }
        round_trip(units_format_cpu, units_parse_cpu, INT64_MAX);
        round_trip(units_format_memory, units_parse_memory, INT64_MAX);
        round_trip(units_format_duration, units_parse_duration, INT64_MAX);
        srandom(7);
        for (int i = 0; i < 2000; i++) {
            int64_t value = ((int64_t)random() << 20 | random()) >> (random() % 50);
            round_trip(units_format_cpu, units_parse_cpu, value);
            round_trip(units_format_memory, units_parse_memory, value);
            round_trip(units_format_duration, units_parse_duration, value);
        }
    }
END_TEST

static void check_text(void (*format)(int64_t, char *), int64_t value, const char *want)
{
    char text[UNITS_TEXT_BYTES];
    format(value, text);
    ck_assert_str_eq(text, want);
}

START_TEST(texts)
    {
        check_text(units_format_cpu, 4000, "4");
        check_text(units_format_cpu, 500, "500m");
        check_text(units_format_memory, 8192 * MIB, "8192m");
        check_text(units_format_memory, 1024, "1k");
        check_text(units_format_memory, 1, "1b");
        check_text(units_format_duration, 10000, "10s");
        check_text(units_format_duration, 1500, "1500ms");
        check_text(units_format_duration, 90000, "90s");
        check_text(units_format_duration, 0, "0s");
        check_text(units_human_cpu, 7500, "7.5");
        check_text(units_human_cpu, 250, "0.25");
        check_text(units_human_cpu, 8000, "8");
        check_text(units_human_cpu, 999996, "1000");
        check_text(units_human_cpu, -50, "-0.05");
        check_text(units_human_memory, 16 * GIB, "16.0 GiB");
        check_text(units_human_memory, 1000, "1000 B");
        check_text(units_human_memory, GIB - 1, "1.0 GiB");
        check_text(units_human_memory, -GIB, "-1.0 GiB");
        check_text(units_human_memory, INT64_MAX, "8.0 EiB");
        check_text(units_human_duration, 192000, "3m12s");
        check_text(units_human_duration, 250, "250ms");
        check_text(units_human_duration, 3600000 * 5 + 60000, "5h1m");
        check_text(units_human_duration, 86400000 * 3, "3d0h");
        check_text(units_human_duration, INT64_MIN, "-106751991167d7h");
    }
END_TEST

int main(void)
{
    TCase *c = tcase_create("units");
    tcase_add_test(c, cpu);
    tcase_add_test(c, memory);
    tcase_add_test(c, duration);
    tcase_add_test(c, printing_and_parsing_are_inverses);
    tcase_add_test(c, texts);
    return run_case("units", c);
}
