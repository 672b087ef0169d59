/*
 * The name and size of a file on its way to an agent or from one: checked by every part that the file passes, each
 * for itself.
 */
#ifndef PROTO_FILE_NAME_H
#define PROTO_FILE_NAME_H

#include "base/err.h"
#include "proto/msg.h"

enum { FILE_NAME_BYTES = 255 };
#define FILE_BYTES_MAX (UINT64_C(2) << 30)

/*
 * A name is 1 to 255 bytes of UTF-8 that are shown as they are: no '/', no NUL, no control, bidi or zero-width character
 * (base/escape.h), no '.' first (so neither "." nor "..", nor a hidden file). size is at most FILE_BYTES_MAX. Else EXIT_POLICY
 * with a sentence in which the name is escaped.
 */
err_t file_check(struct bytes name, uint64_t size);

/*
 * The same name again with "-2", "-3" … before its last '.', for one that is taken: at most 255 bytes, cut at a whole
 * character of the stem. n > 1. The caller frees.
 */
char *file_name_other(const char *name, unsigned n);

#endif
