#include "warden/agents.h"
#include "base/lockin.h"
#include "base/own.h"
#include "base/parse.h"
#include "proto/upstream.h"

#include <unistd.h>

/* Text fields of a message are NUL-terminated. An empty one takes the default. */
static const char *word(struct bytes b, const char *fallback) {
    return b.len ? b.p : fallback;
}

/* The upstream as it is kept: with the vendor in it; "" for a harness without a model behind it. */
static err_t settle_upstream(const struct msg_op_new *m, struct conf_agent *c) {
    const struct harness_word *harness;
    TRY(err_wrap(harness_word(word(m->harness, "shell"), &harness), "--harness"));
    const char *text = word(m->upstream, harness->upstream);
    struct upstream u;
    if (!*text)
        return harness->vendor
                   ? err_new(EXIT_USAGE, "--upstream: say where the model of %s is", harness->word)
                   : NULL;
    TRY(err_wrap(upstream_of(text, &u), "--upstream"));
    enum vendor vendor = u.vendor ? u.vendor : harness->vendor;
    if (!vendor)
        return err_new(EXIT_USAGE, "--upstream: say whose API it speaks: anthropic+%s or openai+%s", text,
                       text);
    if (harness->vendor && harness->vendor != vendor)
        return err_new(EXIT_USAGE, "--upstream: %s speaks the API of %s", harness->word,
                       vendor_name(harness->vendor));
    if (c->mode != MODE_BARE && upstream_is_loopback(&u))
        return err_new(
            EXIT_USAGE,
            "--upstream: a pod has a loopback of its own, and nobody answers on it; use an address of "
            "this host that its bridge reaches (podman's gateway), or --mode bare");
    c->upstream = u.vendor ? xstrdup(text) : xasprintf("%s+%s", vendor_name(vendor), text);
    return NULL;
}

static err_t check_net(const struct msg_op_new *m, struct conf_agent *c) {
    TRY(err_wrap(net_of(word(m->net, c->mode == MODE_SEALED ? "sealed" : "open"), &c->net), "--net"));
    if (c->mode == MODE_SEALED && c->net == NET_OPEN)
        return err_new(EXIT_POLICY, "--net: a sealed cage never has an open network; use a pod");
    if (c->mode != MODE_SEALED && c->net == NET_SEALED)
        return err_new(EXIT_USAGE, "--net: a cage of mode %s has open or none", mode_name(c->mode));
    if (c->mode == MODE_BARE && c->net != NET_OPEN)
        return err_new(EXIT_POLICY, "--net: the executor of a bare cage has no network control; use a pod");
    return NULL;
}

static err_t check_sizes(const struct msg_op_new *m, struct conf_agent *c) {
    bool pod = c->mode != MODE_BARE;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (!pod && (m->memory.len || m->cpus.len))
        return err_new(EXIT_POLICY, "--memory and --cpus: a bare cage has no such limits; use a pod");
    TRY(err_wrap(parse_size(word(m->memory, pod ? "4g" : "0"), &c->memory), "--memory"));
    if (m->cpus.len)
        TRY(err_wrap(parse_cpus(m->cpus.p, &c->cpus), "--cpus"));
    else if (pod)
        c->cpus = cores > 1 ? 2000 : 1000;
    TRY(err_wrap(parse_u64(word(m->pids, "2048"), 1 << 22, &c->pids), "--pids"));
    if (pod && (c->memory < (64u << 20) || c->pids < 16))
        return err_new(EXIT_USAGE, "a pod needs --memory 64m and --pids 16 at least");
    uint64_t there = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    if (m->memory.len && c->memory > there)
        return err_new(EXIT_USAGE, "--memory: this machine has %llum", (unsigned long long)(there >> 20));
    if (cores > 0 && c->cpus > (uint64_t)cores * 1000)
        return err_new(EXIT_USAGE, "--cpus: this machine has %ld", cores);
    return NULL;
}

/* Ends up in a configuration file and in arguments of programs: one plain line. */
static err_t check_plain(const char *what, struct bytes text) {
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.p[i] < ' ' || text.p[i] == 127)
            return err_new(EXIT_USAGE, "%s: a control character is in it", what);
    return NULL;
}

err_t agents_may_be_sealed(const char *harness) {
    static const char *const fit[] = {"shell", "claude"};
    for (size_t i = 0; i < COUNT(fit); i++)
        if (!strcmp(harness, fit[i]))
            return NULL;
    return err_new(EXIT_POLICY, "a sealed cage runs shell or claude and nothing else");
}

err_t agents_sealed_here(const char *harness) {
    return strcmp(harness, "shell") ? lockin_sockets_can() : NULL;
}

static err_t check(const struct msg_op_new *m, struct conf_agent *c) {
    TRY(name_check(m->agent.p));
    TRY(err_wrap(mode_of(word(m->mode, "pod"), &c->mode), "--mode"));
    if (c->mode == MODE_SEALED)
        TRY(err_wrap(agents_may_be_sealed(word(m->harness, "shell")), "--harness"));
    TRY(check_net(m, c));
    TRY(check_sizes(m, c));
    TRY(check_plain("--project", m->project));
    TRY(check_plain("--model", m->model));
    TRY(check_plain("--upstream", m->upstream));
    if (m->project.len && m->project.p[0] != '/')
        return err_new(EXIT_USAGE, "--project: an absolute path is needed");
    return settle_upstream(m, c);
}

err_t agents_check(const struct msg_op_new *m, struct conf_agent *ret) {
    own_conf_agent struct conf_agent c = {0};
    TRY(check(m, &c));
    c.name = xstrdup(m->agent.p);
    c.harness = xstrdup(word(m->harness, "shell"));
    c.project = xstrdup(word(m->project, ""));
    c.model = xstrdup(word(m->model, ""));
    c.credential = xstrdup(c.mode == MODE_SEALED ? "sealed-token" : "persist");
    c.budget = xstrdup("");
    if (!c.upstream)
        c.upstream = xstrdup("");
    *ret = c;
    c = (struct conf_agent){0};
    return NULL;
}

const char *agents_trade(const struct conf_agent *c) {
    if (c->mode == MODE_SEALED)
        return "sealed: its commands reach the internet and nothing local. What they leave in the project "
               "may "
               "run later as you: each stop says what, and the folder is untrusted from now on.";
    if (c->mode == MODE_POD)
        return NULL;
    return "bare: the executor has no sandbox and no egress control. Commands run on this host as an "
           "ordinary "
           "account: they see its hardware, its files as far as that account may, and its network. The "
           "credential "
           "stays as far away as in a pod.";
}
