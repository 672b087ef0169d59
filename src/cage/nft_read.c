/*
 * The read-back. nft prints a rule in its own words, which change with its version; so a rule is known by chain, order,
 * comment, that it counts, and its verdict, and the sets by the addresses that they hold. Anything more, less or other
 * than the table says is a difference.
 */
#include "cage/nft_read.h"

#include "base/own.h"
#include "cage/nft_sets.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text(json_t *o, const char *key) {
    const char *v = json_string_value(json_object_get(o, key));
    return v ? v : "";
}

static err_t differs(const char *what, const char *name) {
    return err_new(EXIT_FAILED, "the network rules read back are not the ones that were set: %s \"%.60s\"",
                   what, name);
}

/* "accept", "drop", "reject", "jump refuse", "update @reached4": the last statement of a rule. *ret_counts: it has a counter. */
static void verdict_of(json_t *expr, char *out, size_t size, bool *ret_counts) {
    *ret_counts = false;
    out[0] = 0;
    size_t i;
    json_t *each;
    json_array_foreach(expr, i, each) {
        json_t *jump = json_object_get(each, "jump"), *set = json_object_get(each, "set");
        *ret_counts |= json_object_get(each, "counter") != NULL;
        if (jump)
            snprintf(out, size, "jump %s", text(jump, "target"));
        if (set)
            snprintf(out, size, "%s %s", text(set, "op"), text(set, "set"));
        for (const char *const *v = (const char *const[]){"accept", "drop", "reject", NULL}; *v; v++)
            if (json_object_get(each, *v))
                snprintf(out, size, "%s", *v);
    }
}

/* The n-th rule of this chain in the table. */
static const struct nft_rule *expected_rule(enum net net, const char *chain, size_t n) {
    for (size_t i = 0; i < nft_nrules; i++)
        if (nft_rule_for(&nft_rules[i], net) && !strcmp(nft_rules[i].chain, chain) && !n--)
            return &nft_rules[i];
    return NULL;
}

/* What stands behind these words is written in another way by each version of nft. */
static bool same_verdict(const char *got, const char *want) {
    size_t n = strlen(got);
    bool first = !strcmp(got, "reject") || !strncmp(got, "update ", 7);
    return first ? !strncmp(want, got, n) && want[n] == ' ' : !strcmp(got, want);
}

struct seen {
    enum net net;
    size_t rules[8]; /* of each chain */
    unsigned chains, sets, tables, reached;
    const struct nft_sets *want;
};

static err_t see_chain(struct seen *s, json_t *o) {
    for (size_t i = 0; i < nft_nchains; i++) {
        const struct nft_chain *c = &nft_chains[i];
        if (strcmp(c->name, text(o, "name")))
            continue;
        if (c->hook &&
            (strcmp(text(o, "hook"), c->hook) || strcmp(text(o, "type"), "filter") ||
             strcmp(text(o, "policy"), c->policy[s->net]) || json_integer_value(json_object_get(o, "prio"))))
            return differs("chain", c->name);
        s->chains |= 1u << i;
        return NULL;
    }
    return differs("chain", text(o, "name"));
}

static err_t see_rule(struct seen *s, json_t *o) {
    for (size_t i = 0; i < nft_nchains; i++) {
        if (strcmp(nft_chains[i].name, text(o, "chain")))
            continue;
        const struct nft_rule *want = expected_rule(s->net, nft_chains[i].name, s->rules[i]++);
        char verdict[64];
        bool counts;
        verdict_of(json_object_get(o, "expr"), verdict, sizeof verdict, &counts);
        if (!want || strcmp(want->tag, text(o, "comment")) || !counts ||
            !same_verdict(verdict, want->verdict))
            return differs("rule", text(o, "comment"));
        return NULL;
    }
    return differs("rule in chain", text(o, "chain"));
}

/* An element: a number or text, {"prefix": {addr, len}}, {"range": [lo, hi]}; maybe inside {"elem": {"val": …}}. */
static err_t element(const struct nft_set *set, json_t *e, struct nft_range *ret) {
    json_t *inner = json_object_get(json_object_get(e, "elem"), "val");
    e = inner ? inner : e;
    json_t *prefix = json_object_get(e, "prefix"), *range = json_object_get(e, "range");
    json_t *lo = range ? json_array_get(range, 0) : e, *hi = range ? json_array_get(range, 1) : e;
    size_t width = set->width;
    if (width == 2) {
        json_int_t a = json_integer_value(lo), b = json_integer_value(hi);
        *ret = (struct nft_range){{(unsigned char)(a >> 8), (unsigned char)a},
                                  {(unsigned char)(b >> 8), (unsigned char)b}};
        return NULL;
    }
    char both[80];
    if (prefix) {
        snprintf(both, sizeof both, "%s/%lld", text(prefix, "addr"),
                 (long long)json_integer_value(json_object_get(prefix, "len")));
        TRY(nft_range_of(both, ret, &width));
    } else {
        struct nft_range end;
        TRY(nft_range_of(json_string_value(lo) ? json_string_value(lo) : "", ret, &width));
        TRY(nft_range_of(json_string_value(hi) ? json_string_value(hi) : "", &end, &width));
        memcpy(ret->hi, end.hi, sizeof end.hi);
    }
    return width == set->width ? NULL : differs("set", set->name);
}

static err_t see_set(struct seen *s, json_t *o) {
    for (size_t i = 0; i < NFT_SETS; i++) {
        const struct nft_set *want = &s->want->set[i];
        if (strcmp(want->name, text(o, "name")))
            continue;
        struct nft_set got = {.width = want->width};
        size_t k;
        json_t *e;
        err_t bad = NULL;
        json_array_foreach(json_object_get(o, "elem"), k, e) {
            struct nft_range r;
            if ((bad = element(want, e, &r)))
                break;
            nft_set_add(&got, &r);
        }
        nft_set_tidy(&got);
        if (!bad && !nft_set_equal(&got, want))
            bad = differs("set", want->name);
        free(got.r);
        s->sets |= 1u << i;
        return bad;
    }
    bool ours =
        s->net == NET_SEALED && !strncmp(text(o, "name"), "reached", 7); /* what it holds, the room made */
    s->reached += ours;
    return ours ? NULL : differs("set", text(o, "name"));
}

static err_t see_table(struct seen *s, json_t *o) {
    s->tables++;
    return strcmp(text(o, "name"), "agent_cage") || strcmp(text(o, "family"), "inet")
               ? differs("table", text(o, "name"))
               : NULL;
}

static err_t see_nothing(struct seen *s, json_t *o) {
    (void)s, (void)o;
    return NULL;
}

static err_t see(struct seen *s, json_t *object) {
    static const struct {
        const char *key;
        err_t (*see)(struct seen *, json_t *);
    } kinds[] = {{"metainfo", see_nothing},
                 {"table", see_table},
                 {"chain", see_chain},
                 {"rule", see_rule},
                 {"set", see_set}};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        json_t *o = json_object_get(object, kinds[i].key);
        if (o)
            return kinds[i].see(s, o);
    }
    return differs("object", json_object_iter_key(json_object_iter(object))
                                 ? json_object_iter_key(json_object_iter(object))
                                 : "");
}

static err_t all_seen(const struct seen *s) {
    if (s->tables != 1)
        return differs("tables", s->tables ? "more than one" : "none");
    if (s->chains != (1u << nft_nchains) - 1 || s->sets != (1u << NFT_SETS) - 1 ||
        s->reached != (s->net == NET_SEALED ? 2 : 0))
        return differs("chains or sets", "missing");
    for (size_t i = 0; i < nft_nchains; i++) {
        const struct nft_rule *more = expected_rule(s->net, nft_chains[i].name, s->rules[i]);
        if (more)
            return differs("missing rule", more->tag);
    }
    return NULL;
}

err_t nft_same(enum net net, const struct nft_place *place, const char *json) {
    own_nft_sets struct nft_sets want = {0};
    TRY(nft_sets_of(net, place, &want));
    struct seen s = {.net = net, .want = &want};
    json_t *root = json_loads(json, 0, NULL), *list = json_object_get(root, "nftables"), *each;
    err_t e = json_is_array(list)
                  ? NULL
                  : err_new(EXIT_FAILED, "the network rules cannot be read back: nft printed no ruleset");
    size_t i;
    json_array_foreach(list, i, each) {
        if (e)
            break;
        e = see(&s, each);
    }
    json_decref(root);
    return e ? e : all_seen(&s);
}

/* The counter of the rule in a listing that the table's rule stands for. */
static void count_of(json_t *list, struct nft_count *c) {
    size_t i, k;
    json_t *each, *part;
    json_array_foreach(list, i, each) {
        json_t *rule = json_object_get(each, "rule");
        if (!rule || strcmp(text(rule, "chain"), c->chain) || strcmp(text(rule, "comment"), c->tag))
            continue;
        json_array_foreach(json_object_get(rule, "expr"), k, part) {
            json_t *counter = json_object_get(part, "counter");
            c->packets += (uint64_t)json_integer_value(json_object_get(counter, "packets"));
            c->bytes += (uint64_t)json_integer_value(json_object_get(counter, "bytes"));
        }
    }
}

err_t nft_read_counts(enum net net, const char *json, struct nft_count ret[NFT_COUNTS_MAX], size_t *ret_n) {
    json_t *root = json_loads(json, 0, NULL), *list = json_object_get(root, "nftables");
    err_t e = json_is_array(list)
                  ? NULL
                  : err_new(EXIT_FAILED, "the network rules cannot be read back: nft printed no ruleset");
    *ret_n = 0;
    for (size_t i = 0; !e && i < nft_nrules && *ret_n < NFT_COUNTS_MAX; i++) {
        if (!nft_rule_for(&nft_rules[i], net))
            continue;
        struct nft_count *c = &ret[(*ret_n)++];
        *c = (struct nft_count){.chain = nft_rules[i].chain, .tag = nft_rules[i].tag};
        count_of(list, c);
    }
    json_decref(root);
    return e;
}

/* One element: {"elem": {"val": {"concat": ["tcp", "1.1.1.1", 443]}, "counter": {…}}}. */
static bool reached_of(json_t *elem, struct nft_reached *ret) {
    json_t *e = json_object_get(elem, "elem");
    json_t *key = json_object_get(json_object_get(e, "val"), "concat");
    const char *proto = json_string_value(json_array_get(key, 0)),
               *to = json_string_value(json_array_get(key, 1));
    json_t *port = json_array_get(key, 2),
           *packets = json_object_get(json_object_get(e, "counter"), "packets");
    if (!proto || !to || !json_is_integer(port) || !json_is_integer(packets))
        return false;
    *ret = (struct nft_reached){.port = (unsigned)json_integer_value(port),
                                .packets = (uint64_t)json_integer_value(packets)};
    snprintf(ret->proto, sizeof ret->proto, "%s", proto);
    snprintf(ret->address, sizeof ret->address, "%s", to);
    return true;
}

int nft_by_packets(const void *a, const void *b) {
    uint64_t one = ((const struct nft_reached *)a)->packets, two = ((const struct nft_reached *)b)->packets;
    return one < two ? 1
           : one > two
               ? -1
               : strcmp(((const struct nft_reached *)a)->address, ((const struct nft_reached *)b)->address);
}

err_t nft_read_reached(const char *json, struct nft_reached **ret, size_t *ret_n) {
    json_t *root = json_loads(json, 0, NULL), *list = json_object_get(root, "nftables"), *each, *elem;
    if (!json_is_array(list)) {
        json_decref(root);
        return err_new(EXIT_FAILED, "the network rules cannot be read back: nft printed no ruleset");
    }
    struct nft_reached *all = xcalloc(2 * NFT_REACHED_MAX, sizeof *all);
    size_t n = 0, i, k;
    json_array_foreach(list, i, each) {
        json_t *set = json_object_get(each, "set");
        if (strncmp(text(set, "name"), "reached", 7))
            continue;
        json_array_foreach(json_object_get(set, "elem"), k, elem) n +=
            n < 2 * NFT_REACHED_MAX && reached_of(elem, &all[n]);
    }
    json_decref(root);
    qsort(all, n, sizeof *all, nft_by_packets);
    *ret = all;
    *ret_n = n;
    return NULL;
}
