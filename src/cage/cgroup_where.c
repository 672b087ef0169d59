#include "cage/cgroup_where.h"

#include "base/buf.h"
#include "base/fs.h"
#include "base/own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX_BYTES = 4 << 20 };

/* "cpu,cpuacct" has "cpu". */
static bool list_has(const char *list, const char *word) {
    size_t n = strlen(word);
    while (list) {
        if (!strncmp(list, word, n) && (list[n] == ',' || !list[n]))
            return true;
        list = strchr(list, ',');
        list = list ? list + 1 : NULL;
    }
    return false;
}

/* A mounted hierarchy, from a line of mountinfo (proc(5)): "id parent dev ROOT PLACE flags … - TYPE source OPTIONS". */
struct hierarchy {
    char *root, *place, *options;
    bool v2;
};

static bool hierarchy_of(char *line, struct hierarchy *ret) {
    char *behind = strstr(line, " - "), *word[5];
    if (!behind)
        return false;
    behind += 3;
    char *type = strsep(&behind, " ");
    if (strcmp(type, "cgroup") && strcmp(type, "cgroup2"))
        return false;
    strsep(&behind, " ");
    for (int i = 0; i < 5; i++)
        if (!(word[i] = strsep(&line, " ")))
            return false;
    *ret = (struct hierarchy){
        .root = word[3], .place = word[4], .options = behind ? behind : "", .v2 = type[6] == '2'};
    return true;
}

static err_t mountinfo(const char *sys, struct buf *text) {
    own_free char *path = xasprintf("%s/proc/self/mountinfo", sys);
    return fs_read(path, FILE_MAX_BYTES, text);
}

err_t cgroup_mounts(const char *sys, char *ret_v2, size_t size, bool *ret_v1) {
    own_buf struct buf text = {0};
    TRY(mountinfo(sys, &text));
    *ret_v1 = false;
    ret_v2[0] = 0;
    char *at = text.p;
    for (char *line; (line = strsep(&at, "\n"));) {
        struct hierarchy h;
        if (!hierarchy_of(line, &h))
            continue;
        if (h.v2 && !ret_v2[0])
            snprintf(ret_v2, size, "%s", h.place);
        if (!h.v2 && !strstr(h.options, "name="))
            *ret_v1 = true;
    }
    return NULL;
}

/* The third field of the line of /proc/PID/cgroup, "id:controllers:path" (cgroups(7)), of this controller. */
char *cgroup_path(const char *sys, pid_t pid, const char *controller) {
    own_free char *file = xasprintf("%s/proc/%d/cgroup", sys, pid);
    own_buf struct buf text = {0};
    own_err err_t e = fs_read(file, FILE_MAX_BYTES, &text);
    char *at = e ? NULL : text.p;
    for (char *line; at && (line = strsep(&at, "\n"));) {
        strsep(&line, ":");
        char *list = line ? strsep(&line, ":") : NULL;
        if (list && line && (controller ? list_has(list, controller) : !*list))
            return xstrdup(line);
    }
    return NULL;
}

char *cgroup_where(const char *sys, pid_t pid, const char *controller) {
    own_free char *path = cgroup_path(sys, pid, controller);
    own_buf struct buf text = {0};
    own_err err_t e = path ? mountinfo(sys, &text) : NULL;
    char *at = path && !e ? text.p : NULL;
    for (char *line; at && (line = strsep(&at, "\n"));) {
        struct hierarchy h;
        if (!hierarchy_of(line, &h) || h.v2 != !controller ||
            (controller && !list_has(h.options, controller)))
            continue;
        /* A mount that shows a part of the hierarchy: its root is cut off the front. */
        size_t n = strcmp(h.root, "/") ? strlen(h.root) : 0;
        if (!strncmp(path, h.root, n))
            return xasprintf("%s%s%s", sys, h.place, path + n);
    }
    return NULL;
}
