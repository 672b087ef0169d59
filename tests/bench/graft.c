/*
 * Shows a folder of the host in a room that runs already, read-only and without set-uid:
 *
 *   graft FOLDER PID PLACE
 *
 * Only root of the host can do this; it is how a test puts a harness into a room "by hand".
 */
#include <fcntl.h>
#include <linux/mount.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static void must(int ok, const char *what) {
    if (ok)
        return;
    perror(what);
    exit(1);
}

int main(int argc, char **argv) {
    if (argc != 4)
        return 2;
    int tree = (int)syscall(SYS_open_tree, AT_FDCWD, argv[1], OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
    must(tree >= 0, argv[1]);
    struct mount_attr attr = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    must(syscall(SYS_mount_setattr, tree, "", AT_EMPTY_PATH, &attr, sizeof attr) == 0, "mount_setattr");
    int room = (int)syscall(SYS_pidfd_open, strtol(argv[2], NULL, 10), 0);
    must(room >= 0 && setns(room, CLONE_NEWNS) == 0, "enter the room");
    must(syscall(SYS_move_mount, tree, "", AT_FDCWD, argv[3], MOVE_MOUNT_F_EMPTY_PATH) == 0, argv[3]);
    return 0;
}
