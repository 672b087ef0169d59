#include "warden/heads.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/hex.h"
#include "base/own.h"
#include "base/paths.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HEADS_MAX = 1 << 20, HASH_BYTES = 32, LINE_MAX_BYTES = 20 + 1 + 2 * HASH_BYTES + 1 + 20 + 1 };

static int heads_fd = -1;
static uint64_t last_seq;
static char last_hash[2 * HASH_BYTES + 1];

/* The last whole line of the file; a torn one (a crash while it was written) is cut off. */
static err_t read_last(int fd) {
    struct stat st;
    if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
        return err_new(EXIT_FAILED, "the audit heads are not a plain file");
    char tail[2 * LINE_MAX_BYTES + 1];
    off_t from = st.st_size > 2 * LINE_MAX_BYTES ? st.st_size - 2 * LINE_MAX_BYTES : 0;
    ssize_t n = pread(fd, tail, sizeof tail - 1, from);
    if (n < 0)
        return err_sys(errno, "read the audit heads");
    size_t len = (size_t)n;
    while (len && tail[len - 1] != '\n')
        len--;
    if (len != (size_t)n && ftruncate(fd, from + (off_t)len) < 0)
        return err_sys(errno, "cut a torn line off the audit heads");
    if (!len)
        return NULL;
    tail[len - 1] = 0;
    const char *line = strrchr(tail, '\n');
    line = line ? line + 1 : tail;
    if (sscanf(line, "%" SCNu64 " %64[0-9a-f]", &last_seq, last_hash) != 2)
        return err_new(EXIT_FAILED, "the last line of the audit heads is none of ours");
    return NULL;
}

err_t heads_open(void) {
    own_free char *path = path_of(PATH_HEADS);
    own_fd int fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return err_sys(errno, "open %s", path);
    last_seq = 0;
    last_hash[0] = 0;
    TRY(err_wrap(read_last(fd), "%s", path));
    heads_close();
    heads_fd = TAKE_FD(fd);
    return NULL;
}

/*
 * Every second line of an old file, its last always: a head stands for every row before it, so the later ones still bind
 * the rows of those that go.
 */
static err_t thin_out(void) {
    own_free char *path = path_of(PATH_HEADS);
    own_buf struct buf all = {0}, kept = {0};
    TRY(fs_read(path, 64 * HEADS_MAX, &all));
    size_t n = 0;
    for (const char *line = buf_text(&all), *end; (end = strchr(line, '\n')); line = end + 1)
        if (n++ % 2 || !end[1])
            buf_add(&kept, line, (size_t)(end + 1 - line));
    TRY(fs_write(path, buf_text(&kept), kept.len, 0, 0, 0600));
    int fd = open(path, O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0)
        return err_sys(errno, "open %s", path);
    heads_close();
    heads_fd = fd;
    return NULL;
}

err_t heads_keep(uint64_t seq, const void *hash, size_t n) {
    if (n != HASH_BYTES)
        return err_new(EXIT_USAGE, "a head of %zu bytes was refused", n);
    char hex[2 * HASH_BYTES + 1];
    hex_put(hex, hash, HASH_BYTES);
    if (seq == last_seq && !strcmp(hex, last_hash))
        return NULL;
    if (seq <= last_seq)
        return err_new(EXIT_POLICY, "head %" PRIu64 " was refused: head %" PRIu64 " is kept already", seq,
                       last_seq);
    char line[LINE_MAX_BYTES + 1];
    int len = snprintf(line, sizeof line, "%" PRIu64 " %s %" PRId64 "\n", seq, hex, clock_wall_ms());
    off_t end = lseek(heads_fd, 0, SEEK_END);
    ssize_t wrote;
    do
        wrote = write(heads_fd, line, (size_t)len);
    while (wrote < 0 && errno == EINTR);
    if (wrote != len) {
        int why = wrote < 0 ? errno : ENOSPC;
        if (wrote > 0 && ftruncate(heads_fd, end) < 0)
            why = errno;
        return err_sys(why, "keep head %" PRIu64, seq);
    }
    last_seq = seq;
    memcpy(last_hash, hex, sizeof last_hash);
    return end + len > HEADS_MAX ? err_wrap(thin_out(), "thin out the audit heads") : NULL;
}

void heads_close(void) {
    own_closep(&heads_fd);
    heads_fd = -1;
}
