// SPDX-License-Identifier: Apache-2.0
// Logs as text, as lines with their time, and as JSON lines.
#include "test/unit/master/log_util.h"

#include "common/json.h"
#include "master/logs/log_render.h"
#include "test/unit/suite.h"

#define OUT LOG_STDOUT
#define ERR LOG_STDERR

static struct log_render *render;
static struct strbuf out;

static void make(enum log_format format, bool timestamps, const char *prefix)
{
    const struct log_render_options o = {.format = format,
                                         .timestamps = timestamps,
                                         .prefix = prefix,
                                         .task = "j1/actor/0",
                                         .attempt = 2};
    log_render_free(render);
    strbuf_reset(&out);
    ck_assert_int_eq(log_render_new(&o, &render), 0);
}

static void done(void)
{
    log_render_free(render);
    render = NULL;
    strbuf_reset(&out);
}

static void chunk(enum log_channel c, int64_t time_ms, const char *data, size_t len)
{
    const struct log_chunk k = {.channel = c, .time_ms = time_ms, .data = data, .len = len};
    log_render_chunk(render, &k, &out);
}

static void say(enum log_channel c, int64_t time_ms, const char *text)
{
    chunk(c, time_ms, text, strlen(text));
}

static void lose(enum log_channel c, uint64_t n)
{
    const struct log_chunk k = {.channel = c, .time_ms = 5000, .gap = n};
    log_render_chunk(render, &k, &out);
}

static void is(const char *expected)
{
    log_render_end(render, &out);
    ck_assert(!out.failed);
    ck_assert_str_eq(out.data ? out.data : "", expected);
}

START_TEST(test_text_is_as_written)
    {
        make(LOG_TEXT, false, NULL);
        say(OUT, 0, "one\ntw");
        say(ERR, 0, "err");
        say(OUT, 0, "o\n");
        chunk(OUT, 0, "\0\xff\n", 3);
        log_render_end(render, &out);
        ck_assert_uint_eq(out.len, 14);
        ck_assert_mem_eq(out.data, "one\ntwerro\n\0\xff\n", 14);
    }
END_TEST

START_TEST(test_text_with_gaps)
    {
        make(LOG_TEXT, false, NULL);
        lose(OUT, 7);
        say(OUT, 0, "half");
        lose(ERR, 12);
        say(OUT, 0, " way\n");
        is("[meadow: 7 bytes of stdout lost here]\nhalf\n[meadow: 12 bytes of stderr lost here]\n "
           "way\n");
    }
END_TEST

START_TEST(test_lines_with_times)
    {
        make(LOG_LINES, true, "actor/0 | ");
        say(OUT, 1000, "one\ntw");
        say(ERR, 2000, "err\n\n");
        say(OUT, 3000, "o\nend");
        lose(ERR, 3);
        is("actor/0 | 1970-01-01T00:00:01.000Z one\n"
           "actor/0 | 1970-01-01T00:00:02.000Z err\n"
           "actor/0 | 1970-01-01T00:00:02.000Z \n"
           "actor/0 | 1970-01-01T00:00:01.000Z two\n"
           "actor/0 | 1970-01-01T00:00:05.000Z [meadow: 3 bytes of stderr lost here]\n"
           "actor/0 | 1970-01-01T00:00:03.000Z end\n");
    }
END_TEST

START_TEST(test_json)
    {
        make(LOG_JSON, false, NULL);
        say(OUT, 1500, "h\"\xc3\xa9\n");
        chunk(ERR, 1500, "a\xff\n", 3);
        chunk(OUT, 1500, "n\0l\n", 4);
        lose(OUT, 9);
        say(OUT, 1500, "rest");
        is("{\"task\":\"j1/actor/"
           "0\",\"attempt\":2,\"stream\":\"stdout\",\"time\":\"1970-01-01T00:00:01.500Z\",\"text\":"
           "\"h\\\"\xc3\xa9\"}\n"
           "{\"task\":\"j1/actor/"
           "0\",\"attempt\":2,\"stream\":\"stderr\",\"time\":\"1970-01-01T00:00:01.500Z\","
           "\"base64\":\"Yf8=\"}\n"
           "{\"task\":\"j1/actor/"
           "0\",\"attempt\":2,\"stream\":\"stdout\",\"time\":\"1970-01-01T00:00:01.500Z\",\"text\":"
           "\"n\\u0000l\"}\n"
           "{\"task\":\"j1/actor/"
           "0\",\"attempt\":2,\"stream\":\"stdout\",\"time\":\"1970-01-01T00:00:05.000Z\",\"gap\":"
           "9}\n"
           "{\"task\":\"j1/actor/"
           "0\",\"attempt\":2,\"stream\":\"stdout\",\"time\":\"1970-01-01T00:00:01.500Z\",\"text\":"
           "\"rest\","
           "\"partial\":true}\n");
    }
END_TEST

// Joins the texts of all lines; checks that each is bounded and that all but the last of a line are
// partial.
static size_t join(char *to, int *ret_lines)
{
    size_t len = 0;
    *ret_lines = 0;
    for (char *line = out.data, *end; line && (end = strchr(line, '\n')); line = end + 1) {
        struct err e;
        cleanup_json json_t *o = NULL;
        const char *text = NULL;
        ck_assert_int_eq(json_parse(line, (size_t)(end - line), &o, &e), 0);
        ck_assert_int_eq(json_get_str(o, "text", &text, &e), 0);
        ck_assert_uint_le(strlen(text), LOG_LINE_BYTES);
        memcpy(to + len, text, strlen(text));
        len += strlen(text);
        ck_assert_int_eq(json_opt_bool(o, "partial", false), end[1] != '\0');
        (*ret_lines)++;
    }
    return len;
}

START_TEST(test_json_cuts_long_lines)
    {
        size_t len = 1 << 20, lines_at[] = {LOG_LINE_BYTES, LOG_LINE_BYTES + 1, LOG_LINE_BYTES - 1};
        int lines;
        cleanup_free char *big = malloc(len + 1), *got = malloc(len + 1);
        for (size_t i = 0; i + 2 < len; i += 3)
            memcpy(big + i, "\xe2\x82\xac", 3); // three bytes each, so that cuts fall within
        big[len - 1] = '\n';
        make(LOG_JSON, false, NULL);
        for (size_t i = 0; i < len; i += 1000)
            chunk(OUT, 1, big + i, len - i < 1000 ? len - i : 1000);
        ck_assert_uint_eq(join(got, &lines), len - 1);
        ck_assert_mem_eq(got, big, len - 1);
        ck_assert_int_eq(lines, 17);
        for (size_t i = 0; i < ARRAY_SIZE(lines_at); i++) {
            memset(big, 'x', len);
            big[lines_at[i]] = '\n';
            make(LOG_JSON, false, NULL);
            chunk(OUT, 1, big, lines_at[i] + 1);
            ck_assert_uint_eq(join(got, &lines), lines_at[i]);
            ck_assert_int_eq(lines, lines_at[i] > LOG_LINE_BYTES ? 2 : 1);
        }
    }
END_TEST

START_TEST(test_from_a_reader)
    {
        struct log_reader *r;
        char text[4001];
        begin();
        for (int i = 0; i < 1000; i++)
            memcpy(text + (size_t)i * 4, "abc\n", 4);
        text[4000] = '\0';
        put("a", OUT, 0, text);
        put("a", OUT, 4000, text);
        make(LOG_TEXT, false, NULL);
        ck_assert_int_eq(log_reader_open(store, "a", LOG_ALL_CHANNELS, LOG_TAIL_ALL, &r), 0);
        ck_assert_int_eq(log_render_some(render, r, &out, 100), LOG_NEXT_CHUNK);
        ck_assert_uint_eq(out.len, 4000);
        ck_assert_int_eq(log_render_some(render, r, &out, 1 << 20), LOG_NEXT_END);
        ck_assert_uint_eq(out.len, 8000);
        log_reader_close(r);
        end();
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("render");
    tcase_add_checked_fixture(t, NULL, done);
    tcase_add_test(t, test_text_is_as_written);
    tcase_add_test(t, test_text_with_gaps);
    tcase_add_test(t, test_lines_with_times);
    tcase_add_test(t, test_json);
    tcase_add_test(t, test_json_cuts_long_lines);
    tcase_add_test(t, test_from_a_reader);
    return run_case("log_render", t);
}
