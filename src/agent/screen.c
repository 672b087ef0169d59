#include "agent/screen.h"
#include "agent/gateway/secret.h"
#include "base/own.h"

#include <stdlib.h>
#include <string.h>

enum state { GROUND, ESCAPE, SKIP_ONE, CONTROL, STRING, STRING_ESCAPE, STATES };
enum { NUMBERS_MAX = 4 };

struct screen {
    char *cells; /* SCREEN_ROWS lines of SCREEN_COLUMNS, blanks where nothing is */
    size_t size;
    unsigned row, column, kept_row, kept_column;
    enum state state;
    unsigned numbers[NUMBERS_MAX], n; /* of the control sequence */
};

static char *line_of(const struct screen *s, unsigned row) {
    return s->cells + (size_t)row * SCREEN_COLUMNS;
}

/* ---- drawing ---- */

static void down(struct screen *s) {
    if (s->row + 1 < SCREEN_ROWS) {
        s->row++;
        return;
    }
    memmove(s->cells, line_of(s, 1), (size_t)(SCREEN_ROWS - 1) * SCREEN_COLUMNS);
    memset(line_of(s, SCREEN_ROWS - 1), ' ', SCREEN_COLUMNS);
}

static void put(struct screen *s, char c) {
    if (s->column == SCREEN_COLUMNS) {
        s->column = 0;
        down(s);
    }
    line_of(s, s->row)[s->column++] = c;
}

/* The cell where the cursor is, also when it waits behind the last one. */
static unsigned at_column(const struct screen *s) {
    return s->column < SCREEN_COLUMNS ? s->column : SCREEN_COLUMNS - 1;
}

static unsigned number(const struct screen *s, unsigned i, unsigned otherwise) {
    return i < s->n && s->numbers[i] ? s->numbers[i] : otherwise;
}

static void move_to(struct screen *s, int64_t row, int64_t column) {
    s->row = row < 0 ? 0 : row >= SCREEN_ROWS ? SCREEN_ROWS - 1 : (unsigned)row;
    s->column = column < 0 ? 0 : column >= SCREEN_COLUMNS ? SCREEN_COLUMNS - 1 : (unsigned)column;
}

static void up_by(struct screen *s) {
    move_to(s, (int64_t)s->row - number(s, 0, 1), s->column);
}

static void down_by(struct screen *s) {
    move_to(s, (int64_t)s->row + number(s, 0, 1), s->column);
}

static void right_by(struct screen *s) {
    move_to(s, s->row, (int64_t)at_column(s) + number(s, 0, 1));
}

static void left_by(struct screen *s) {
    move_to(s, s->row, (int64_t)at_column(s) - number(s, 0, 1));
}

static void to_column(struct screen *s) {
    move_to(s, s->row, (int64_t)number(s, 0, 1) - 1);
}

static void to_row(struct screen *s) {
    move_to(s, (int64_t)number(s, 0, 1) - 1, s->column);
}

static void to_place(struct screen *s) {
    move_to(s, (int64_t)number(s, 0, 1) - 1, (int64_t)number(s, 1, 1) - 1);
}

/* ECMA-48, ED and EL: 0 from the cursor on, 1 up to it, 2 and 3 all. */
static void clear(struct screen *s, size_t from, size_t to) {
    size_t at = (size_t)s->row * SCREEN_COLUMNS + at_column(s);
    unsigned what = number(s, 0, 0);
    from = what == 0 ? at : from;
    to = what == 1 ? at + 1 : to;
    memset(s->cells + from, ' ', to - from);
}

static void clear_screen(struct screen *s) {
    clear(s, 0, (size_t)SCREEN_ROWS * SCREEN_COLUMNS);
}

static void clear_line(struct screen *s) {
    size_t from = (size_t)s->row * SCREEN_COLUMNS;
    clear(s, from, from + SCREEN_COLUMNS);
}

static const struct {
    char final;
    void (*act)(struct screen *s);
} sequences[] = {{'A', up_by},  {'B', down_by},  {'C', right_by}, {'D', left_by},      {'G', to_column},
                 {'d', to_row}, {'H', to_place}, {'f', to_place}, {'J', clear_screen}, {'K', clear_line}};

/* ---- reading ---- */

static void on_ground(struct screen *s, unsigned char c) {
    if (c == 0x1b)
        s->state = ESCAPE;
    else if (c == '\r')
        s->column = 0;
    else if (c == '\n')
        down(s);
    else if (c == '\b')
        s->column = at_column(s) - (at_column(s) > 0);
    else if (c == '\t')
        move_to(s, s->row, (int64_t)(at_column(s) | 7) + 1);
    else if (c >= ' ' && c < 0x7f)
        put(s, (char)c);
    else if (c >= 0xc0) /* the first byte of a character, drawn as one cell */
        put(s, '?');
}

static void on_escape(struct screen *s, unsigned char c) {
    s->state = GROUND;
    if (c == '[') {
        s->state = CONTROL;
        memset(s->numbers, 0, sizeof s->numbers);
        s->n = 0;
    } else if (c == ']' || c == 'P' || c == '_' || c == '^' || c == 'X')
        s->state = STRING;
    else if (c >= ' ' && c < '0') /* a character set follows */
        s->state = SKIP_ONE;
    else if (c == '7')
        s->kept_row = s->row, s->kept_column = s->column;
    else if (c == '8')
        s->row = s->kept_row, s->column = s->kept_column;
}

static void on_skip_one(struct screen *s, unsigned char c) {
    (void)c;
    s->state = GROUND;
}

static void on_control(struct screen *s, unsigned char c) {
    if (c >= '0' && c <= '9') {
        s->n = s->n ? s->n : 1;
        unsigned *last = &s->numbers[s->n - 1];
        *last = *last < 100000 ? *last * 10 + (c - '0') : *last;
    } else if (c == ';') {
        s->n += s->n ? 1 : 2;
        s->n = s->n > NUMBERS_MAX ? NUMBERS_MAX : s->n;
    } else if (c >= 0x40) {
        s->state = GROUND;
        for (size_t i = 0; i < COUNT(sequences); i++)
            if (sequences[i].final == (char)c)
                sequences[i].act(s);
    }
}

static void on_string(struct screen *s, unsigned char c) {
    s->state = c == 7 ? GROUND : c == 0x1b ? STRING_ESCAPE : STRING;
}

static void on_string_escape(struct screen *s, unsigned char c) {
    s->state = c == '\\' ? GROUND : STRING;
}

void screen_feed(struct screen *s, const char *p, size_t n) {
    static void (*const on[STATES])(struct screen *, unsigned char) = {
        [GROUND] = on_ground,   [ESCAPE] = on_escape, [SKIP_ONE] = on_skip_one,
        [CONTROL] = on_control, [STRING] = on_string, [STRING_ESCAPE] = on_string_escape};
    for (size_t i = 0; i < n; i++)
        on[s->state](s, (unsigned char)p[i]);
}

/* ---- looking ---- */

static size_t length(const char *line) {
    size_t n = SCREEN_COLUMNS;
    while (n && line[n - 1] == ' ')
        n--;
    return n;
}

bool screen_find(const struct screen *s, const char *with, const char *set, struct bytes *ret) {
    size_t k = strlen(with);
    for (unsigned row = 0; row < SCREEN_ROWS; row++) {
        const char *line = line_of(s, row), *at = memmem(line, SCREEN_COLUMNS, with, k);
        if (!at)
            continue;
        size_t n = k, most = (size_t)(line + SCREEN_COLUMNS - at);
        while (n < most && strchr(set, at[n]))
            n++;
        *ret = (struct bytes){at, n};
        return true;
    }
    return false;
}

bool screen_behind(const struct screen *s, const char *with, struct bytes *ret) {
    for (unsigned row = 0; row < SCREEN_ROWS; row++) {
        const char *line = line_of(s, row), *at = memmem(line, SCREEN_COLUMNS, with, strlen(with));
        if (!at)
            continue;
        at += strlen(with);
        const char *end = line + length(line);
        *ret = (struct bytes){at, at < end ? (size_t)(end - at) : 0};
        return true;
    }
    return false;
}

static bool text_of(const char *line, struct bytes *ret) {
    size_t n = length(line), from = 0;
    while (from < n && line[from] == ' ')
        from++;
    *ret = (struct bytes){line + from, n - from};
    return from < n;
}

bool screen_below(const struct screen *s, const char *text, struct bytes *ret) {
    unsigned row = 0;
    while (row < SCREEN_ROWS && !memmem(line_of(s, row), SCREEN_COLUMNS, text, strlen(text)))
        row++;
    while (++row < SCREEN_ROWS)
        if (text_of(line_of(s, row), ret))
            return true;
    return false;
}

bool screen_last(const struct screen *s, struct bytes *ret) {
    for (unsigned row = SCREEN_ROWS; row-- > 0;) {
        if (text_of(line_of(s, row), ret))
            return true;
    }
    return false;
}

err_t screen_new(struct screen **ret) {
    struct screen *s = xcalloc(1, sizeof *s);
    s->size = (size_t)SCREEN_ROWS * SCREEN_COLUMNS;
    void *cells;
    err_t e = pages_new(s->size, &cells);
    if (e) {
        free(s);
        return e;
    }
    s->cells = cells;
    memset(s->cells, ' ', s->size);
    *ret = s;
    return NULL;
}

void screen_free(struct screen *s) {
    if (!s)
        return;
    pages_free(s->cells, s->size);
    free(s);
}
