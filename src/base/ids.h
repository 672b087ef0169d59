/*
 * Accounts and uid ranges, read from the files themselves: NSS wants plug-ins that a static binary has not.
 *
 * Every agent gets 65536 uids of its own (uid_base …), on the host used by nobody else. A fleet reserves them
 * in blocks of IDS_BLOCK in /etc/subuid and /etc/subgid under the name "<prefix>cage", as shadow's own tools
 * write such lines, so that useradd and podman keep away from them; a mark that only rises says which is
 * next, so that a range that was freed is never given to another agent (files with its uids may have survived
 * somewhere). The files are changed under shadow's lock (/etc/.pwd.lock, lckpwdf(3)) by writing a new one and
 * renaming it.
 */
#ifndef BASE_IDS_H
#define BASE_IDS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum { IDS_BLOCK = 256 * 65536 };
#define IDS_FIRST 0x70000000u /* above systemd's ranges (UIDS-GIDS.md: up to 0x6fffffff) */

/* An account's ids from /etc/passwd. EXIT_NOTFOUND when there is none. */
err_t ids_account(const char *name, uid_t *ret_uid, gid_t *ret_gid);

/* The name of a uid in /etc/passwd, NULL when it has none; the caller frees. */
char *ids_name(uid_t uid);

/* The home of a uid in /etc/passwd, NULL when it has none or one that is no absolute path; the caller frees. */
char *ids_home(uid_t uid);

/*
 * The next 65536 ids for an agent of the fleet with this prefix; reserves a block when there is none, or when
 * the last is used up. The mark ("next-uid", fsynced before this returns) is kept in `dir`. The warden's
 * alone.
 */
err_t ids_next_range(const char *prefix, const char *dir, uint32_t *ret_base);

/* Takes every line of this fleet out of /etc/subuid and /etc/subgid, when a fleet is removed for good. */
err_t ids_drop(const char *prefix);

/* How many ids are reserved for this fleet (0: none yet); for `doctor`. Fails when the two files differ. */
err_t ids_reserved(const char *prefix, uint64_t *ret_ids);

/* Does this uid lie in a block of this fleet? */
bool ids_ours(const char *prefix, uid_t uid);

/* Tests put their own files in place of /etc ("" puts it back). The string must live on. */
void ids_etc(const char *dir);

#endif
