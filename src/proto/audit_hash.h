/*
 * The chain of the audit log: a row's hash covers the row and the hash of the row before it, so that nothing
 * can be changed, left out or put in without every later hash differing. The manager makes it, the warden
 * keeps heads of it where the manager cannot reach, `log --verify` makes it again and compares.
 *
 * What is hashed, with SHA-256 (FIPS 180-4):
 *
 *   "agent-cage audit row 1" and a NUL · the hash before (32 bytes; of the first row: zeros) · seq · agent ·
 * who · argv · cwd · start_wall_ms · span_us · how · status · output
 *
 * A number is 8 bytes, little-endian; a byte string its length as a number and its bytes; a list its count as
 * a number and that many byte strings. So two different rows never have the same encoding.
 */
#ifndef PROTO_AUDIT_HASH_H
#define PROTO_AUDIT_HASH_H

#include "proto/msg.h"

#include <stdbool.h>

enum { AUDIT_HASH = 32 };

struct audit_row {
    uint64_t seq; /* from 1, rising by one over all agents */
    struct bytes agent, who;
    struct list argv;
    struct bytes cwd;
    uint64_t start_wall_ms, span_us;
    struct bytes how; /* messages.def: ran_row, desk_row */
    int64_t status;
    struct bytes output; /* the file that holds the whole output; "" if none */
};

/* out may be the same place as before. EXIT_FAILED when OpenSSL cannot. */
err_t audit_hash(const uint8_t before[AUDIT_HASH], const struct audit_row *row, uint8_t out[AUDIT_HASH]);

#endif
