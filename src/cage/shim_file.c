#include "cage/shim_file.h"
#include "base/fs.h"
#include "base/own.h"

#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_there(const char *path, size_t n) {
    own_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    struct stat st;
    if (fd < 0 || fstat(fd, &st) < 0 || st.st_size != (off_t)n)
        return false;
    void *p = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
    bool same = p != MAP_FAILED && !memcmp(p, shim_image, n);
    if (p != MAP_FAILED)
        munmap(p, n);
    return same;
}

err_t shim_file_install(const char *path, bool *ret_new) {
    if (!shim_image)
        return err_new(EXIT_FAILED, "this program carries no shim");
    size_t n = (uintptr_t)shim_image_end - (uintptr_t)shim_image;
    bool there = is_there(path, n);
    if (!there)
        TRY(fs_write(path, shim_image, n, 0, 0, 0755));
    *ret_new = !there;
    return NULL;
}
