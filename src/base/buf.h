/* A growable run of bytes. Zero-initialise to start; `own_buf struct buf b = {0};` frees at the end of the
 * scope. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

struct buf {
    char *p;         /* always NUL-terminated once something was added; NULL before */
    size_t len, cap; /* bytes used (without the NUL), bytes had */
};

void buf_add(struct buf *b, const void *p, size_t n);
void buf_adds(struct buf *b, const char *s);
void buf_printf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* "1 process", "2 processes": the number, a space and the word that fits it. */
void buf_count(struct buf *b, uint64_t n, const char *one, const char *many);

/* "1.5 MiB": an amount, for a person. */
void buf_bytes(struct buf *b, uint64_t amount);

/* Drops the first n bytes (n <= len). */
void buf_drop(struct buf *b, size_t n);

/* Empties, keeping the memory. */
void buf_clear(struct buf *b);

/* The text, never NULL ("" when empty). Owned by b. */
const char *buf_text(const struct buf *b);

/* Hands the memory to the caller (free()), leaving b empty; never NULL. */
char *buf_take(struct buf *b);

void buf_free(struct buf *b);
#define own_buf __attribute__((cleanup(buf_free)))

#endif
