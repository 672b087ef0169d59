/*
 * What a bare box has instead of containers: mapped mounts for its executor, and a world of its own for its harness.
 *
 * Agent and executor are ordinary accounts on the host; the executor is the first process of a pid namespace, so that no command
 * of its uid can stop it, and sees the host's mounts, with a /proc of its own. The harness sees only read-only views of the host:
 *
 *   /                       a read-only tmpfs with the host's folders bound read-only, nosuid, nodev
 *   every shell, git        our binary (the shim), wherever the host has one
 *   /cage/agent-cage        our binary; /cage/shim: the folder with its executor's door; both read-only
 *   /proc /dev /tmp /run    its own: this pid namespace, a few devices, empty
 *   project, scratch        mapped mounts that show it the owner's files as its own; noexec
 *   inbox, outbox           the same; the inbox is read-only
 *   its home                noexec
 *   network, ipc            loopback alone; none
 *
 * So it runs nothing but what the host has installed, every command line goes to the executor, and nothing that it
 * writes can be run by it.
 */
#ifndef WARDEN_BARE_H
#define WARDEN_BARE_H

#include "base/err.h"
#include "cage/cgroup.h"

#include <stdbool.h>

struct ward;

/* The executor's mounts at $ROOT/run/agent-cage/mnt/NAME, which it alone can enter; nothing for the other rooms. */
err_t bare_mounts(const struct ward *d);
err_t bare_mounts_off(const struct ward *d);

/*
 * Control groups of this ward's executor, as cage/cgroup.h wants to see the host. A bare one never gets the group that it
 * happens to stand in (on a v2 host that is the warden's own): one is made for it, as on a hybrid host.
 */
struct cgroup_host bare_groups(const struct ward *d);

/* Stops a bare executor and all its commands, or lets them go on. */
err_t bare_freeze(const struct ward *d, bool frozen);

/* What the harness sees with mapped ids: detached mounts, made where /proc still shows the pids of those who make them. */
struct bare_trees {
    int project, scratch, inbox, outbox;
    char *programs; /* the vendor's; NULL: none */
};

/*
 * For the executor: this process's next child is the first of a pid namespace, and its mounts are the host's, also those that
 * come later. Then, in that child, still root: /proc shows that namespace.
 */
err_t bare_unshare_pids(void);
err_t bare_own_proc(void);

/* Makes the trees; then this process's next child is in namespaces of its own. */
err_t bare_unshare(const struct ward *d, struct bare_trees *ret);

/* In that child, still root: builds the world and enters it. */
err_t bare_harness_world(const struct ward *d, const struct bare_trees *trees);

/* A detached view of the project, or of the scratch folder, in which its owner's files are this room's own. */
err_t bare_project(const struct ward *d, bool noexec, int *ret_tree);
err_t bare_scratch(const struct ward *d, bool noexec, int *ret_tree);

/* The same of the in-tray, which is read-only, and of the outbox. */
err_t bare_inbox(const struct ward *d, int *ret_tree);
err_t bare_outbox(const struct ward *d, bool noexec, int *ret_tree);

#endif
