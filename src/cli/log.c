/* log: what ran in an agent's executor, for people, as JSON, or checked. */
#include "base/clock.h"
#include "base/escape.h"
#include "base/hex.h"
#include "base/names.h"
#include "base/own.h"
#include "base/paths.h"
#include "cli/client.h"
#include "cli/json.h"
#include "cli/quote.h"
#include "cli/verb.h"
#include "cli/verify.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <string.h>
#include <unistd.h>

#define PATH_HEADS DIR_LIB "/warden/audit-heads"
enum { COMMAND_SHOWN = 1000 };

/* The file with a message's whole output as this host names it: the agent says only which below its own folder. NULL: none
 * is named, or what is named is none of those. The caller frees. */
static char *output_file(const struct msg_relay_row *r) {
    static const char below[] = "outputs/";
    const char *id = r->output.p + sizeof below - 1;
    if (strncmp(r->output.p, below, sizeof below - 1) || !*id || id[strspn(id, "0123456789")] ||
        !name_ok(r->agent.p))
        return NULL;
    return path_of(DIR_LIB "/agents/%s/agent/%s", r->agent.p, r->output.p);
}

/* ---- for people ---- */

static void ended(char out[32], const struct msg_relay_row *r) {
    if (!strcmp(r->how.p, "exit"))
        snprintf(out, 32, "%" PRId64, r->status);
    else if (!strcmp(r->how.p, "signal"))
        snprintf(out, 32, "signal %" PRId64, r->status);
    else
        escape_into(out, 32, ESCAPE_LINE, r->how.p, r->how.len);
}

static void command(struct buf *out, const struct msg_relay_row *r) {
    own_buf struct buf all = {0};
    quote_argv(&all, r->argv);
    if (all.len <= COMMAND_SHOWN) {
        buf_add(out, all.p, all.len);
        return;
    }
    size_t kept = COMMAND_SHOWN;
    while (kept && ((unsigned char)all.p[kept] & 0xc0) == 0x80) /* not inside a character */
        kept--;
    buf_add(out, all.p, kept);
    buf_printf(out, " … (%zu bytes more: --json has them)", all.len - kept);
}

static void row_line(const struct msg_relay_row *r) {
    char when[CLOCK_ISO_MAX], span[CLOCK_SPAN_MAX], how[32], who[65];
    clock_iso(when, (int64_t)r->start_wall_ms);
    if (r->span_us < 1000000)
        snprintf(span, sizeof span, "%" PRIu64 "ms", r->span_us / 1000);
    else
        clock_span(span, (int64_t)(r->span_us / 1000));
    ended(how, r);
    own_buf struct buf line = {0};
    command(&line, r);
    char seq[24] = "-"; /* one that runs is not in the chain yet */
    if (r->seq)
        snprintf(seq, sizeof seq, "%" PRIu64, r->seq);
    printf("%6s  %s  %8s  %-9s  %-12s  %s\n", seq, when, span, how,
           r->who.len ? escape_into(who, sizeof who, ESCAPE_LINE, r->who.p, r->who.len) : "harness",
           buf_text(&line));
    own_free char *output = output_file(r);
    if (output)
        printf("        all of its output: %s%s\n", output,
               access(output, F_OK) && errno == ENOENT ? " (removed with the agent)" : "");
}

/* ---- as JSON ---- */

static json_t *base64(const struct bytes *b) {
    own_free char *text = xmalloc(4 * ((b->len + 2) / 3) + 1);
    EVP_EncodeBlock((unsigned char *)text, (const unsigned char *)b->p, (int)b->len);
    return json_string(text);
}

/* argv as text; where some of it is not UTF-8, all of it in base64 too. */
static void json_argv(json_t *o, struct list argv) {
    json_t *texts = json_array();
    bool exact = true;
    for (size_t i = 0; i < argv.n; i++) {
        json_array_append_new(texts, json_text(&argv.v[i]));
        exact = exact && utf8_valid(argv.v[i].p, argv.v[i].len);
    }
    json_object_set_new(o, "argv", texts);
    if (exact)
        return;
    json_t *coded = json_array();
    for (size_t i = 0; i < argv.n; i++)
        json_array_append_new(coded, base64(&argv.v[i]));
    json_object_set_new(o, "argv_b64", coded);
}

static void row_json(const struct msg_relay_row *r) {
    char hash[2 * AUDIT_HASH + 1];
    hex_put(hash, r->hash.p, r->hash.len < AUDIT_HASH ? r->hash.len : AUDIT_HASH);
    own_json json_t *o = json_object();
    json_object_set_new(o, "seq", json_integer((json_int_t)r->seq));
    json_object_set_new(o, "agent", json_text(&r->agent));
    json_object_set_new(o, "who", json_text(&r->who));
    json_argv(o, r->argv);
    json_object_set_new(o, "cwd", json_text(&r->cwd));
    json_object_set_new(o, "start_ms", json_integer((json_int_t)r->start_wall_ms));
    json_object_set_new(o, "span_us", json_integer((json_int_t)r->span_us));
    json_object_set_new(o, "how", json_text(&r->how));
    json_object_set_new(o, "status", json_integer((json_int_t)r->status));
    own_free char *output = output_file(r);
    json_object_set_new(o, "output", json_string(output ? output : ""));
    json_object_set_new(o, "hash", json_string(hash));
    json_print(o, stdout);
}

/* ---- the list ---- */

struct listing {
    bool json, follow;
    uint64_t n;
};

static err_t on_row(void *ctx, struct msg *m) {
    struct listing *l = ctx;
    if (m->type != MSG_relay_row)
        return NULL;
    if (l->json)
        row_json(&m->relay_row);
    else {
        if (!l->n)
            printf("%6s  %-20s  %8s  %-9s  %-12s  %s\n", "ROW", "START", "SPAN", "ENDED", "WHO", "COMMAND");
        row_line(&m->relay_row);
    }
    l->n++;
    if (l->follow && fflush(stdout))
        return err_sys(errno, "cannot write to standard output");
    return NULL;
}

static err_t list(const struct call *call) {
    struct listing l = {.json = call_option(call, "json"), .follow = call_option(call, "follow")};
    struct msg m = {.type = MSG_front_log};
    m.front_log.agent = bytes_of(call->args[0]);
    m.front_log.follow = l.follow;
    own_client struct client c;
    TRY(client_open(&c, "cli"));
    TRY(client_call(&c, &m, l.follow ? -1 : CLIENT_WAIT_MS, on_row, &l, NULL));
    if (!l.n && !l.json)
        puts("nothing ran yet");
    return NULL;
}

/* ---- the check ---- */

static err_t on_verify_row(void *ctx, struct msg *m) {
    if (m->type != MSG_relay_row)
        return NULL;
    const struct msg_relay_row *r = &m->relay_row;
    struct audit_row row = {r->seq,           r->agent,   r->who, r->argv,   r->cwd,
                            r->start_wall_ms, r->span_us, r->how, r->status, r->output};
    return verify_row(ctx, &row, r->hash);
}

/* The heads first: a row that is written meanwhile has no head that is looked for. */
static err_t check(struct verify *v) {
    own_free char *path = path_of(PATH_HEADS);
    own_file FILE *heads = fopen(path, "re");
    if (!heads && errno != ENOENT)
        return err_sys(errno, "open %s", path);
    if (heads)
        TRY(verify_heads(v, heads));
    own_client struct client c;
    TRY(client_open(&c, "cli"));
    struct msg m = {.type = MSG_front_log};
    m.front_log.agent = bytes_of(""); /* the chain runs through all agents */
    TRY(client_call(&c, &m, CLIENT_WAIT_MS, on_verify_row, v, NULL));
    verify_end(v);
    return NULL;
}

static void tell_json(const struct verify *v) {
    own_json json_t *o = json_object();
    json_object_set_new(o, "ok", json_boolean(!*v->why));
    json_object_set_new(o, "first", json_integer((json_int_t)v->first));
    json_object_set_new(o, "last", json_integer((json_int_t)v->last));
    json_object_set_new(o, "heads", json_integer((json_int_t)v->compared));
    if (*v->why) {
        json_object_set_new(o, "bad", json_integer((json_int_t)v->bad));
        json_object_set_new(o, "why", json_string(v->why));
    }
    json_print(o, stdout);
}

static void tell(const struct verify *v) {
    if (*v->why) {
        printf("bad: row %" PRIu64 ": %s\n", v->bad, v->why);
        return;
    }
    if (!v->last) {
        puts("ok: nothing ran yet");
        return;
    }
    printf("ok: rows %" PRIu64 " to %" PRIu64 " of all agents, %" PRIu64
           " of them compared with hashes that the warden kept\n",
           v->first, v->last, v->compared);
    if (v->first > 1)
        printf("rows before %" PRIu64 " were let go, as the oldest of a long log are%s\n", v->first,
               v->first_unchecked ? "; this first row itself cannot be checked" : "");
    if (!v->compared)
        puts("no hash kept by the warden is among them: only that the rows fit each other is shown");
}

static err_t verify(const struct call *call, int *ret_status) {
    struct verify v = {0};
    err_t e = check(&v);
    if (!e) {
        if (call_option(call, "json"))
            tell_json(&v);
        else
            tell(&v);
        *ret_status = *v.why ? 1 : 0;
    }
    verify_free(&v);
    return e;
}

err_t verb_log(const struct call *call, int *ret_status) {
    return call_option(call, "verify") ? verify(call, ret_status) : list(call);
}
