/* The page's files, carried in the binary as they are. WEB_DIR is given by the build. */
#include "base/own.h"
#include "relay/web/web.h"

#include <string.h>

#define FILE_OF(symbol, path, file, type)                                                                    \
    __asm__(".pushsection .rodata.web, \"a\"\n"                                                              \
            ".globl web_" #symbol ", web_" #symbol "_end\n"                                                  \
            "web_" #symbol ":\n"                                                                             \
            ".incbin \"" WEB_DIR "/" file "\"\n"                                                             \
            "web_" #symbol "_end:\n"                                                                         \
            ".popsection\n");                                                                                \
    extern const char web_##symbol[], web_##symbol##_end[];
#include "relay/web/assets.def"
#undef FILE_OF

static const struct {
    const char *path, *type, *begin, *end;
} assets[] = {
#define FILE_OF(symbol, path, file, type) {path, type, web_##symbol, web_##symbol##_end},
#include "relay/web/assets.def"
#undef FILE_OF
};

bool asset_find(struct bytes path, const char **ret_type, struct bytes *ret) {
    for (size_t i = 0; i < COUNT(assets); i++) {
        if (strlen(assets[i].path) != path.len || memcmp(assets[i].path, path.p, path.len))
            continue;
        *ret_type = assets[i].type;
        *ret = (struct bytes){assets[i].begin, (size_t)(assets[i].end - assets[i].begin)};
        return true;
    }
    return false;
}
