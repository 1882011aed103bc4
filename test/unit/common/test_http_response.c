// SPDX-License-Identifier: Apache-2.0
// Streamed answers: data as it comes, backpressure, clients that leave.
#include "test/unit/common/http_util.h"

static struct site site;
static struct reply reply;

static size_t streamed_in;
static unsigned pieces;

static int on_chunk(const char *data, size_t len, void *userdata)
{
    (void)data, (void)userdata;
    streamed_in += len;
    pieces++;
    happened();
    return 0;
}

START_TEST(streams)
    {
        struct site *x = &site;

        site_start(x, site_defaults);
        streamed_in = pieces = 0;
        (void)send_call(x->local, (struct http_call_options){.path = "/stream", .chunk = on_chunk},
                        &reply);
        await_count(x, &x->ready, 1);
        for (unsigned i = 1; i <= 3; i++) {
            (void)http_stream_write(x->stream, "event\n\n", 7);
            await_count(x, &pieces, i);
            ck_assert_uint_eq(streamed_in, 7 * (size_t)i);
            x->turns = 0;
            run_for(x, 20);
            ck_assert_uint_lt(x->turns, 5); // a stream without data is at rest
        }
        ck_assert_uint_eq(http_stream_write(x->stream, x->big, BIG), BIG);
        await_count(x, &x->drained, 1);
        http_stream_end(x->stream);
        await(x, &reply.done);
        ck_assert_int_eq(reply.status, 200);
        ck_assert_uint_eq(streamed_in, BIG + 21);
        ck_assert_uint_eq(x->gone, 0);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

// Whoever ends a stream may free its own state at once, although bytes still wait.
START_TEST(ended_streams_call_nobody)
    {
        struct site *x = &site;

        site_start(x, site_defaults);
        streamed_in = pieces = 0;
        (void)send_call(x->local, (struct http_call_options){.path = "/stream", .chunk = on_chunk},
                        &reply);
        await_count(x, &x->ready, 1);
        (void)http_stream_write(x->stream, x->big, BIG);
        http_stream_end(x->stream);
        await(x, &reply.done);
        ck_assert_uint_eq(streamed_in, BIG);
        ck_assert_uint_eq(x->drained, 0);
        ck_assert_uint_eq(x->gone, 0);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(client_gone_while_streaming)
    {
        struct site *x = &site;

        site_start(x, site_defaults);
        pieces = 0;
        struct http_call *call = send_call(
            x->local, (struct http_call_options){.path = "/stream", .chunk = on_chunk}, &reply);
        await_count(x, &x->ready, 1);
        (void)http_stream_write(x->stream, "x", 1);
        await_count(x, &pieces, 1);
        http_call_cancel(call);
        await_count(x, &x->gone, 1);
        // With bytes on their way it shows when they can't be written.
        call = send_call(x->local, (struct http_call_options){.path = "/stream", .chunk = on_chunk},
                         &reply);
        await_count(x, &x->ready, 2);
        (void)http_stream_write(x->stream, x->big, BIG);
        http_call_cancel(call);
        await_count(x, &x->gone, 2);
        reply_reset(&reply);
        site_stop(x);
        ck_assert_uint_eq(x->gone, 2);
    }
END_TEST

RUN_SUITE("http_response", 60, streams, ended_streams_call_nobody, client_gone_while_streaming)
