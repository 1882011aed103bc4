// SPDX-License-Identifier: Apache-2.0
// Thousands of agents in one process against a real master: join tokens, keys and certificates of
// their own, TLS 1.3, held syncs, reports, leases. Tasks only take time (attempt.c), they have no
// logs, certificates are not renewed, and an instance lives as long as this process.
//
//   swarm --master ADDRESS:PORT --token FILE [--nodes N] [--history FILE] ...     swarm --help
//
// A line of JSON a second on standard output says how it stands; SIGTERM ends it, SIGUSR1 cuts all
// connections (the agents come back by themselves).
#include "test/sim/swarm/swarm.h"

#include "common/cleanup.h"
#include "common/clock.h"
#include "common/id.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static const char help[] =
    "swarm --master ADDRESS:PORT --token FILE   (the join token, good for all nodes)\n"
    "  --nodes N        100\n"
    "  --cpu N --memory GIB --gpu N   of each node: 32, 256, 0\n"
    "  --least MS --most MS   how long a task lasts whose command is not `sleep S` or `exit N`: "
    "1000, 60000\n"
    "  --start MS       from assignment to start, at most: 50\n"
    "  --reports N      connections for reports, in all: 512\n"
    "  --prefix TEXT    of the nodes' names: s\n"
    "  --history FILE   what happened to each attempt (attempt.c has the format)\n"
    "  --seed N         of the durations: 1\n";

// xorshift64* (Vigna 2016): the same durations for the same seed and order.
uint64_t swarm_random(struct swarm *s)
{
    s->random ^= s->random >> 12;
    s->random ^= s->random << 25;
    s->random ^= s->random >> 27;
    return s->random * UINT64_C(2685821657736338717);
}

// --- reporting ---

static void print_stats(const struct swarm *s)
{
    const struct swarm_stats *t = &s->stats;
    struct rusage use;
    (void)getrusage(RUSAGE_SELF, &use);
    if (s->history) // all of it is there when the line is
        (void)fflush(s->history);
    (void)printf(
        "{\"time_ms\":%lld,\"joined\":%zu,\"online\":%zu,\"running\":%zu,\"starts\":%llu,"
        "\"ends\":%llu,\"syncs\":%llu,\"reports\":%llu,\"answers\":%llu,\"connects\":%llu,"
        "\"failures\":%llu,\"refused\":%llu,\"report_connections\":%lld,\"cpu_ms\":%lld}\n",
        (long long)clock_real_ms(), t->joined, t->online, t->running, (unsigned long long)t->starts,
        (unsigned long long)t->ends, (unsigned long long)t->syncs, (unsigned long long)t->reports,
        (unsigned long long)t->answers, (unsigned long long)t->connects,
        (unsigned long long)t->failures, (unsigned long long)t->refused, (long long)s->n_reports,
        ((long long)use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000 +
            (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1000);
    (void)fflush(stdout);
}

static void on_second(uv_timer_t *timer)
{
    print_stats(timer->data);
}

static void on_end(uv_signal_t *sig, int number)
{
    (void)number;
    print_stats(sig->data);
    exit(0);
}

static void on_cut(uv_signal_t *sig, int number)
{
    struct swarm *s = sig->data;
    (void)number;
    for (int64_t i = 0; i < s->o.nodes; i++)
        if (s->agents[i].sync.conn)
            agent_retry(&s->agents[i]);
}

// --- options ---

static _Noreturn void usage(const char *why)
{
    (void)fprintf(why ? stderr : stdout, "%s%s%s", why ? why : "", why ? "\n" : "", help);
    exit(why ? 2 : 0);
}

static void set_master(struct swarm *s, char *text)
{
    char *colon = strrchr(text, ':');
    if (!colon)
        usage("--master: expected ADDRESS:PORT");
    *colon = '\0';
    s->o.host = text;
    s->master.sin_family = AF_INET;
    s->master.sin_port = htons((uint16_t)atoi(colon + 1));
    if (inet_pton(AF_INET, text, &s->master.sin_addr) != 1)
        usage("--master: expected an IPv4 address");
}

static const char *read_token(const char *path)
{
    static char token[512];
    cleanup_fclose FILE *f = fopen(path, "re");
    if (!f || !fgets(token, sizeof(token), f))
        usage("--token: the file can't be read");
    token[strcspn(token, "\r\n")] = '\0';
    return token;
}

#define AT(member) offsetof(struct swarm_options, member)

static const struct {
    const char *name;
    size_t at;
    int64_t preset, unit;
} numbers[] = {{"nodes", AT(nodes), 100, 1},
               {"cpu", AT(cpu_milli), 32, 1000},
               {"memory", AT(memory), 256, 1 << 30},
               {"gpu", AT(gpu), 0, 1},
               {"least", AT(least_ms), 1000, 1},
               {"most", AT(most_ms), 60000, 1},
               {"start", AT(start_ms), 50, 1},
               {"reports", AT(reports), 512, 1},
               {"seed", AT(seed), 1, 1}};

static void set_number(struct swarm *s, size_t i, int64_t value)
{
    *(int64_t *)((char *)&s->o + numbers[i].at) = value * numbers[i].unit;
}

static void set_word(struct swarm *s, const char *name, char *value)
{
    size_t i = 0;
    while (i < ARRAY_SIZE(numbers) && strcmp(numbers[i].name, name) != 0)
        i++;
    if (i < ARRAY_SIZE(numbers))
        set_number(s, i, strtoll(value, NULL, 10));
    else if (strcmp(name, "master") == 0)
        set_master(s, value);
    else if (strcmp(name, "token") == 0)
        s->o.token = read_token(value);
    else if (strcmp(name, "prefix") == 0)
        s->o.prefix = value;
    else if (strcmp(name, "history") == 0)
        s->o.history = value;
    else
        usage("there is no such option");
}

static void read_options(struct swarm *s, int argc, char **argv)
{
    s->o.prefix = "s";
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        set_number(s, i, numbers[i].preset);
    if (argc == 2 && strcmp(argv[1], "--help") == 0)
        usage(NULL);
    for (int i = 1; i < argc; i += 2) {
        if (strncmp(argv[i], "--", 2) != 0 || i + 1 == argc)
            usage("options are pairs: --name value");
        set_word(s, argv[i] + 2, argv[i + 1]);
    }
    if (!s->o.host || !s->o.token || s->o.most_ms < s->o.least_ms || s->o.reports == 0)
        usage("--master and --token are needed, --most at least --least");
}

static SSL_CTX *client_tls(void)
{
    SSL_CTX *tls = SSL_CTX_new(TLS_client_method());
    if (!tls || SSL_CTX_set_min_proto_version(tls, TLS1_3_VERSION) != 1)
        return NULL;
    (void)SSL_CTX_set_mode(tls, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE |
                                    SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return tls;
}

int main(int argc, char **argv)
{
    struct swarm s = {.loop = uv_default_loop()};
    struct rlimit files;
    struct err e = {""};
    uv_timer_t second;
    uv_signal_t end[2], cut;

    read_options(&s, argc, argv);
    s.random = (uint64_t)s.o.seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    s.agents = calloc((size_t)s.o.nodes, sizeof(*s.agents));
    s.tls = client_tls();
    s.history = s.o.history ? fopen(s.o.history, "we") : NULL;
    if (id_random(s.boot_id, 32) < 0 || !s.agents || !s.tls || (s.o.history && !s.history))
        usage("no memory, or --history can't be written");
    (void)uv_timer_init(s.loop, &second);
    second.data = &s;
    (void)uv_timer_start(&second, on_second, 1000, 1000);
    for (int i = 0; i < 2; i++) {
        (void)uv_signal_init(s.loop, &end[i]);
        end[i].data = &s;
        (void)uv_signal_start(&end[i], on_end, i ? SIGINT : SIGTERM);
    }
    (void)uv_signal_init(s.loop, &cut);
    cut.data = &s;
    (void)uv_signal_start(&cut, on_cut, SIGUSR1);
    if (join_all(&s, &e) < 0) {
        (void)fprintf(stderr, "swarm: %s\n", e.text);
        return 1;
    }
    (void)uv_run(s.loop, UV_RUN_DEFAULT);
    return 0;
}
