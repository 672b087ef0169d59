/* seeds FOLDER: one file for each message of the table, with something in every field: where fuzzing begins. */
#include "base/own.h"
#include "proto/msg.h"

#include <errno.h>
#include <stdlib.h>

static void sample(enum msg_type t, struct msg *m) {
    static const struct bytes items[] = {{"one", 3}, {"", 0}};
    *m = (struct msg){.type = t};
    char *at = (char *)&m->part_hello;
    for (size_t i = 0; i < msg_rows[t].nfields; i++) {
        enum field_type f = msg_rows[t].fields[i].type;
        if (f == F_LIST)
            *(struct list *)(void *)at = (struct list){items, COUNT(items)};
        else if (f == F_U64 || f == F_I64)
            *(uint64_t *)(void *)at = 7 + i;
        else
            *(struct bytes *)(void *)at = bytes_of(msg_rows[t].fields[i].name);
        at += f == F_U64 || f == F_I64 ? 8 : f == F_LIST ? sizeof(struct list) : sizeof(struct bytes);
    }
}

int main(int argc, char **argv) {
    if (argc != 2)
        return 2;
    for (int t = MSG_none + 1; t < MSG_COUNT; t++) {
        struct msg m;
        sample(t, &m);
        own_buf struct buf b = {0};
        err_t e = msg_encode(&m, &b);
        if (e)
            die(e);
        own_free char *path = xasprintf("%s/%s", argv[1], msg_rows[t].name);
        own_file FILE *f = fopen(path, "we");
        if (!f || fwrite(b.p, 1, b.len, f) != b.len)
            die(err_sys(errno, "write %s", path));
    }
    return 0;
}
