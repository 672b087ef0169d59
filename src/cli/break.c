/* break: how well cages hold on this machine, tried from inside one. Exit status 1 when something does not hold. */
#include "base/clock.h"
#include "base/names.h"
#include "base/own.h"
#include "break/break.h"
#include "cli/client.h"
#include "cli/json.h"
#include "cli/verb.h"
#include "sealed/ground.h"

#include <string.h>
#include <unistd.h>

static const char *const verdicts[] = {[GREEN] = "green", [RED] = "red", [NOT_JUDGED] = "not judged"};

static void print_rows(const struct break_report *r, enum verdict v) {
    for (size_t i = 0; i < r->nrows; i++)
        if (r->rows[i].verdict == v)
            printf("%s  %s: %s\n", verdicts[v], r->rows[i].what, r->rows[i].why);
}

static void print_text(const struct break_report *r) {
    for (size_t i = 0; i < r->nposture; i++)
        if (*r->posture[i].value)
            printf("%s%s %s", i ? " · " : "", r->posture[i].name, r->posture[i].value);
    char span[CLOCK_SPAN_MAX];
    clock_span(span, r->took_ms);
    printf("\n");
    print_rows(r, RED);
    print_rows(r, NOT_JUDGED);
    printf("judged %zu, green %zu, red %zu, not judged %zu, in %s\n", r->count[GREEN] + r->count[RED],
           r->count[GREEN], r->count[RED], r->count[NOT_JUDGED], span);
    if (r->count[RED])
        printf("Cages do not hold on this machine as they must: each red line is a protection that is "
               "missing.\n");
}

static void print_json(const struct break_report *r, enum kind kind) {
    json_t *host = json_object(), *list = json_array();
    for (size_t i = 0; i < r->nposture; i++)
        json_object_set_new(host, r->posture[i].name, json_string(r->posture[i].value));
    for (size_t i = 0; i < r->nrows; i++)
        json_array_append_new(list, json_pack("{s:s, s:s, s:s}", "row", r->rows[i].what, "verdict",
                                              verdicts[r->rows[i].verdict], "why", r->rows[i].why));
    own_json json_t *o =
        json_pack("{s:s, s:o, s:o, s:I, s:I, s:I, s:I}", "cage", kind_name(kind), "host", host, "rows", list,
                  "green", (json_int_t)r->count[GREEN], "red", (json_int_t)r->count[RED], "not_judged",
                  (json_int_t)r->count[NOT_JUDGED], "took_ms", (json_int_t)r->took_ms);
    json_print(o, stdout);
}

struct place {
    enum mode mode;
    bool network;
};

static err_t on_status(void *ctx, struct msg *m) {
    struct place *p = ctx;
    if (m->type != MSG_relay_status)
        return NULL;
    p->network = strcmp(m->relay_status.net.p, net_name(NET_NONE)) != 0;
    return mode_of(m->relay_status.mode.p, &p->mode);
}

/* Each kind of room has its own right answers; one without an expectation is not judged by another's. */
static err_t kind_of(const char *agent, enum kind *ret) {
    static const enum kind kinds[MODE_COUNT] = {
        [MODE_POD] = KIND_POD, [MODE_BARE] = KIND_COUNT, [MODE_SEALED] = KIND_SEALED_AGENT};
    own_client struct client c;
    struct place place = {.mode = MODE_COUNT};
    struct msg m = {.type = MSG_front_status};
    m.front_status.agent = bytes_of(agent);
    TRY(client_open(&c, "cli"));
    TRY(client_call(&c, &m, CLIENT_WAIT_MS, on_status, &place, NULL));
    *ret = place.mode < MODE_COUNT ? kinds[place.mode] : KIND_COUNT;
    if (*ret == KIND_COUNT)
        return err_new(EXIT_USAGE, "%s has no cage that could be judged: it is %s", agent,
                       mode_name(place.mode));
    if (kind_sealed(*ret) && !place.network)
        return err_new(EXIT_USAGE,
                       "%s has no network, which most of the rows are about: `agent-cage break` without a "
                       "name judges a cage that has",
                       agent);
    return NULL;
}

static void tell(void *ctx, const char *line) {
    (void)ctx;
    fprintf(stderr, "agent-cage: workbench: %s\n", line);
}

/* What a cage of its own stands on, before the probe's time begins: an image is minutes in the making. An ordinary user makes none, and
 * stands on more inside the user namespace that the probe's run enters. */
static err_t stand(void) {
    if (geteuid() != 0)
        return NULL;
    own_ground struct ground g = {0};
    return ground_open(tell, NULL, &g);
}

err_t verb_break(const struct call *call, int *ret_status) {
    struct break_wish wish = {.name = call->args[0], .kind = KIND_SEALED};
    if (wish.name)
        TRY(kind_of(wish.name, &wish.kind));
    else
        TRY(stand());
    own_break_report struct break_report r = {0};
    TRY(break_run(&wish, &r));
    if (call_option(call, "json"))
        print_json(&r, wish.kind);
    else
        print_text(&r);
    *ret_status = r.count[RED] ? 1 : 0;
    return NULL;
}
