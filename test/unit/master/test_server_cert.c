// SPDX-License-Identifier: Apache-2.0
// The set of names, and a certificate that is made, made again, or comes from files.
#include "master/server_cert.h"
#include "master/server_names.h"

#include "common/atomic_file.h"
#include "common/cleanup.h"
#include "common/json.h"
#include "common/pki.h"
#include "test/unit/suite.h"

#include <check.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <string.h>

static char dir[64], cert_path[128], key_path[128];
static uv_loop_t loop;
static struct identity identity;
static unsigned changes;
static char *shown;

static void setup(void)
{
    struct err e;
    (void)snprintf(dir, sizeof(dir), "/tmp/meadow-cert-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    ck_assert_int_eq(uv_loop_init(&loop), 0);
    ck_assert_int_eq(identity_open(dir, &identity, &e), 0);
    (void)snprintf(cert_path, sizeof(cert_path), "%s/own.pem", dir);
    (void)snprintf(key_path, sizeof(key_path), "%s/own.key", dir);
    changes = 0;
    shown = NULL;
}

static void teardown(void)
{
    struct err e;
    (void)uv_run(&loop, UV_RUN_DEFAULT);
    ck_assert_int_eq(uv_loop_close(&loop), 0);
    identity_free(&identity);
    free(shown);
    ck_assert_int_eq(remove_tree(dir, &e), 0);
}

static int on_changed(const struct tls_server_options *tls, void *userdata, struct err *e)
{
    (void)userdata;
    (void)e;
    changes++;
    free(shown);
    shown = strdup(tls->cert_pem);
    return 0;
}

static struct server_cert *start(const struct master_config *c)
{
    struct err e;
    struct server_cert *s = NULL;
    const struct server_cert_options o = {
        .loop = &loop, .config = c, .identity = &identity, .changed = on_changed};
    ck_assert_msg(server_cert_new(&o, &s, &e) == 0, "%s", e.text);
    return s;
}

START_TEST(names_are_a_set)
    {
        struct server_names a = {0}, b = {0};
        server_names_add(&a, "Master.example");
        server_names_add(&a, "master.EXAMPLE");
        server_names_add(&a, "");
        server_names_add(&a, NULL);
        server_names_add(&a, "no spaces");
        server_names_add(&a, "a/b");
        server_names_add(&a, "192.0.2.1");
        server_names_add(&a, "2001:db8::1");
        server_names_add(&a, "192.0.2.1");
        ck_assert_uint_eq(a.n, 3);
        ck_assert_ptr_null(a.items[3]);
        server_names_add(&b, "2001:db8::1");
        server_names_add(&b, "192.0.2.1");
        ck_assert(!server_names_equal(&a, &b));
        server_names_add(&b, "master.example");
        ck_assert(server_names_equal(&a, &b)); // in any order
        server_names_reset(&b);
        for (int i = 0; i < 2 * SERVER_NAMES_MAX; i++) {
            char name[16];
            (void)snprintf(name, sizeof(name), "n%d", i);
            server_names_add(&b, name);
        }
        ck_assert_uint_eq(b.n, SERVER_NAMES_MAX);
        ck_assert_ptr_null(b.items[SERVER_NAMES_MAX]);
        server_names_reset(&a);
        server_names_reset(&b);
        server_names_of_machine(&a);
        ck_assert_uint_ge(a.n, 3);
        server_names_reset(&a);
    }
END_TEST

static bool names_host(const char *pem, const char *name)
{
    BIO *bio = BIO_new_mem_buf(pem, -1);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    bool is = X509_check_host(cert, name, 0, 0, NULL) == 1 || X509_check_ip_asc(cert, name, 0) == 1;
    X509_free(cert);
    (void)BIO_free(bio);
    return is;
}

START_TEST(made_and_made_again)
    {
        char *more[] = {(char[]){"meadow.example"}, (char[]){"192.0.2.9"}, NULL};
        struct master_config c = {.listen_address = (char[]){"0.0.0.0"},
                                  .advertise = (char[]){"front.example"},
                                  .names = more,
                                  .tls_min_version = (char[]){"1.3"},
                                  .server_cert_ms = 90 * PKI_DAY_S * 1000,
                                  .node_cert_ms = 3000};
        struct server_cert *s = start(&c);
        ck_assert_uint_eq(changes, 1);
        ck_assert(names_host(shown, "meadow.example") && names_host(shown, "192.0.2.9"));
        ck_assert(names_host(shown, "front.example") && names_host(shown, "127.0.0.1"));
        ck_assert(!names_host(shown, "other.example"));
        cleanup_free char *first = strdup(shown);
        server_cert_reload(s);
        ck_assert_uint_ge(changes, 2);
        ck_assert_str_ne(shown, first);
        cleanup_json json_t *warnings = json_array();
        cleanup_json json_t *view = server_cert_view(s, warnings);
        ck_assert_uint_eq(json_array_size(warnings), 0);
        ck_assert_int_eq(json_opt_i64(json_object_get(view, "server"), "days_left", 0), 89);
        ck_assert_int_gt(json_opt_i64(json_object_get(view, "ca"), "days_left", 0), 3000);
        ck_assert_str_eq(server_cert_bundle(s), identity.ca_cert);
        ck_assert_uint_eq(strlen(server_cert_bundle_sha256(s)), 64);
        server_cert_close(s);
        server_cert_close(NULL);
    }
END_TEST

static void write_own(int64_t life_s)
{
    static const char *const names[] = {"own.example", NULL};
    struct err e;
    cleanup_free char *key = NULL, *cert = NULL;
    ck_assert_int_eq(pki_key_new(&key, &e), 0);
    ck_assert_int_eq(
        pki_server_cert(identity.ca_cert, identity.ca_key, key, names, life_s, &cert, &e), 0);
    ck_assert_int_eq(atomic_file_write(cert_path, cert, strlen(cert), 0644, &e), 0);
    ck_assert_int_eq(atomic_file_write(key_path, key, strlen(key), 0600, &e), 0);
}

START_TEST(from_files)
    {
        struct err e;
        struct master_config c = {.listen_address = (char[]){"0.0.0.0"},
                                  .tls_cert = cert_path,
                                  .tls_key = key_path,
                                  .tls_ca = cert_path, // anything that is a certificate
                                  .tls_min_version = (char[]){"1.3"}};
        write_own(5 * PKI_DAY_S);
        struct server_cert *s = start(&c);
        ck_assert(names_host(shown, "own.example"));
        ck_assert_uint_gt(strlen(server_cert_bundle(s)), strlen(identity.ca_cert));
        cleanup_json json_t *warnings = json_array();
        cleanup_json json_t *view = server_cert_view(s, warnings);
        ck_assert_uint_eq(json_array_size(warnings), 1); // soon over
        ck_assert_str_eq(json_opt_str(json_object_get(view, "server"), "source", ""), "file");
        write_own(90 * PKI_DAY_S);
        server_cert_reload(s);
        ck_assert_uint_eq(changes, 2);
        ck_assert_int_eq(atomic_file_write(cert_path, "x", 1, 0644, &e), 0);
        server_cert_reload(s); // stays as it is
        ck_assert_uint_eq(changes, 2);
        server_cert_close(s);
        const struct server_cert_options o = {
            .loop = &loop, .config = &c, .identity = &identity, .changed = on_changed};
        ck_assert_int_lt(server_cert_new(&o, &s, &e), 0);
        ck_assert_ptr_nonnull(strstr(e.text, "tls.ca"));
    }
END_TEST

int main(void)
{
    TCase *t = tcase_create("server_cert");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 20);
    tcase_add_test(t, names_are_a_set);
    tcase_add_test(t, made_and_made_again);
    tcase_add_test(t, from_files);
    return run_case("server_cert", t);
}
