#include "cage/words.h"

#include "base/own.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static void add_owned(struct words *l, char *word) {
    l->w = xrealloc(l->w, l->n + 2, sizeof *l->w);
    l->w[l->n++] = word;
    l->w[l->n] = NULL;
}

void words_add(struct words *l, const char *word) {
    add_owned(l, xstrdup(word));
}

void words_addf(struct words *l, const char *fmt, ...) {
    char *word = NULL;
    va_list ap;
    va_start(ap, fmt);
    if (vasprintf(&word, fmt, ap) < 0)
        abort();
    va_end(ap);
    add_owned(l, word);
}

const char *const *words_argv(const struct words *l) {
    static const char *const none[] = {NULL};
    return l->w ? (const char *const *)l->w : none;
}

bool words_has(const struct words *l, const char *word) {
    for (size_t i = 0; i < l->n; i++)
        if (!strcmp(l->w[i], word))
            return true;
    return false;
}

bool words_same(const struct words *a, const struct words *b) {
    bool same = a->n == b->n;
    for (size_t i = 0; same && i < a->n; i++)
        same = !strcmp(a->w[i], b->w[i]);
    return same;
}

void words_free(struct words *l) {
    for (size_t i = 0; i < l->n; i++)
        free(l->w[i]);
    free(l->w);
    *l = (struct words){0};
}
