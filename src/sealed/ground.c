#include "sealed/ground.h"

#include "base/fs.h"
#include "base/own.h"
#include "base/proc.h"
#include "cage/image.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static err_t need(const char *program, const char *package) {
    own_free char *path = proc_find(program);
    return path ? NULL
                : err_new(EXIT_FAILED,
                          "%s is not installed, and without it no sealed cage can be made: apt install %s",
                          program, package);
}

err_t ground_outline(struct ground *ret) {
    struct ground g = {0};
    err_t e = host_look(&g.host);
    g.rootless = g.host.rootless || geteuid() != 0;
    e = e ? e : g.rootless ? ground_of_user(&g) : ground_of_root(&g);
    if (e) {
        ground_close(&g);
        return e;
    }
    *ret = g;
    return NULL;
}

static err_t complete(struct ground *g, void (*tell)(void *ctx, const char *line), void *ctx) {
    TRY(need("podman", "podman"));
    TRY(need("nft", "nftables"));
    if (g->rootless) {
        TRY(ground_check_user(g));
        g->workbench = image_place(g->conf.image_dir);
        return NULL;
    }
    if (!g->host.idmap)
        return err_new(EXIT_FAILED,
                       "this kernel has no idmapped mounts (Linux 5.12), which a sealed cage needs for the "
                       "project's owner");
    return image_workbench(g->conf.image_dir, tell, ctx, &g->workbench);
}

err_t ground_open(void (*tell)(void *ctx, const char *line), void *ctx, struct ground *ret) {
    struct ground g;
    TRY(ground_outline(&g));
    err_t e = complete(&g, tell, ctx);
    if (e) {
        ground_close(&g);
        return e;
    }
    *ret = g;
    return NULL;
}

err_t ground_runtime(struct ground *g, const char *binary, uint32_t uid_base) {
    own_free char *path = xasprintf("%s/runtime", g->lib), *line = NULL;
    own_err err_t none = fs_read_line(path, &line);
    if (!none) {
        snprintf(g->host.runtime, sizeof g->host.runtime, "%s", line);
        return NULL;
    }
    own_free char *dir = xasprintf("%s/trial", g->run);
    TRY(fs_dir(dir, 0, 0, 0700));
    TRY(host_probe_runtime(&g->host, g->conf.runtime, g->workbench, binary, dir, g->run, uid_base));
    own_free char *text = xasprintf("%s\n", g->host.runtime);
    return fs_write(path, text, strlen(text), 0, 0, 0644);
}

void ground_doubt(const struct ground *g) {
    own_free char *path = xasprintf("%s/runtime", g->lib ? g->lib : "");
    if (g->lib && unlink(path))
        return; /* there was none */
}

err_t ground_ids(const struct ground *g, uint32_t *ret_base, int *ret_lock) {
    *ret_base = 0;
    *ret_lock = -1;
    return g->rootless ? NULL : ground_ids_of_root(g, ret_base, ret_lock);
}

void ground_close(struct ground *g) {
    conf_fleet_free(&g->conf);
    free(g->run);
    free(g->lib);
    free(g->label);
    free(g->workbench);
    *g = (struct ground){0};
}
