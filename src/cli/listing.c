#include "cli/listing.h"
#include "base/escape.h"
#include "base/own.h"
#include "sealed/collector.h"

#include <inttypes.h>
#include <string.h>

static bool list_one(void *ctx, const struct collect_entry *e) {
    struct buf *out = ctx;
    mode_t m = e->st.st_mode;
    const char *kind = S_ISREG(m)    ? "file"
                       : S_ISDIR(m)  ? "folder"
                       : S_ISLNK(m)  ? "link"
                       : S_ISFIFO(m) ? "fifo"
                       : S_ISSOCK(m) ? "socket"
                                     : "device";
    buf_printf(out, "%-7s %12" PRIu64 "  ", kind, S_ISREG(m) ? (uint64_t)e->st.st_size : 0);
    escape_text(out, ESCAPE_LINE, e->path, strlen(e->path));
    if (S_ISLNK(m)) {
        buf_adds(out, " -> ");
        escape_text(out, ESCAPE_LINE, e->target, strlen(e->target));
    }
    if (S_ISREG(m) && e->st.st_nlink > 1)
        buf_adds(out, " (has another name somewhere: not read)");
    buf_adds(out, "\n");
    return true;
}

err_t listing_print(int folder) {
    own_buf struct buf out = {0};
    struct collect_sum sum;
    TRY(collect_walk(folder, list_one, &out, &sum));
    fwrite(buf_text(&out), 1, out.len, stdout);
    if (sum.skipped)
        fprintf(stderr, "agent-cage: %" PRIu64 " %s not looked into: too deep, too many or not readable\n",
                sum.skipped, sum.skipped == 1 ? "folder was" : "folders were");
    return NULL;
}
