#include "relay/web/json.h"
#include "base/escape.h"

#include <inttypes.h>
#include <stdbool.h>
#include <string.h>

static void text(struct buf *out, struct bytes b) {
    own_buf struct buf clean = {0};
    escape_utf8(&clean, b.p, b.len);
    const char *p = buf_text(&clean);
    buf_add(out, "\"", 1);
    for (size_t i = 0, from = 0; i <= clean.len; i++) {
        unsigned char c = i < clean.len ? (unsigned char)p[i] : 0;
        if (i < clean.len && c >= ' ' && c != '"' && c != '\\' && c != 127)
            continue;
        buf_add(out, p + from, i - from);
        from = i + 1;
        if (i == clean.len)
            break;
        if (c == '"' || c == '\\')
            buf_printf(out, "\\%c", c);
        else
            buf_printf(out, "\\u%04x", c);
    }
    buf_add(out, "\"", 1);
}

static void hex(struct buf *out, struct bytes b) {
    buf_add(out, "\"", 1);
    for (size_t i = 0; i < b.len; i++)
        buf_printf(out, "%02x", (unsigned char)b.p[i]);
    buf_add(out, "\"", 1);
}

static bool is_hex(const struct field_row *row) {
    return !strcmp(row->name, "hash") || !strcmp(row->name, "digest") || !strcmp(row->name, "token_key");
}

static void list(struct buf *out, const struct list *l) {
    buf_add(out, "[", 1);
    for (size_t i = 0; i < l->n; i++) {
        buf_adds(out, i ? "," : "");
        text(out, l->v[i]);
    }
    buf_add(out, "]", 1);
}

/* The fields stand in the struct as they stand in the table, each a multiple of 8 bytes. */
static const char *field(struct buf *out, const struct field_row *row, const char *at) {
    switch (row->type) {
    case F_U64:
        buf_printf(out, "%" PRIu64, *(const uint64_t *)(const void *)at);
        return at + sizeof(uint64_t);
    case F_I64:
        buf_printf(out, "%" PRId64, *(const int64_t *)(const void *)at);
        return at + sizeof(int64_t);
    case F_LIST:
        list(out, (const struct list *)(const void *)at);
        return at + sizeof(struct list);
    default:
        (is_hex(row) ? hex : text)(out, *(const struct bytes *)(const void *)at);
        return at + sizeof(struct bytes);
    }
}

void json_of_msg(struct buf *out, const struct msg *m) {
    const struct msg_row *row = &msg_rows[m->type];
    const char *at = (const char *)&m->relay_end + sizeof(uint64_t); /* behind the cookie */
    buf_add(out, "{", 1);
    for (size_t i = 1; i < row->nfields; i++) {
        buf_printf(out, "%s\"%s\":", i > 1 ? "," : "", row->fields[i].name);
        at = field(out, &row->fields[i], at);
    }
    buf_add(out, "}", 1);
}
