#include "cage/spec.h"

#include "base/escape.h"
#include "base/own.h"

#include <stdlib.h>
#include <string.h>

struct cage_mount *spec_mount(struct cage_spec *s, const char *src, const char *dst) {
    if (s->nmounts == CAGE_MOUNTS_MAX)
        abort(); /* the builders' tables are bounded; a spec made by hand is a test's */
    struct cage_mount *m = &s->mounts[s->nmounts++];
    *m = (struct cage_mount){.src = xstrdup(src), .dst = xstrdup(dst), .pin = -1};
    return m;
}

void spec_tmpfs(struct cage_spec *s, const char *dst, uint64_t size, bool noexec) {
    if (s->ntmpfs == CAGE_TMPFS_MAX)
        abort();
    s->tmpfs[s->ntmpfs++] = (struct cage_tmpfs){.dst = dst, .size = size, .noexec = noexec};
}

void spec_free(struct cage_spec *s) {
    for (size_t i = 0; i < s->nmounts; i++) {
        free(s->mounts[i].src);
        free(s->mounts[i].dst);
    }
    free(s->name);
    free(s->hostname);
    free(s->agent);
    free(s->fleet);
    free(s->rootfs);
    free(s->stage);
    words_free(&s->env);
    words_free(&s->argv);
    *s = (struct cage_spec){0};
}

/* Mapped and pinned sources get a place of their own on the stage; everything else is given as it is. */
static bool staged(const struct cage_mount *m) {
    return m->map != CAGE_MAP_NONE || m->pin >= 0;
}

char *spec_source(const struct cage_spec *s, size_t i) {
    return staged(&s->mounts[i]) ? xasprintf("%s/%zu", s->stage, i) : xstrdup(s->mounts[i].src);
}

char *spec_root_source(const struct cage_spec *s) {
    return xasprintf("%s/root", s->stage);
}

static err_t path_check(const char *what, const char *path) {
    if (!path || path[0] != '/')
        return err_new(EXIT_FAILED, "%s of a room is not an absolute path", what);
    for (const char *c = path; *c; c++)
        if ((unsigned char)*c < ' ' || *c == ':' || *c == ',' || *c == 127) {
            char shown[256];
            escape_into(shown, sizeof shown, ESCAPE_LINE, path, strlen(path));
            return err_new(
                EXIT_FAILED,
                "%s \"%s\" holds a colon, a comma or a control byte, which podman cannot be given; "
                "choose a folder without them",
                what, shown);
        }
    return NULL;
}

static err_t words_check(const char *what, const struct words *l) {
    for (size_t i = 0; i < l->n; i++)
        for (const char *c = l->w[i]; *c; c++)
            if (*c == '\n' || (unsigned char)*c >= 0x80)
                return err_new(
                    EXIT_FAILED,
                    "%s of a room holds a newline or a byte that is not ASCII, which podman changes", what);
    return NULL;
}

static err_t places_check(const struct cage_spec *s) {
    for (size_t i = 0; i < s->nmounts; i++) {
        if (s->mounts[i].pin < 0)
            TRY(path_check("a mount's source", s->mounts[i].src));
        TRY(path_check("a mount's place", s->mounts[i].dst));
        for (size_t k = 0; k < i; k++)
            if (!strcmp(s->mounts[i].dst, s->mounts[k].dst))
                return err_new(EXIT_FAILED, "two mounts of a room are on %s", s->mounts[i].dst);
        for (size_t k = 0; k < s->ntmpfs; k++)
            if (!strcmp(s->mounts[i].dst, s->tmpfs[k].dst))
                return err_new(EXIT_FAILED, "a mount and a tmpfs of a room are on %s", s->mounts[i].dst);
    }
    for (size_t i = 0; i < s->ntmpfs; i++)
        if (!s->tmpfs[i].size)
            return err_new(EXIT_FAILED, "the tmpfs on %s has no size", s->tmpfs[i].dst);
    return NULL;
}

static err_t unmapped(const struct cage_spec *s) {
    for (size_t i = 0; i < s->nmounts; i++)
        if (s->mounts[i].map != CAGE_MAP_NONE)
            return err_new(EXIT_FAILED,
                           "the mount on %s wants ids mapped, which an ordinary user's kernel does not do",
                           s->mounts[i].dst);
    return NULL;
}

err_t spec_check(const struct cage_spec *s) {
    if (!s->name || !s->agent || !s->fleet || !s->hostname || !s->argv.n)
        return err_new(EXIT_FAILED, "a room's description is not complete");
    TRY(path_check("the root", s->rootfs));
    TRY(path_check("the stage", s->stage));
    TRY(places_check(s));
    TRY(words_check("a word of the command", &s->argv));
    TRY(words_check("the environment", &s->env));
    if (!s->uid || s->uid >= UIDS_EACH)
        return err_new(EXIT_FAILED, "a room's uid is %u, not one from 1 to %d", s->uid, UIDS_EACH - 1);
    if (s->rootless)
        TRY(unmapped(s));
    else if (s->uid_base < UIDS_EACH || s->uid_base > UINT32_MAX - 2u * UIDS_EACH)
        return err_new(EXIT_FAILED, "a room's ids start at %u, where other accounts are", s->uid_base);
    if (!s->nofile || !s->nproc || !s->shm)
        return err_new(EXIT_FAILED, "a room's limits are not complete");
    if (s->seccomp >= SECCOMP_COUNT || (s->mode == MODE_SEALED && s->seccomp == SECCOMP_POD))
        return err_new(EXIT_FAILED, "a sealed room's filter must be the sealed one");
    return NULL;
}

void spec_writable(const struct cage_spec *s, struct words *out) {
    for (size_t i = 0; i < s->nmounts; i++)
        if (!s->mounts[i].ro)
            words_add(out, s->mounts[i].dst);
    for (size_t i = 0; i < s->ntmpfs; i++)
        words_add(out, s->tmpfs[i].dst);
    words_add(out, "/dev/shm");
    words_add(out, "/dev/mqueue");
}
