/*
 * One typed description of one room of a cage. Everything that makes a room comes out of it by pure
 * functions: podman's arguments (podman.h), the filter of system calls (seccomp.h), the network rules
 * (nft.h). There is no other way to make a room: cage_start() (cage.h) takes this and nothing else.
 *
 * THE DECLARED SETS. What a room sees equals, exactly, what its spec says plus what the engine adds to every
 * room:
 *
 *   mounts       spec.mounts and spec.tmpfs, the root (read-only, nosuid, nodev), and the engine's own: /proc, /dev
 *                and /sys with their masks, as far as this kernel has them, and files of /etc and /run
 *   writable     of these: mounts without `ro`, each tmpfs, /dev/shm (spec.shm bytes), /dev/mqueue, /dev/pts, the
 *                device nodes; spec_writable() lists the places where the room's uid may make a file
 *   environment  spec.env and "HOSTNAME=<spec.hostname>"; no more
 *   descriptors  0 (a pipe that says nothing), 1 and 2 (pipes that the engine empties), and 3 … 2 + spec.keep
 *   user         spec.uid:spec.uid, no other group; kernel uid spec.uid_base + spec.uid
 *
 * Every mount is nosuid and nodev, always; there is no field to take that away.
 */
#ifndef CAGE_SPEC_H
#define CAGE_SPEC_H

#include "base/err.h"
#include "base/names.h"
#include "cage/seccomp.h"
#include "cage/words.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* The version of these rules: rooms are labelled with it, and one of an older generation is made again. */
enum { CAGE_GENERATION = 1 };
#define CAGE_CA "/cage/ca.crt" /* where the agent room has CA certificates */
enum { CAGE_MOUNTS_MAX = 48, CAGE_TMPFS_MAX = 8 };

/* Whose ids a mount shows. */
enum cage_map {
    CAGE_MAP_NONE,  /* as on disk: what has this room's kernel uids already, or what all may read */
    CAGE_MAP_TREE,  /* a tree of ids 0…65535 is shown in the cage's own range (the root) */
    CAGE_MAP_OWNER, /* the owner (uid and gid) is shown as the room's uid and nobody else is shown: what the
                       room makes belongs to the owner outside */
};

struct cage_mount {
    char *src; /* an absolute path on the host, only root can change any part of it; or, with pin >= 0, words
                  for errors */
    char *dst; /* absolute, inside */
    int pin;   /* O_PATH descriptor of the source, already checked (project.h); -1: none. Not owned */
    bool ro, noexec;
    enum cage_map map;
    uid_t owner; /* CAGE_MAP_OWNER */
    gid_t group;
};

struct cage_tmpfs {
    const char *dst; /* static */
    uint64_t size;   /* bytes */
    bool noexec;
};

struct cage_spec {
    enum room room;
    enum mode mode;
    char *name;     /* the container's: "<prefix>cage-NAME.ROOM" */
    char *hostname; /* "NAME" */
    char *agent;    /* label */
    char *fleet;  /* label: tells this fleet's containers from another's: $AGENT_CAGE_ROOT, "/" when empty */
    char *rootfs; /* a tree on the host, root's, ids 0…65535: shown read-only through CAGE_MAP_TREE */
    char *stage;  /* a folder below which the mapped mounts are put while the room starts; 0711 root */
    uint32_t uid_base, uid;
    struct cage_mount mounts[CAGE_MOUNTS_MAX]; /* in this order */
    size_t nmounts;
    struct cage_tmpfs tmpfs[CAGE_TMPFS_MAX];
    size_t ntmpfs;
    uint64_t shm; /* bytes of /dev/shm */
    struct words env, argv;
    uint64_t memory;        /* bytes; 0: no limit. Swap is never added to it */
    uint64_t cpus;          /* thousandths; 0: no limit */
    uint64_t pids;          /* 0: no limit */
    uint64_t nofile, nproc; /* lowered to the host's hard limits when the room is made */
    enum net net;           /* the rules of its network namespace; anything but NET_NONE has an interface */
    enum seccomp_kind seccomp;
    unsigned keep; /* descriptors passed on from 3 on */
    bool once;     /* its container goes away by itself when it ends (one-shot runs) */
    /* Made by an ordinary user's engine: the person is the room's uid inside and nobody else is anybody, so no mount
     * is mapped (every map is CAGE_MAP_NONE) and uid_base counts for nothing. */
    bool rootless;
};

/* A folder of somebody's, pinned: its owner is shown as the room's uid. */
struct cage_folder {
    int fd;
    uid_t uid;
    gid_t gid;
};

/* What the three rooms of an agent have in common. Strings are borrowed. */
struct cage_plan {
    const char *prefix; /* of the fleet's account names */
    const char *fleet;
    const char *agent;
    enum mode mode; /* MODE_POD or MODE_SEALED */
    enum net net;   /* of the executor */
    bool upstream;  /* the agent room may reach the network (its model's API) */
    uint32_t uid_base;
    uint64_t memory, cpus, pids; /* of the executor; 0: a default (pids) or no limit */
    const char *binary;          /* the host's path of our binary */
    const char *shell;           /* of the shim's own file; NULL: our binary, which is it by argv[0] too */
    const char *workbench;       /* image.h: image_workbench() */
    const char *ca;              /* CA certificates for the agent room; NULL: none */
    const char *tree;            /* image.h: image_tree(), the agent room's */
    const char *programs;        /* of the harness's vendor, shown as /cage/harness; NULL: none */
    const char *stage;           /* as above; the room's name is added */
    const char *
        state; /* holds agent/ harness/ executor/ scratch/ inbox/ outbox/: each its room's kernel uid's, 0700; a
                  sealed agent's in-tray is session/inbox/ */
    const char *shim; /* the folder with shim.sock */
    int project;      /* project.h; -1: none (tests) */
    uid_t project_uid;
    gid_t project_gid;
    const struct cage_folder *outbox; /* sealed: where results come out, /outbox; NULL: none */
};

/*
 * The room's description: `argv` is /cage/agent-cage ROOM NAME, keep is 1 (executor: 2).
 *
 *   agent     a near-empty tree; our binary; /home/cage (its state) and /inbox, noexec; CA certificates when it has an
 *             upstream
 *   harness   the workbench with our binary over every shell and git; /project, /scratch, /home/cage, a pod's /outbox and a
 *             small /tmp writable and noexec; /inbox and the shim's socket read-only; the vendor's program, if any,
 *             read-only at /cage/harness; no network
 *   executor  the workbench; /project, /scratch, /home/cage, /outbox, /tmp, /var/tmp and /run/lock writable; /inbox
 *             read-only
 */
err_t spec_room(const struct cage_plan *plan, enum room room, struct cage_spec *ret);

/*
 * The part of it that says which room this is: enough for cage_adopt() and cage_stop(), which must work although the
 * workbench or the project is gone. Of the plan: prefix, fleet, agent, mode, net, upstream, uid_base, stage.
 */
err_t spec_outline(const struct cage_plan *plan, enum room room, struct cage_spec *ret);

/* True sentences about a spec, before anything is made from it: paths absolute and free of ':' ',' and
 * control bytes (they become arguments), bounds, no uid 0, no two mounts on one place. */
err_t spec_check(const struct cage_spec *s);

/* Adding by hand (tests, one-shot runs). Copies. Return the new mount to fill in. */
struct cage_mount *spec_mount(struct cage_spec *s, const char *src, const char *dst);
void spec_tmpfs(struct cage_spec *s, const char *dst, uint64_t size, bool noexec);

/* The host's path that podman is given for mount i: src, or its place below the stage. The caller frees. */
char *spec_source(const struct cage_spec *s, size_t i);
char *spec_root_source(const struct cage_spec *s);

/* The places where the room's uid may make a file, in the order of the spec. */
void spec_writable(const struct cage_spec *s, struct words *out);

void spec_free(struct cage_spec *s);
#define own_spec __attribute__((cleanup(spec_free)))

#endif
