#include "proto/file_name.h"

#include "base/escape.h"
#include "base/own.h"

#include <string.h>

static err_t bad(struct bytes name, const char *why) {
    char shown[128];
    escape_into(shown, sizeof shown, ESCAPE_LINE, name.p, name.len);
    return err_new(EXIT_POLICY, "the file name '%s' %s: give it another", shown, why);
}

err_t file_check(struct bytes name, uint64_t size) {
    if (!name.len || name.len > FILE_NAME_BYTES)
        return err_new(EXIT_POLICY, "a file's name has 1 to %d bytes", FILE_NAME_BYTES);
    if (memchr(name.p, '/', name.len) || name.p[0] == '.')
        return bad(name, name.p[0] == '.' ? "begins with a dot" : "holds a slash");
    own_buf struct buf shown = {0};
    escape_text(&shown, ESCAPE_LINE, name.p, name.len);
    if (shown.len != name.len || memcmp(shown.p, name.p, name.len) != 0)
        return bad(name, "holds what cannot be shown as it is");
    if (size > FILE_BYTES_MAX)
        return err_new(EXIT_POLICY, "a file of %llu bytes is too large: %llu at most",
                       (unsigned long long)size, (unsigned long long)FILE_BYTES_MAX);
    return NULL;
}

char *file_name_other(const char *name, unsigned n) {
    const char *dot = strrchr(name, '.');
    size_t len = strlen(name), stem = dot && dot > name ? (size_t)(dot - name) : len;
    own_free char *mark = xasprintf("-%u", n);
    const char *end = name + stem;
    if (strlen(end) + strlen(mark) >= FILE_NAME_BYTES) { /* an ending that long is none */
        stem = len;
        end = "";
    }
    while (stem + strlen(mark) + strlen(end) > FILE_NAME_BYTES || (name[stem] & 0xc0) == 0x80)
        stem--;
    return xasprintf("%.*s%s%s", (int)stem, name, mark, end);
}
