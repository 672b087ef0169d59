/* A command's words as the tables have them: each item and a NUL. */
#ifndef MANAGER_PACKED_H
#define MANAGER_PACKED_H

#include "base/buf.h"
#include "proto/msg.h"

enum { AUDIT_ARGV_MAX = 64 << 10 };

/* At most AUDIT_ARGV_MAX bytes of it; what is over is one item that says how much, and its SHA-256. */
void packed_bounded(struct buf *out, struct list argv);

/* The items, pointing into `packed`; *ret_items is the caller's to free. */
struct list packed_items(struct bytes packed, struct bytes **ret_items);

#endif
