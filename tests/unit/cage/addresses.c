/* What is local to a host, read in a network namespace made here; NAT64 prefixes from answers by value. */
#include "cage/addresses.h"
#include "cage/nat64.h"

#include "base/own.h"
#include "base/proc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* after the three above */
#include <cmocka.h>
#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void must(err_t e) {
    if (!e)
        return;
    fprintf(stderr, "%s\n", err_text(e));
    _exit(3);
}

/* In the namespace that we are in. */
static void ip(const char *const *argv) {
    must(proc_must(&(struct proc_spec){.argv = argv}));
}
#define IP(...) ip((const char *const[]){"ip", __VA_ARGS__, NULL})

static void expect(const struct words *l, const char *word, bool is) {
    if (words_has(l, word) == is)
        return;
    fprintf(stderr, "%s is %s\n", word, is ? "missing" : "there");
    _exit(4);
}

static void read_them(void) {
    IP("link", "set", "lo", "up");
    IP("link", "add", "d0", "type", "veth", "peer", "name", "d1");
    IP("link", "set", "d0", "up");
    IP("link", "set", "d1", "up");
    IP("addr", "add", "203.0.113.7/24", "dev", "d0");
    IP("addr", "add", "2a0e:77:1::10/64", "dev", "d0", "nodad");
    IP("addr", "add", "198.18.7.1", "peer", "198.18.7.2", "dev", "d1");
    IP("route", "add", "default", "via", "203.0.113.1");
    IP("-6", "route", "add", "default", "via", "2a0e:77:1::1");
    IP("route", "add", "100.99.0.0/16", "dev", "d1", "table", "52"); /* a mesh's own table */
    IP("route", "add", "0.0.0.0/1", "dev", "d1", "table", "53");     /* half of the internet: a way out */
    IP("-6", "route", "add", "unreachable", "2a0e:78::/48");         /* held, not used */
    IP("route", "add", "192.0.2.0/24", "via", "203.0.113.2");        /* behind a router */
    own_words struct words l = {0};
    must(addresses_read(&l));
    static const char *const in[] = {"203.0.113.7",   "203.0.113.0/24", "203.0.113.1", "203.0.113.2",
                                     "203.0.113.255", "2a0e:77:1::10",  "198.18.7.2",  "2a0e:77:1::/64",
                                     "2a0e:77:1::1",  "100.99.0.0/16",  "127.0.0.1",   "2a0e:78::/48"};
    static const char *const out[] = {"0.0.0.0/1", "0.0.0.0/0", "::/0", "192.0.2.0/24"};
    for (size_t i = 0; i < COUNT(in); i++)
        expect(&l, in[i], true);
    for (size_t i = 0; i < COUNT(out); i++)
        expect(&l, out[i], false);
    for (size_t i = 1; i < l.n; i++)
        if (strcmp(l.w[i - 1], l.w[i]) >= 0)
            _exit(5);
}

static void follow_them(void) {
    own_fd int watch = -1;
    IP("link", "set", "lo", "up");
    must(addresses_watch(&watch));
    addresses_changed(watch);
    if (addresses_changed(watch))
        _exit(4);
    IP("addr", "add", "203.0.113.9/32", "dev", "lo");
    if (poll(&(struct pollfd){.fd = watch, .events = POLLIN}, 1, 5000) != 1 || !addresses_changed(watch) ||
        addresses_changed(watch))
        _exit(5);
    own_words struct words l = {0};
    must(addresses_read(&l));
    expect(&l, "203.0.113.9", true);
}

static void in_namespace(void (*body)(void)) {
    pid_t pid = fork();
    if (!pid) {
        if (unshare(CLONE_NEWNET))
            _exit(geteuid() ? 77 : 98); /* root can: what it cannot is a failure */
        body();
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        skip(); /* not root */
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void reads(void **state) {
    (void)state;
    in_namespace(read_them);
}

static void follows(void **state) {
    (void)state;
    in_namespace(follow_them);
}

/* An answer to `ipv4only.arpa AAAA` with one address. */
static size_t answer_with(const char *address, unsigned char *out) {
    static const unsigned char head[] = {
        0,   7,   0x81, 0x80, 0, 1, 0,  1, 0, 0,    0,  0, 8,  'i', 'p', 'v', '4', 'o', 'n', 'l', 'y', 4,
        'a', 'r', 'p',  'a',  0, 0, 28, 0, 1, 0xc0, 12, 0, 28, 0,   1,   0,   0,   0,   60,  0,   16};
    memcpy(out, head, sizeof head);
    inet_pton(AF_INET6, address, out + sizeof head);
    return sizeof head + 16;
}

static void prefixes(void **state) {
    (void)state;
    static const struct {
        const char *address, *prefix; /* NULL: none */
    } rows[] = {
        {"64:ff9b::c000:aa", "64:ff9b::/96"},
        {"2001:db8:64::c000:ab", "2001:db8:64::/96"},
        {"2001:db8:122:344:c0:0:aa00:0", "2001:db8:122:344::/64"},
        {"2001:db8:122:3c0:0:aa::", "2001:db8:122:300::/56"},
        {"2001:db8:122:c000:0:aa00::", "2001:db8:122::/48"},
        {"2001:db8:1c0:0:aa::", "2001:db8:100::/40"},
        {"2001:db8:c000:aa::", "2001:db8::/32"},
        {"2001:db8::1", NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        own_words struct words found = {0};
        unsigned char bytes[64];
        size_t n = answer_with(rows[i].address, bytes);
        nat64_prefixes(bytes, n, &found);
        nat64_prefixes(bytes, n, &found); /* each once */
        assert_int_equal(found.n, rows[i].prefix ? 1 : 0);
        if (rows[i].prefix)
            assert_string_equal(found.w[0], rows[i].prefix);
        for (size_t cut = 0; cut < n; cut++) { /* no prefix of an answer is one */
            own_words struct words none = {0};
            nat64_prefixes(bytes, cut, &none);
            assert_int_equal(none.n, 0);
        }
    }
}

static void nobody_is_asked_without_global_addresses(void **state) {
    (void)state;
    own_words struct words local = {0}, found = {0};
    words_add(&local, "fd00::2");
    words_add(&local, "fe80::1");
    words_add(&local, "192.0.2.2");
    words_add(&local, "2a0e:77:1::/64"); /* a prefix is no address */
    nat64_discover(&local, &found);
    assert_int_equal(found.n, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads),
        cmocka_unit_test(follows),
        cmocka_unit_test(prefixes),
        cmocka_unit_test(nobody_is_asked_without_global_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
