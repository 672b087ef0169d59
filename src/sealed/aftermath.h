/*
 * What a run left in the project that could run later, as the owner: a hook that git starts, a Makefile, an editor's task, a
 * link that leads somewhere. The project is looked at before (aftermath_look) and after (aftermath_find), by the collector;
 * nothing in it is run to find out, no git and no interpreter. What did not change is no finding.
 *
 * Unchanged: the same path, inode, mode and time of change (ctime). Without privilege nobody sets a ctime, and moving a
 * folder gives all below it other paths. A path is kept as a hash (SHA-256, 128 bits of it) under a random key of each look:
 * the cage cannot read the key, so it cannot make a name that passes for another.
 */
#ifndef SEALED_AFTERMATH_H
#define SEALED_AFTERMATH_H

#include "base/buf.h"
#include "base/err.h"
#include "sealed/collector.h"

#include <stdint.h>
#include <stdio.h>

enum { AFTERMATH_KEY = 16 };

struct aftermath_mark {
    unsigned char path[16]; /* its hash */
    uint64_t inode;
    int64_t changed_ns;
    uint64_t mode; /* as wide as the others: no bytes between them */
};

struct aftermath_before {
    unsigned char key[AFTERMATH_KEY]; /* of the hashes of this look */
    struct aftermath_mark *v;         /* in the order of path */
    size_t n, cap;
    struct aftermath_mark
        *left; /* what was skipped, in the order of path; its file system is in changed_ns */
    size_t nleft, left_cap;
};

struct aftermath_finding {
    char *path;
    const char *reason; /* why it could run; static */
    unsigned weight;    /* the less, the worse: aftermath_rank() of the reason, then how deep it is */
    char *detail;       /* what in it, "" */
};

enum { AFTERMATH_KEPT = 500 /* of one reason */, AFTERMATH_KEPT_BYTES = 8 << 20 /* of all */ };

/* Those of one reason. */
struct aftermath_kind {
    const char *reason;
    struct aftermath_finding *v; /* while it is looked; NULL afterwards */
    size_t n, cap;               /* n are kept */
    uint64_t more;               /* beyond those */
};

struct aftermath {
    struct aftermath_kind *kinds; /* in the order of rank, then of the reason's text */
    size_t nkinds;
    struct aftermath_finding
        *v; /* the worst first, then in the order of path; the worst of each reason, as many as are kept */
    size_t n, bytes;
    uint64_t more;    /* findings beyond those */
    uint64_t changed; /* files, links and others that are new or not as before, findings included */
    uint64_t gone;    /* entries that are there no more */
    uint64_t
        skipped; /* what was not looked at, or not into; the same ones that were not before (a mount) are left out */
    bool cut; /* not all was looked at: too many entries, or it took too long */
};

err_t aftermath_look(int project, struct aftermath_before *ret);
void aftermath_free(struct aftermath_before *b);

/* Kept in a file of root's (0600), for a session that outlives the process that began it. */
err_t aftermath_keep(const struct aftermath_before *b, const char *path);
err_t aftermath_recall(const char *path, struct aftermath_before *ret);

/* before NULL: everything below `project` counts as changed (the upper layer of a kept run). */
err_t aftermath_find(int project, const struct aftermath_before *before, struct aftermath *ret);
void aftermath_close(struct aftermath *a);

/* One line a finding, names escaped: all that is kept, in order, if `most` is 0 or they are no more than that; else at most
 * `most`, and few of each reason. Then one line for each reason with how many more there are. Each line begins with
 * `indent`. Nothing at all when nothing changed. */
void aftermath_print(const struct aftermath *a, const char *indent, size_t most, struct buf *out);

/* ---- what is kept (findings.c) ---- */

/* One finding more; takes detail. */
void findings_keep(struct aftermath *a, const struct collect_entry *e, const char *reason, char *detail);

/* Once, behind the last of them: into v, in order. */
void findings_order(struct aftermath *a);

/* ---- the table (aftermath_rows.c) ---- */

/* Why this entry could run later, NULL if it could not by itself. *ret_detail: what in it, owned by the caller, or NULL. */
const char *aftermath_reason(int project, const struct collect_entry *e, char **ret_detail);

/* 0: what git itself runs or obeys in a .git, under names that are few; 1: what else is obeyed or loaded without being asked
 * for; 2: what a build or an installation runs; 3: what must be called by name. */
unsigned aftermath_rank(const char *reason);

/* A path, split once for all the patterns. */
struct aftermath_path {
    char *text;
    size_t n, *at; /* the parts, and where each begins; at[n]: behind the last */
};
struct aftermath_path aftermath_split(const char *path);
void aftermath_path_free(struct aftermath_path *p);

/* Does `pattern` fit the end of `path`, part by part? "x/" fits everything below a folder x. For tests too. */
bool aftermath_fits(const char *pattern, const struct aftermath_path *path);

#endif
