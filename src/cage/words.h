/* A list of strings, NULL-ended, as argv and environments are. Zero-initialise to start. */
#ifndef CAGE_WORDS_H
#define CAGE_WORDS_H

#include <stdbool.h>
#include <stddef.h>

struct words {
    char **w; /* owned, each string too; NULL while empty */
    size_t n;
};

void words_add(struct words *l, const char *word); /* copied */
void words_addf(struct words *l, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* NULL-ended, never NULL; owned by l; ends with the next words_add. */
const char *const *words_argv(const struct words *l);
bool words_has(const struct words *l, const char *word);
/* The same words in the same order. */
bool words_same(const struct words *a, const struct words *b);
void words_free(struct words *l);
#define own_words __attribute__((cleanup(words_free)))

#endif
