/*
 * One static binary that is every daemon, every installer step and the shim. The shim comes first: it stands
 * for every shell of a harness room, so its start is counted in microseconds and nothing is set up before it.
 */
#include "cli/cli.h"

#include <string.h>

typedef int applet_main(int argc, char **argv);

#define APPLET(name, function) applet_main function;
#include "applets.def"
#undef APPLET

static const struct {
    const char *name;
    applet_main *run;
} applets[] = {
#define APPLET(name, function) {name, function},
#include "applets.def"
#undef APPLET
    {NULL, NULL}};

int main(int argc, char **argv) {
    const char *slash = argc ? strrchr(argv[0], '/') : NULL;
    const char *name = argc ? (slash ? slash + 1 : argv[0]) : "";
    for (size_t i = 0; applets[i].name; i++)
        if (!strcmp(name, applets[i].name))
            return applets[i].run(argc, argv);
    for (size_t i = 0; argc > 1 && applets[i].name; i++)
        if (!strcmp(argv[1], applets[i].name))
            return applets[i].run(argc - 1, argv + 1);
    return cli_main(argc, argv);
}
