// SPDX-License-Identifier: Apache-2.0
// Who gets a place at the TLS front: people at their limits, agents beside them, half handshakes,
// requests that the guard refuses, and ends without descriptors.
#include "test/unit/common/http_util.h"
#include "test/unit/common/raw_util.h"

#include <sys/resource.h>

#define MANY 12

static struct site site;
static struct reply reply;
static unsigned offences;

static bool is_n1(const struct http_peer *peer, void *userdata)
{
    (void)userdata;
    return strcmp(peer->cert_cn, "n1") == 0;
}

static void on_offence(const char *address, const char *what, void *userdata)
{
    (void)userdata;
    ck_assert_str_eq(address, "127.0.0.1");
    ck_assert_uint_gt(strlen(what), 0);
    offences++;
}

static struct http_server_stats stats(void)
{
    struct http_server_stats s;
    http_server_stats(site.server, &s);
    return s;
}

static struct http_server_options limited(unsigned people, unsigned address_people)
{
    struct http_server_options o = site_defaults;
    o.limits = (struct http_limits){.people = people,
                                    .address_people = address_people,
                                    .handshakes = 4,
                                    .is_agent = is_n1,
                                    .offence = on_offence};
    offences = 0;
    return o;
}

// `x->tls` has n1's certificate, the others have none.
static void fill(struct site *x, struct http_client *clients[], size_t n)
{
    for (size_t i = 0; i < n; i++) {
        clients[i] = client_to(x, x->url, x->ca.cert, NULL);
        get(x, clients[i], "/", &reply);
        ck_assert_int_eq(reply.status, 200);
    }
}

static void empty(struct site *x, struct http_client *clients[], size_t n)
{
    for (size_t i = 0; i < n; i++)
        client_end(x, clients[i]);
}

START_TEST(people_at_their_limit_leave_agents_alone)
    {
        struct site *x = &site;
        struct http_client *clients[3], *more;

        site_start(x, limited(3, 0));
        fill(x, clients, 3);
        more = client_to(x, x->url, x->ca.cert, NULL);
        get(x, more, "/", &reply); // the others are too fresh to make room
        ck_assert_int_eq(reply.status, 503);
        ck_assert_ptr_nonnull(strstr(reply.body, "limits.connections"));
        ck_assert_uint_eq(stats().refused_full, 1);
        ck_assert_uint_eq(offences, 1);
        get(x, x->tls, "/", &reply);
        ck_assert_int_eq(reply.status, 200);
        ck_assert_uint_eq(stats().agents, 1);
        ck_assert_uint_eq(stats().people_idle, 3);
        run_for(x, 1100); // now they had their time: the oldest goes
        get(x, more, "/", &reply);
        ck_assert_int_eq(reply.status, 200);
        ck_assert_uint_eq(stats().evicted_idle, 1);
        ck_assert_uint_eq(stats().people_idle, 3);
        client_end(x, more);
        empty(x, clients, 3);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

START_TEST(one_address_has_its_share)
    {
        struct site *x = &site;
        struct http_client *clients[2], *more;

        site_start(x, limited(10, 2));
        fill(x, clients, 2);
        more = client_to(x, x->url, x->ca.cert, NULL);
        get(x, more, "/", &reply);
        ck_assert_int_eq(reply.status, 429);
        ck_assert_ptr_nonnull(strstr(reply.body, "limits.address_connections"));
        ck_assert_uint_eq(stats().refused_address, 1);
        get(x, x->tls, "/", &reply); // the agent comes from the same address
        ck_assert_int_eq(reply.status, 200);
        client_end(x, more);
        empty(x, clients, 2);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

// Half-open handshakes fill their part; when they had their time they make room.
START_TEST(half_handshakes_make_room)
    {
        struct site *x = &site;
        static struct raw half[MANY];

        site_start(x, limited(10, 0));
        for (size_t i = 0; i < MANY; i++) {
            raw_open(x, &half[i], true);
            raw_send(&half[i], "\x16\x03\x01\x02");
        }
        run_for(x, 50);
        ck_assert_uint_eq(stats().handshakes, 4);
        get(x, x->tls, "/", &reply); // waits in the backlog, behind them
        ck_assert_int_eq(reply.status, 200);
        ck_assert_uint_ge(stats().handshakes_evicted, MANY - 4);
        ck_assert_uint_le(stats().handshakes, 4);
        for (size_t i = 0; i < MANY; i++)
            raw_end(x, &half[i]);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

// What was sent and not read yet is the server's delay: once, such a handshake does not make room.
START_TEST(handshakes_that_go_on_are_spared_once)
    {
        struct site *x = &site;
        static struct raw half[5];

        site_start(x, limited(10, 0));
        for (size_t i = 0; i < 4; i++) {
            raw_open(x, &half[i], true);
            raw_send(&half[i], "\x16\x03\x01\x02");
        }
        run_for(x, 1100);
        raw_open(x, &half[4], true); // the listener hears of it before the others' bytes
        for (size_t i = 0; i < 4; i++)
            raw_send(&half[i], "\x16");
        run_for(x, 50);
        ck_assert_uint_eq(stats().handshakes_evicted, 0);
        ck_assert_uint_eq(stats().handshakes, 4);
        run_for(x, 1100);
        ck_assert_uint_ge(stats().handshakes_evicted, 1);
        for (size_t i = 0; i < 5; i++)
            raw_end(x, &half[i]);
        site_stop(x);
    }
END_TEST

START_TEST(handshakes_of_one_address_are_bounded)
    {
        struct site *x = &site;
        static struct raw half[4];
        struct http_server_options o = limited(10, 0);

        o.limits.handshakes = 100;
        o.limits.address_handshakes = 2;
        site_start(x, o);
        for (size_t i = 0; i < 4; i++) {
            raw_open(x, &half[i], true);
            raw_send(&half[i], "\x16\x03\x01\x02");
        }
        await(x, &half[2].got.done); // closed at once
        await(x, &half[3].got.done);
        ck_assert_uint_eq(stats().handshakes, 2);
        ck_assert_uint_eq(stats().refused_address, 2);
        for (size_t i = 0; i < 4; i++)
            raw_end(x, &half[i]);
        site_stop(x);
    }
END_TEST

// The handshake is done when there is no descriptor for the pair: the connection waits for one, and
// an idle one of people goes.
START_TEST(without_descriptors_an_agent_waits_for_one)
    {
        struct site *x = &site;
        struct http_client *clients[1];
        struct rlimit old, low;

        site_start(x, limited(10, 0));
        fill(x, clients, 1);
        struct http_client *agent = client_to(x, x->url, x->ca.cert, &x->node);
        get(x, agent, "/", &reply);
        ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
        (void)send_call(x->tls, (struct http_call_options){.path = "/"}, &reply);
        while (stats().handshakes == 0)
            (void)uv_run(&x->loop, UV_RUN_ONCE);
        low = old;
        low.rlim_cur = 3;
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &low), 0);
        while (stats().starved == 0)
            (void)uv_run(&x->loop, UV_RUN_ONCE);
        ck_assert_uint_eq(stats().evicted_idle, 1); // not the agent's
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &old), 0);
        ck_assert(!reply.done);
        client_end(x, agent);
        await(x, &reply.done);
        ck_assert_msg(reply.status == 200, "%d %s", reply.error, reply.text);
        ck_assert_uint_eq(stats().starved, 1);
        ck_assert_uint_eq(stats().agents, 1);
        empty(x, clients, 1);
        reply_reset(&reply);
        site_stop(x);
    }
END_TEST

RUN_SUITE("tls_room", 60, people_at_their_limit_leave_agents_alone, one_address_has_its_share,
          half_handshakes_make_room, handshakes_that_go_on_are_spared_once,
          handshakes_of_one_address_are_bounded, without_descriptors_an_agent_waits_for_one)
