#include "break/judge.h"

#include "base/own.h"

#include <stdlib.h>
#include <string.h>

void answers_start(struct answers *a) {
    a->of = xcalloc(nrows, sizeof *a->of);
}

void answers_read(struct answers *a, const char *text) {
    for (const char *line = text; *line;) {
        size_t n = strcspn(line, "\n"), tab = strcspn(line, "\t\n");
        own_free char *what = xstrndup(line, tab);
        size_t row = row_find(what);
        if (tab < n && row < nrows) {
            free(a->of[row]);
            a->of[row] = xstrndup(line + tab + 1, n - tab - 1);
        }
        line += n + (line[n] == '\n');
    }
}

void answers_free(struct answers *a) {
    for (size_t i = 0; a->of && i < nrows; i++)
        free(a->of[i]);
    free(a->of);
    a->of = NULL;
}

static const char *answer_of(const struct answers *a, size_t row) {
    return a->of ? a->of[row] : NULL;
}

static struct judged verdict(enum verdict v, const char *fmt, const char *a, const char *b) {
    struct judged j = {.verdict = v};
    if (fmt)
        buf_printf(&j.why, fmt, a, b);
    return j;
}

/* Does a control arm show that another answer is possible? *ret_said: what the arms said, for the sentence. */
static bool shown(size_t row, const char *want, const struct answers arms[ARMS_MAX], struct buf *said) {
    bool reach = rows[row].proof == REACHES;
    for (size_t i = 0; i < ARMS_MAX; i++) {
        const char *answer = answer_of(&arms[i], row);
        if (!answer)
            continue;
        if (reach ? !strcmp(answer, "OK") || !strncmp(answer, "tcp:", 4) : !row_right(want, answer))
            return true;
        buf_printf(said, "%s%s", said->len ? ", " : "", answer);
    }
    return false;
}

static struct judged judge_abroad(size_t row, const char *answer, const struct answers *host) {
    const char *outside = answer_of(host, row);
    if (outside && !strcmp(outside, "OK"))
        return verdict(RED, "answered %s although this host reaches it (%s)", answer, outside);
    return verdict(NOT_JUDGED, "this host itself gets no answer there (%s), the cage %s",
                   outside ? outside : "not tried", answer);
}

struct judged judge_row(size_t row, enum kind kind, const struct answers *room,
                        const struct answers arms[ARMS_MAX]) {
    const struct row *r = &rows[row];
    const char *want = r->want[kind], *answer = answer_of(room, row);
    if (!answer)
        return verdict(NOT_JUDGED, "it was not tried%s%s", "", "");
    if (row_needs_six(r) && row_right("ENETUNREACH|EADDRNOTAVAIL", answer))
        return verdict(NOT_JUDGED, "this cage has no IPv6%s%s", "", "");
    if (!row_right(want, answer))
        return r->proof == ABROAD ? judge_abroad(row, answer, &arms[ARM_HOST])
                                  : verdict(RED, "answered %s, must be %s", answer, want);
    if (!row_needs_arm(r) || !strcmp(want, "OK") || *want == '=')
        return verdict(GREEN, NULL, NULL, NULL);
    own_buf struct buf said = {0};
    if (shown(row, want, arms, &said))
        return verdict(GREEN, NULL, NULL, NULL);
    return verdict(NOT_JUDGED, "without the cage the answer is the same here (%s)%s",
                   said.len ? buf_text(&said) : "not tried", "");
}
