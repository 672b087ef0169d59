/* The one room of a sealed run, as a description (cage/spec.h). */
#ifndef SEALED_ROOM_H
#define SEALED_ROOM_H

#include "cage/spec.h"
#include "sealed/ground.h"

/* Strings and descriptors are borrowed. */
struct sealed_plan {
    const struct ground *ground;
    const char *session; /* [a-z0-9-]: names container and outbox */
    const char *stage;   /* as cage_spec.stage */
    uint32_t uid_base;   /* ground_ids() */
    int binary;          /* O_PATH: ours */
    int project, outbox; /* O_PATH, checked */
    bool
        project_as_it_is; /* an overlay, whose layers are mapped; else the owner is shown as the room's uid */
    uid_t uid, outbox_uid;
    gid_t gid, outbox_gid;
};

/*
 * argv is /cage/agent-cage sealed-init, keep is 1: the link. The workbench read-only; /project and /outbox writable;
 * /home/cage, /tmp, /var/tmp, /run/lock in memory; the sealed rules and the sealed filter; no word of the caller's
 * environment.
 */
err_t sealed_room(const struct sealed_plan *plan, struct cage_spec *ret);

#endif
