#include "agent/gateway/usage.h"
#include "base/own.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PLACE = 512, PLACES = 2 };

/* FNV-1a, 64 bits: a torn write is found by it, nothing more is meant. */
static uint64_t sum_of(const char *p, size_t n) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++)
        h = (h ^ (unsigned char)p[i]) * UINT64_C(0x100000001b3);
    return h;
}

#define NUMBERS 14
static void numbers_of(struct usage *u, uint64_t *place[NUMBERS]) {
    uint64_t *const all[NUMBERS] = {&u->number,
                                    &u->total.input,
                                    &u->total.output,
                                    &u->total.cache_read,
                                    &u->total.cache_write,
                                    &u->session.input,
                                    &u->session.output,
                                    &u->session.cache_read,
                                    &u->session.cache_write,
                                    &u->requests,
                                    &u->cost_nano,
                                    &u->window.span_s,
                                    &u->window.used,
                                    (uint64_t *)&u->window.start_ms};
    memcpy(place, all, sizeof all);
}

static size_t print(struct usage *u, char out[PLACE]) {
    uint64_t *place[NUMBERS];
    numbers_of(u, place);
    size_t n = 0;
    for (size_t i = 0; i < NUMBERS; i++)
        n += (size_t)snprintf(out + n, PLACE - n, "%" PRIu64 " ", *place[i]);
    n += (size_t)snprintf(out + n, PLACE - n, "%d ", u->told);
    n += (size_t)snprintf(out + n, PLACE - n, "%016" PRIx64 "\n", sum_of(out, n));
    return n;
}

static bool parse(char *text, struct usage *ret) {
    uint64_t *place[NUMBERS], sum;
    struct usage u = {.fd = ret->fd, .map = ret->map};
    numbers_of(&u, place);
    char *at = text;
    for (size_t i = 0; i < NUMBERS; i++) {
        char *end;
        *place[i] = strtoull(at, &end, 10);
        if (end == at || *end != ' ')
            return false;
        at = end + 1;
    }
    if ((*at != '0' && *at != '1') || at[1] != ' ')
        return false;
    u.told = *at == '1';
    at += 2;
    if (sscanf(at, "%16" SCNx64, &sum) != 1 || sum != sum_of(text, (size_t)(at - text)))
        return false;
    *ret = u;
    return true;
}

/* Its whole length is written once, so that no later write finds the disk full. */
static err_t map_file(struct usage *u) {
    char empty[PLACES * PLACE];
    struct stat st;
    memset(empty, '\n', sizeof empty);
    if (fstat(u->fd, &st) < 0)
        return err_sys(errno, "look at the file usage");
    if (st.st_size < (off_t)sizeof empty) {
        ssize_t k = pwrite(u->fd, empty, sizeof empty, 0);
        if (k != (ssize_t)sizeof empty)
            return err_sys(k < 0 ? errno : ENOSPC, "write the file usage");
    }
    void *map = mmap(NULL, sizeof empty, PROT_READ | PROT_WRITE, MAP_SHARED, u->fd, 0);
    if (map == MAP_FAILED)
        return err_sys(errno, "map the file usage");
    u->map = map;
    return NULL;
}

err_t usage_open(int home, struct usage *ret) {
    struct usage file = {.fd = openat(home, "usage", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600)};
    if (file.fd < 0)
        return err_sys(errno, "open the file usage");
    err_t e = map_file(&file);
    if (e) {
        own_closep(&file.fd);
        return e;
    }
    struct usage best = file;
    for (int i = 0; i < PLACES; i++) {
        char text[PLACE + 1] = "";
        struct usage one = file;
        memcpy(text, file.map + (size_t)i * PLACE, PLACE);
        if (parse(text, &one) && one.number > best.number)
            best = one;
    }
    *ret = best;
    return NULL;
}

void usage_close(struct usage *u) {
    if (u->map)
        munmap(u->map, PLACES * PLACE);
    u->map = NULL;
    own_closep(&u->fd);
    u->fd = -1;
}

void usage_write(struct usage *u) {
    char text[PLACE];
    memset(text, '\n', sizeof text);
    u->number++;
    size_t n = print(u, text); /* fifteen numbers and a sum: they fit */
    text[n] = '\n';
    memcpy(u->map + (u->number % PLACES) * PLACE, text, sizeof text);
}
