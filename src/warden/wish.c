#include "warden/wish.h"
#include "base/fs.h"
#include "base/own.h"
#include "base/paths.h"

#include <string.h>

static char *place(const char *name) {
    return path_of(DIR_LIB "/warden/wish/%s", name);
}

bool wish_read(const char *name) {
    own_free char *path = place(name), *line = NULL;
    own_err err_t e = fs_read_line(path, &line);
    return e || strcmp(line, "stopped") != 0;
}

err_t wish_write(const char *name, bool started) {
    own_free char *path = place(name);
    const char *text = started ? "started\n" : "stopped\n";
    return fs_write(path, text, strlen(text), 0, 0, 0600);
}

err_t wish_forget(const char *name) {
    own_free char *path = place(name);
    return fs_remove(path);
}
