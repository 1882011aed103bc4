// SPDX-License-Identifier: Apache-2.0
// The whole agent against a fake master over real TLS, with the process runtime and the real
// meadow-init: join, run, logs, stop, restart with adoption, a master that goes silent.
#include "node-agent/agent.h"
#include "node-agent/status_api.h"
#include "test/lib/fake_master.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/http_client.h"
#include "common/json.h"
#include "common/log.h"
#include "test/unit/suite.h"

#include <check.h>
#include <limits.h>
#include <signal.h>
#include <string.h>

static char top[] = "/tmp/meadow-agent-XXXXXX";
static uv_loop_t loop;
static struct fake_master master;
static struct agent_config config;
static struct agent *agent;
static char init_path[PATH_MAX];
static bool (*condition)(void);

static char *below_top(const char *leaf)
{
    char *text = NULL;
    ck_assert_int_ge(asprintf(&text, "%s/%s", top, leaf), 0);
    return text;
}

static void check_condition(struct fake_master *m, void *userdata)
{
    (void)m;
    (void)userdata;
    if (condition && condition())
        uv_stop(&loop);
}

static void late(uv_timer_t *timer)
{
    (void)timer;
    ck_abort_msg("the master was not told in time");
}

// Runs the loop until a message of the agent makes the condition true.
static void wait_until(bool (*what)(void))
{
    uv_timer_t bound;

    if (what())
        return;
    condition = what;
    (void)uv_timer_init(&loop, &bound);
    (void)uv_timer_start(&bound, late, 30000, 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    condition = NULL;
    uv_close((uv_handle_t *)&bound, NULL);
    (void)uv_run(&loop, UV_RUN_NOWAIT);
}

static void start_agent(void)
{
    struct err e;
    struct agent_options o = {
        .loop = &loop, .config = &config, .init_path = init_path, .sysroot = ""};
    ck_assert_msg(agent_start(&o, &agent, &e) == 0, "%s", e.text);
}

static void make_config(void)
{
    memset(&config, 0, sizeof(config));
    config.name = strdup("node-1");
    config.master_url = strdup(master.url);
    config.join_token = strdup(master.token);
    config.state_dir = below_top("state");
    config.run_dir = below_top("run");
    config.data_dir = below_top("data");
    config.allow_root = true; // whoever runs the tests runs their tasks
    config.default_uid = geteuid();
    config.default_gid = getegid();
    config.pids_limit = 4096;
    config.runtime = strdup("process");
    config.cpu_milli = 4000;
    config.memory = INT64_C(4) << 30;
    config.gpu = 2;
    config.ports_first = 20000;
    config.ports_count = 100;
    config.log_limit = 1 << 20;
}

static void free_config(void)
{
    free(config.name);
    free(config.master_url);
    free(config.join_token);
    free(config.state_dir);
    free(config.run_dir);
    free(config.data_dir);
    free(config.runtime);
}

static void setup(void)
{
    const char *bin = getenv("MEADOW_BIN");

    (void)signal(SIGPIPE, SIG_IGN);
    log_set_level(getenv("TEST_DEBUG") ? LOG_LEVEL_DEBUG : LOG_LEVEL_ERROR);
    (void)snprintf(init_path, sizeof(init_path), "%s/meadow-init", bin ? bin : "build/bin");
    ck_assert_msg(access(init_path, X_OK) == 0, "no meadow-init in %s", init_path);
    ck_assert_ptr_nonnull(mkdtemp(top));
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    fake_master_start(&master, &loop);
    master.changed = check_condition;
    make_config();
}

static void teardown(void)
{
    struct err e;

    if (agent)
        agent_stop(agent);
    fake_master_close(&master);
    while (uv_run(&loop, UV_RUN_DEFAULT) != 0)
        ;
    agent_free(agent);
    fake_master_free(&master);
    free_config();
    ck_assert_int_eq(uv_loop_close(&loop), 0); // every handle was closed
    ck_assert_int_eq(remove_tree(top, &e), 0);
}

// Ends the agent as SIGTERM does, while the master's handles keep the loop alive.
static void stop_agent(void)
{
    agent_stop(agent);
    for (int i = 0; i < 50; i++) // its handles close within a few turns; workers are idle
        (void)uv_run(&loop, UV_RUN_NOWAIT);
    agent_free(agent);
    agent = NULL;
}

// --- conditions ----------------------------------------------------------------------------------

static bool inventory_is_complete(void)
{
    return master.inventories > 0 && master.complete && master.instance[0] && master.node &&
           json_opt_bool(master.node, "ready", false);
}

static bool first_running(void)
{
    return master.attempts[0].status.state == ATTEMPT_RUNNING;
}

static bool all_over(void) // ended, and the logs are in
{
    for (size_t i = 0; i < master.n_attempts; i++)
        if (!master.attempts[i].reported || master.attempts[i].status.state != ATTEMPT_ENDED ||
            master.attempts[i].status.logs != LOGS_COMPLETE)
            return false;
    return true;
}

static bool inventory_is_empty(void)
{
    return master.inventories > 1 && master.complete && master.inventory_n == 0;
}

// --- tests ---------------------------------------------------------------------------------------

START_TEST(joins_and_reports_itself)
    {
        start_agent();
        wait_until(inventory_is_complete);
        ck_assert_uint_eq(master.joins, 1);
        ck_assert_str_eq(json_opt_str(master.node, "runtime", ""), "process");
        ck_assert_int_eq(json_opt_i64(json_object_get(master.node, "resources"), "cpu", 0), 4000);
        ck_assert_ptr_nonnull(json_object_get(master.usage, "load1"));
        stop_agent();
        master.complete = false;
        start_agent(); // the identity is kept: no second join
        wait_until(inventory_is_complete);
        ck_assert_uint_eq(master.joins, 1);
    }
END_TEST

START_TEST(runs_a_command_with_its_logs)
    {
        start_agent();
        wait_until(inventory_is_complete);
        struct fake_attempt *a = fake_master_assign(
            &master,
            fake_master_spec(&master, "aone", "echo out $CONTAINER_NAME; echo err >&2; exit 3"));
        wait_until(all_over);
        ck_assert_int_eq(a->status.cause, CAUSE_EXIT);
        ck_assert(a->status.has_exit);
        ck_assert_int_eq(a->status.exit_code, 3);
        ck_assert_int_gt(a->status.started_ms, 0);
        ck_assert_int_ge(a->status.ended_ms, a->status.started_ms);
        ck_assert_str_eq(a->logs[0].data, "out meadow-test-main-0-aone\n");
        ck_assert_str_eq(a->logs[1].data, "err\n");
    }
END_TEST

START_TEST(a_command_that_is_not_there)
    {
        start_agent();
        wait_until(inventory_is_complete);
        struct attempt_spec *s = fake_master_spec(&master, "abad", "");
        free(s->command[0]);
        s->command[0] = strdup("/nonexistent/program");
        struct fake_attempt *a = fake_master_assign(&master, s);
        wait_until(all_over);
        ck_assert_int_eq(a->status.cause, CAUSE_START_FAILED);
        ck_assert_uint_eq(a->running_reports, 0);
    }
END_TEST

START_TEST(many_at_once)
    {
        char id[24];
        start_agent();
        wait_until(inventory_is_complete);
        for (int i = 0; i < 30; i++) {
            (void)snprintf(id, sizeof(id), "amany%d", i);
            (void)fake_master_assign(
                &master, fake_master_spec(&master, id, "echo $CUDA_VISIBLE_DEVICES x; exit 0"));
        }
        wait_until(all_over);
        for (size_t i = 0; i < master.n_attempts; i++) {
            ck_assert_int_eq(master.attempts[i].status.cause, CAUSE_EXIT);
            ck_assert_str_eq(master.attempts[i].logs[0].data, "x\n"); // no cards: an empty variable
        }
    }
END_TEST

START_TEST(stop_and_forget)
    {
        start_agent();
        wait_until(inventory_is_complete);
        struct fake_attempt *a =
            fake_master_assign(&master, fake_master_spec(&master, "along", "exec sleep 1000"));
        wait_until(first_running);
        fake_master_stop_attempt(&master, a);
        wait_until(all_over);
        ck_assert_int_eq(a->status.cause, CAUSE_STOPPED);
        fake_master_remove(&master, a);
        // Gone from the disk and from the inventory of the next instance.
        stop_agent();
        start_agent();
        wait_until(inventory_is_empty);
    }
END_TEST

START_TEST(restart_adopts_with_the_same_process)
    {
        start_agent();
        wait_until(inventory_is_complete);
        struct fake_attempt *a = fake_master_assign(
            &master,
            fake_master_spec(&master, "akeep",
                             "echo before; while [ ! -e go ]; do sleep 0.02; done; echo after"));
        wait_until(first_running);
        int64_t pid = a->status.pid;
        stop_agent();
        ck_assert_int_eq(kill((pid_t)pid, 0), 0);
        a->status.state = ATTEMPT_ASSIGNED; // must be told again
        master.complete = false;
        start_agent();
        wait_until(first_running);
        ck_assert_int_eq(a->status.pid, pid);
        char path[128];
        (void)snprintf(path, sizeof(path), "%s/state/attempts/akeep/work/go", top);
        struct err e;
        ck_assert_int_eq(atomic_file_write(path, "", 0, 0644, &e), 0);
        wait_until(all_over);
        ck_assert_int_eq(a->status.cause, CAUSE_EXIT);
        ck_assert_str_eq(a->logs[0].data, "before\nafter\n");
    }
END_TEST

// --- the local status API ------------------------------------------------------------------------

static char local_text[4096];
static int local_status;

static void local_done(const struct http_result *result, void *userdata)
{
    (void)userdata;
    ck_assert_msg(result->error == 0, "%s", result->err.text);
    local_status = result->status;
    (void)snprintf(local_text, sizeof(local_text), "%s", result->body);
    uv_stop(&loop);
}

static void ask(struct http_client *client, const char *method, const char *path)
{
    struct http_call_options o = {
        .method = method, .path = path, .body_fd = -1, .timeout_ms = 10000, .done = local_done};
    struct err e;
    ck_assert_int_eq(http_call_start(client, &o, NULL, &e), 0);
    (void)uv_run(&loop, UV_RUN_DEFAULT);
}

START_TEST(local_status_api)
    {
        char path[128];
        struct http_client *client;
        struct err e;

        start_agent();
        wait_until(inventory_is_complete);
        (void)fake_master_assign(&master, fake_master_spec(&master, "ashow", "exit 0"));
        wait_until(all_over);
        (void)snprintf(path, sizeof(path), "%s/run/agent.sock", top);
        struct http_client_options o = {
            .loop = &loop, .base_url = "http://agent", .unix_socket = path};
        ck_assert_int_eq(http_client_new(&o, &client, &e), 0);
        ask(client, "GET", "/healthz");
        ck_assert_int_eq(local_status, 200);
        ck_assert_ptr_nonnull(strstr(local_text, "\"status\":\"ok\""));
        ask(client, "GET", "/v1/tasks");
        ck_assert_ptr_nonnull(strstr(local_text, "\"id\":\"ashow\""));
        ck_assert_ptr_nonnull(strstr(local_text, "\"state\":\"ended\""));
        ask(client, "GET", "/metrics");
        ck_assert_ptr_nonnull(strstr(local_text, "meadow_agent_attempts{state=\"ended\"} 1"));
        ask(client, "DELETE", "/v1/tasks");
        ck_assert_int_eq(local_status, 405);
        ask(client, "GET", "/v1/nothing");
        ck_assert_int_eq(local_status, 404);
        http_client_close(client, NULL, NULL);
    }
END_TEST

static bool heard_again(void)
{
    return !master.silent && master.syncs > 3 && all_over();
}

static void speak(uv_timer_t *timer)
{
    master.silent = false;
    uv_close((uv_handle_t *)timer, NULL);
}

START_TEST(runs_on_while_the_master_is_silent)
    {
        static uv_timer_t timer;
        start_agent();
        wait_until(inventory_is_complete);
        struct fake_attempt *a = fake_master_assign(
            &master, fake_master_spec(&master, "aquiet", "sleep 0.2; echo done"));
        wait_until(first_running);
        master.silent = true;
        (void)uv_timer_init(&loop, &timer);
        (void)uv_timer_start(&timer, speak, 600, 0);
        wait_until(heard_again);
        ck_assert_int_eq(a->status.exit_code, 0);
        ck_assert_str_eq(a->logs[0].data, "done\n");
    }
END_TEST

static unsigned syncs_wanted;

static bool synced(void)
{
    return master.syncs >= syncs_wanted;
}

static int64_t lease_deadline(const char *id)
{
    char path[200];
    long long deadline;
    size_t len;
    struct err e;
    cleanup_free char *text = NULL;
    (void)snprintf(path, sizeof(path), "%s/attempts/%s/lease", config.run_dir, id);
    ck_assert_msg(atomic_file_read(path, 1000, &text, &len, &e) == 0, "%s", e.text);
    ck_assert_int_eq(sscanf(text, "meadow-lease 1 %*s %*s %lld", &deadline), 1);
    return deadline;
}

// Not from when it was answered: the master counts from when it came, which is later.
START_TEST(leases_count_from_when_the_sync_was_sent)
    {
        master.hold_ms = 300;
        start_agent();
        wait_until(inventory_is_complete);
        struct attempt_spec *s = fake_master_spec(&master, "along", "exec sleep 1000");
        s->lease_ms = 5000; // short, so that each answer is worth a write
        struct fake_attempt *a = fake_master_assign(&master, s);
        wait_until(first_running);
        for (int i = 0; i < 5; i++) {
            syncs_wanted = master.syncs + 1;
            wait_until(synced);
            int64_t came = clock_boot_ms();
            syncs_wanted = master.syncs + 1; // when the next one comes, that one was answered
            wait_until(synced);
            ck_assert_int_le(lease_deadline("along"), came + 5000);
        }
        fake_master_stop_attempt(&master, a);
        wait_until(all_over);
    }
END_TEST

START_TEST(one_agent_per_state_folder)
    {
        struct err e;
        struct agent *second = NULL;
        struct agent_options o = {
            .loop = &loop, .config = &config, .init_path = init_path, .sysroot = ""};

        start_agent();
        ck_assert_int_eq(agent_start(&o, &second, &e), -EWOULDBLOCK);
        agent_stop(second);
        (void)uv_run(&loop, UV_RUN_NOWAIT);
        agent_free(second);
        wait_until(inventory_is_complete);
    }
END_TEST

int main(void)
{
    TCase *tc = tcase_create("agent");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, joins_and_reports_itself);
    tcase_add_test(tc, runs_a_command_with_its_logs);
    tcase_add_test(tc, a_command_that_is_not_there);
    tcase_add_test(tc, many_at_once);
    tcase_add_test(tc, stop_and_forget);
    tcase_add_test(tc, restart_adopts_with_the_same_process);
    tcase_add_test(tc, runs_on_while_the_master_is_silent);
    tcase_add_test(tc, leases_count_from_when_the_sync_was_sent);
    tcase_add_test(tc, one_agent_per_state_folder);
    tcase_add_test(tc, local_status_api);
    return run_case("agent", tc);
}
