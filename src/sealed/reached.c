#include "sealed/reached.h"

#include "base/fs.h"
#include "base/own.h"
#include "cage/nft_read.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 20 };

/* ---- counted ---- */

static bool is(const struct nft_count *c, const char *chain, const char *tag) {
    return !strcmp(c->chain, chain) && !strcmp(c->tag, tag);
}

static void take_counts(const struct nft_seen *seen, struct reached *r) {
    for (size_t i = 0; i < seen->ncounts; i++) {
        const struct nft_count *c = &seen->counts[i];
        if (is(c, "output", "everything else")) {
            r->sent += c->packets;
            r->sent_bytes += c->bytes;
        } else if (is(c, "input", "answers")) {
            r->came += c->packets;
            r->came_bytes += c->bytes;
        } else if (!strcmp(c->chain, "refuse")) {
            r->refused += c->packets;
            r->refused_bytes += c->bytes;
        }
    }
}

err_t reached_count(int netns, struct reached *ret) {
    own_nft_seen struct nft_seen seen = {.ncounts = 0};
    struct reached r = {0};
    TRY(nft_seen(netns, NET_SEALED, &seen));
    take_counts(&seen, &r);
    r.to = TAKE(seen.reached);
    r.nto = seen.nreached;
    *ret = r;
    return NULL;
}

/* ---- added ---- */

static struct nft_reached *find(struct nft_reached *all, size_t n, const struct nft_reached *one) {
    for (size_t i = 0; i < n; i++)
        if (all[i].port == one->port && !strcmp(all[i].address, one->address) &&
            !strcmp(all[i].proto, one->proto))
            return &all[i];
    return NULL;
}

static void add_destinations(struct reached *r, const struct reached *more) {
    struct nft_reached *all = xcalloc(r->nto + more->nto + 1, sizeof *all);
    size_t n = r->nto;
    if (n)
        memcpy(all, r->to, n * sizeof *all);
    for (size_t i = 0; i < more->nto; i++) {
        struct nft_reached *same = find(all, r->nto, &more->to[i]);
        if (same)
            same->packets += more->to[i].packets;
        else
            all[n++] = more->to[i];
    }
    qsort(all, n, sizeof *all, nft_by_packets);
    free(r->to);
    r->to = all;
    r->nto = n < REACHED_MAX ? n : REACHED_MAX;
}

void reached_add(struct reached *r, const struct reached *more) {
    r->sent += more->sent;
    r->sent_bytes += more->sent_bytes;
    r->came += more->came;
    r->came_bytes += more->came_bytes;
    r->refused += more->refused;
    r->refused_bytes += more->refused_bytes;
    r->gaps |= more->gaps;
    add_destinations(r, more);
}

/* ---- kept: a line of figures, and one for each destination ---- */

err_t reached_keep(const struct reached *r, const char *path) {
    own_buf struct buf text = {0};
    buf_printf(&text, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %d\n", r->sent,
               r->sent_bytes, r->came, r->came_bytes, r->refused, r->refused_bytes, r->gaps);
    for (size_t i = 0; i < r->nto; i++)
        buf_printf(&text, "%s %s %u %" PRIu64 "\n", r->to[i].proto, r->to[i].address, r->to[i].port,
                   r->to[i].packets);
    return fs_write(path, text.p, text.len, 0, 0, 0600);
}

static bool read_figures(const char *line, struct reached *r) {
    int gaps = 0;
    bool good =
        sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %" SCNu64 " %d", &r->sent,
               &r->sent_bytes, &r->came, &r->came_bytes, &r->refused, &r->refused_bytes, &gaps) == 7;
    r->gaps = gaps != 0;
    return good;
}

static bool read_destination(const char *line, struct reached *r) {
    struct nft_reached *to = &r->to[r->nto];
    if (r->nto == REACHED_MAX ||
        sscanf(line, "%7s %45s %u %" SCNu64, to->proto, to->address, &to->port, &to->packets) != 4)
        return false;
    r->nto++;
    return true;
}

err_t reached_recall(const char *path, struct reached *ret) {
    own_reached struct reached r = {.to = xcalloc(REACHED_MAX, sizeof *r.to)};
    own_buf struct buf text = {0};
    TRY(fs_read(path, FILE_MAX, &text));
    char *rest = (char *)buf_text(&text), *line = strsep(&rest, "\n");
    bool good = read_figures(line, &r);
    while (good && (line = strsep(&rest, "\n")) && *line)
        good = read_destination(line, &r);
    if (!good)
        return err_new(EXIT_FAILED, "%s is not what was written there", path);
    *ret = r;
    r.to = NULL;
    return NULL;
}

/* ---- said ---- */

/* Numbers of the kernel's: nothing in them is the room's own text. */
static void say_destinations(const struct reached *r, size_t shown, struct buf *out) {
    for (size_t i = 0; i < r->nto && i < shown; i++) {
        const struct nft_reached *to = &r->to[i];
        bool six = strchr(to->address, ':') != NULL;
        buf_printf(out, "            %s %s%s%s:%u, ", to->proto, six ? "[" : "", to->address, six ? "]" : "",
                   to->port);
        buf_count(out, to->packets, "time\n", "times\n");
    }
    if (r->nto > shown)
        buf_printf(out, "            and %zu more\n", r->nto - shown);
}

static void say_traffic(const struct reached *r, struct buf *out) {
    buf_adds(out, "sent ");
    buf_count(out, r->sent, "packet (", "packets (");
    buf_bytes(out, r->sent_bytes);
    buf_printf(out, ") to the internet, %" PRIu64 " came back (", r->came);
    buf_bytes(out, r->came_bytes);
    buf_adds(out, ")");
}

void reached_say(const struct reached *r, size_t shown, struct buf *out) {
    buf_adds(out, "  network   ");
    if (r->sent)
        say_traffic(r, out);
    else
        buf_printf(out, "nothing %swent out", r->gaps ? "that was seen " : "");
    if (r->refused) {
        buf_adds(out, "; ");
        buf_count(out, r->refused, "packet to local addresses was refused",
                  "packets to local addresses were refused");
    }
    buf_adds(out, "\n");
    say_destinations(r, shown, out);
    if (r->gaps)
        buf_adds(out,
                 "            and what a room of it reached that ended while nobody watched is not known\n");
}

void reached_free(struct reached *r) {
    free(r->to);
    *r = (struct reached){0};
}
