#include "sealed/space.h"

#include <inttypes.h>
#include <sys/statvfs.h>

enum { FILES_SHARE = 100 };

static err_t enough_on(int fd, const char *what, uint64_t reserve) {
    struct statvfs v;
    if (fd < 0 || fstatvfs(fd, &v))
        return NULL; /* there is no such place, or its file system tells nothing */
    uint64_t left = (uint64_t)v.f_bavail * v.f_frsize;
    if (left < reserve)
        return err_new(EXIT_FAILED,
                       "%" PRIu64 " MiB are free where the %s is, and %" PRIu64
                       " MiB must stay free (disk_reserve in agent-cage.conf); make room there",
                       left >> 20, what, reserve >> 20);
    if (reserve && v.f_files && v.f_favail < v.f_files / FILES_SHARE)
        return err_new(EXIT_FAILED,
                       "no more than %" PRIu64 " files can be made where the %s is; make room there",
                       (uint64_t)v.f_favail, what);
    return NULL;
}

err_t space_enough(const struct sealed_run *r) {
    uint64_t reserve = r->ground.conf.disk_reserve;
    TRY(enough_on(r->kept.place >= 0 ? r->kept.place : r->project.fd, "project", reserve));
    return enough_on(r->outbox.fd, "outbox", reserve);
}
