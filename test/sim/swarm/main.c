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
#include <getopt.h>
#include <signal.h>
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
    (void)printf("{\"time_ms\":%lld,\"joined\":%zu,\"online\":%zu,\"running\":%zu,\"starts\":%llu,"
                 "\"ends\":%llu,\"syncs\":%llu,\"reports\":%llu,\"answers\":%llu,\"connects\":%llu,"
                 "\"failures\":%llu,\"refused\":%llu,\"report_connections\":%zu,\"cpu_ms\":%lld}\n",
                 (long long)clock_real_ms(), t->joined, t->online, t->running,
                 (unsigned long long)t->starts, (unsigned long long)t->ends,
                 (unsigned long long)t->syncs, (unsigned long long)t->reports,
                 (unsigned long long)t->answers, (unsigned long long)t->connects,
                 (unsigned long long)t->failures, (unsigned long long)t->refused, s->n_reports,
                 (long long)((use.ru_utime.tv_sec + use.ru_stime.tv_sec) * 1000 +
                             (use.ru_utime.tv_usec + use.ru_stime.tv_usec) / 1000));
    (void)fflush(stdout);
    if (s->history)
        (void)fflush(s->history);
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
    for (size_t i = 0; i < s->o.nodes; i++)
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

static void read_options(struct swarm *s, int argc, char **argv)
{
    static const struct option names[] = {
        {"master", 1, 0, 'm'},  {"token", 1, 0, 't'}, {"nodes", 1, 0, 'n'},   {"cpu", 1, 0, 'c'},
        {"memory", 1, 0, 'r'},  {"gpu", 1, 0, 'g'},   {"least", 1, 0, 'l'},   {"most", 1, 0, 'u'},
        {"start", 1, 0, 's'},   {"reports", 1, 0, 'p'}, {"prefix", 1, 0, 'x'}, {"history", 1, 0, 'o'},
        {"seed", 1, 0, 'e'},    {"help", 0, 0, 'h'},  {0}};
    struct swarm_options *o = &s->o;
    *o = (struct swarm_options){.nodes = 100, .cpu_milli = 32000, .memory = INT64_C(256) << 30,
                                .least_ms = 1000, .most_ms = 60000, .start_ms = 50, .reports = 512,
                                .prefix = "s", .seed = 1};
    for (int k; (k = getopt_long(argc, argv, "", names, NULL)) >= 0;) {
        long long n = optarg ? atoll(optarg) : 0;
        switch (k) {
        case 'm': set_master(s, optarg); break;
        case 't': o->token = read_token(optarg); break;
        case 'n': o->nodes = (size_t)n; break;
        case 'c': o->cpu_milli = n * 1000; break;
        case 'r': o->memory = n << 30; break;
        case 'g': o->gpu = n; break;
        case 'l': o->least_ms = n; break;
        case 'u': o->most_ms = n; break;
        case 's': o->start_ms = n; break;
        case 'p': o->reports = (size_t)n; break;
        case 'x': o->prefix = optarg; break;
        case 'o': o->history = optarg; break;
        case 'e': o->seed = (uint64_t)n; break;
        case 'h': usage(NULL);
        default: exit(2);
        }
    }
    if (!o->host || !o->token || o->most_ms < o->least_ms || o->reports == 0)
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
    s.random = s.o.seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
    (void)signal(SIGPIPE, SIG_IGN);
    s.agents = calloc(s.o.nodes, sizeof(*s.agents));
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
