/*
 * A peer that says anything in any order on a real link: the input picks a link, a side, and then records (some well
 * formed, some turned over). Nothing may crash or leak; a handler may only see what the tables permit at that moment,
 * judged by a model of its own; after the end nothing is handed on.
 */
#include "base/own.h"
#include "wire/link.h"
#include "wire/seq.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct {
    enum link_id id;
    enum link_way way;
    enum link_moment moment;
    bool over;
} model;

static void on_any(void *ctx, struct link *l, struct msg *m) {
    (void)ctx, (void)l;
    if (model.over || !(msg_rows[m->type].link == model.id && msg_rows[m->type].way == model.way &&
                        (msg_rows[m->type].at & AT(model.moment))))
        abort();
    if (msg_rows[m->type].next != SAME)
        model.moment = msg_rows[m->type].next;
}

static void on_end(void *ctx, struct link *l, err_t why) {
    (void)ctx, (void)why;
    model.over = true;
    link_free(l);
}

static link_fn *handlers[MSG_COUNT];
static const struct link_ops ops = {.on = handlers, .on_end = on_end};

/* A message whose fields come from the input; what it cannot give is empty. */
static bool compose(const uint8_t **p, size_t *n, struct buf *out, size_t *ret_fds) {
    if (*n < 4)
        return false;
    const uint8_t *head = *p;
    struct msg m = {.type = 1 + head[0] % (MSG_COUNT - 1)};
    char *at = (char *)&m.part_hello;
    size_t used = 4;
    for (size_t i = 0; i < msg_rows[m.type].nfields; i++) {
        enum field_type f = msg_rows[m.type].fields[i].type;
        size_t give = used < *n ? (*p)[used] % 16 : 0;
        if (give > *n - used)
            give = *n - used;
        if (f == F_U64 || f == F_I64) {
            memcpy(at, *p + used, give > 8 ? 8 : give);
            at += 8;
        } else if (f == F_LIST)
            at += sizeof(struct list);
        else {
            *(struct bytes *)(void *)at = (struct bytes){(const char *)*p + used, give};
            at += sizeof(struct bytes);
        }
        used += give;
    }
    *p += used;
    *n -= used;
    *ret_fds = head[1] & 0x80 ? head[1] % 6 : msg_rows[m.type].fds_min;
    own_err err_t e = msg_encode(&m, out);
    if (e) /* not UTF-8 or so: then as bytes */
        buf_add(out, head, used);
    else if (head[2] & 0x40 && out->len)
        out->p[head[3] % out->len] ^= (char)(head[2] | 1);
    return out->len > 0;
}

static void say(int fd, const struct buf *b, size_t nfds, int spare) {
    union {
        char bytes[CMSG_SPACE(8 * sizeof(int))];
        struct cmsghdr align;
    } control = {0};
    struct iovec iov = {b->p, b->len};
    struct msghdr h = {.msg_iov = &iov, .msg_iovlen = 1};
    if (nfds) {
        h.msg_control = control.bytes;
        h.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
        struct cmsghdr *c = CMSG_FIRSTHDR(&h);
        *c = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(nfds * sizeof(int))};
        for (size_t i = 0; i < nfds; i++)
            memcpy(CMSG_DATA(c) + i * sizeof(int), &spare, sizeof spare);
    }
    (void)!sendmsg(fd, &h, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct event_base *base;
    static int spare = -1;
    if (!base) {
        base = event_base_new();
        spare = open("/dev/null", O_RDWR | O_CLOEXEC);
        for (int t = 0; t < MSG_COUNT; t++)
            handlers[t] = on_any;
    }
    if (size < 2)
        return 0;
    int pair[2];
    own_err err_t e = seq_pair(pair);
    if (e)
        abort();
    model.id = data[0] % LINK_COUNT;
    model.way = data[1] & 1 ? UP : DOWN;
    model.moment = link_rows[model.id].first;
    model.over = false;
    struct link *l = link_new(base, pair[0], model.id, model.way == UP, &ops, NULL);
    data += 2, size -= 2;
    for (int i = 0; i < 50 && !model.over; i++) {
        own_buf struct buf b = {0};
        size_t nfds;
        if (!compose(&data, &size, &b, &nfds))
            break;
        say(pair[1], &b, nfds, spare);
        event_base_loop(base, EVLOOP_NONBLOCK);
        event_base_loop(base, EVLOOP_NONBLOCK);
    }
    close(pair[1]);
    if (!model.over)
        link_free(l);
    event_base_loop(base, EVLOOP_NONBLOCK);
    return 0;
}
