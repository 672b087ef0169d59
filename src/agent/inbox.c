#include "agent/inbox.h"
#include "base/buf.h"
#include "base/own.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct inbox {
    int dir;
    struct delivered *first, **last;
    size_t count, memory; /* memory: bytes of the texts that are not in files */
};

enum { NAME_MAX_ = 24 };

static void file_name(char out[NAME_MAX_], uint64_t id) {
    snprintf(out, NAME_MAX_, "%" PRIu64, id);
}

static void empty(int folder) {
    int fd = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    for (struct dirent *e; d && (e = readdir(d));)
        if (e->d_name[0] != '.')
            unlinkat(folder, e->d_name, 0);
    if (d)
        closedir(d);
}

err_t inbox_open(int home, struct inbox **ret) {
    if (mkdirat(home, "inbox", 0700) < 0 && errno != EEXIST)
        return err_sys(errno, "make the folder inbox");
    int dir = openat(home, "inbox", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (dir < 0)
        return err_sys(errno, "open the folder inbox");
    empty(dir);
    struct inbox *in = xcalloc(1, sizeof *in);
    in->dir = dir;
    in->last = &in->first;
    *ret = in;
    return NULL;
}

static err_t put(int dir, uint64_t id, const char *text) {
    char name[NAME_MAX_];
    file_name(name, id);
    own_fd int fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_sys(errno, "make inbox/%s", name);
    for (size_t at = 0, n = strlen(text); at < n;) {
        ssize_t k = write(fd, text + at, n - at);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            err_t e = err_sys(errno, "write inbox/%s", name);
            unlinkat(dir, name, 0);
            return e;
        }
        at += (size_t)k;
    }
    return NULL;
}

static err_t get(int dir, uint64_t id, char **ret) {
    char name[NAME_MAX_];
    file_name(name, id);
    own_fd int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return err_sys(errno, "open inbox/%s", name);
    own_buf struct buf b = {0};
    char chunk[8192];
    ssize_t k;
    while ((k = read(fd, chunk, sizeof chunk)) != 0)
        if (k > 0)
            buf_add(&b, chunk, (size_t)k);
        else if (errno != EINTR)
            return err_sys(errno, "read inbox/%s", name);
    unlinkat(dir, name, 0);
    *ret = buf_take(&b);
    return NULL;
}

err_t inbox_add(struct inbox *in, uint64_t id, const char *who, const char *text) {
    size_t n = strlen(text);
    bool file = in->memory + n > INBOX_MEMORY;
    if (file)
        TRY(put(in->dir, id, text));
    struct delivered *d = xcalloc(1, sizeof *d);
    d->id = id;
    snprintf(d->who, sizeof d->who, "%s", who);
    if (!file) {
        d->text = xstrdup(text);
        in->memory += n;
    }
    *in->last = d;
    in->last = &d->next;
    in->count++;
    return NULL;
}

bool inbox_has(const struct inbox *in, uint64_t id) {
    for (const struct delivered *d = in->first; d; d = d->next)
        if (d->id == id)
            return true;
    return false;
}

size_t inbox_count(const struct inbox *in) {
    return in->count;
}

err_t inbox_take(struct inbox *in, struct delivered **ret) {
    struct delivered *d = in->first;
    *ret = d;
    if (!d)
        return NULL;
    in->first = d->next;
    if (!in->first)
        in->last = &in->first;
    d->next = NULL;
    in->count--;
    if (!d->text)
        return get(in->dir, d->id, &d->text);
    in->memory -= strlen(d->text);
    return NULL;
}

void inbox_put_back(struct inbox *in, struct delivered *d) {
    d->next = in->first;
    in->first = d;
    if (!d->next)
        in->last = &d->next;
    in->count++;
    in->memory += strlen(d->text);
}

void delivered_free(struct delivered *d) {
    if (d)
        free(d->text);
    free(d);
}

void inbox_free(struct inbox *in) {
    if (!in)
        return;
    for (struct delivered *d; (d = in->first);) {
        in->first = d->next;
        delivered_free(d);
    }
    own_closep(&in->dir);
    free(in);
}
