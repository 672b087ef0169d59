/* The bytes of the shim that was linked alone (alone.c; SHIM_FILE is given by the build). cage/shim_file.h. */
#include "cage/shim_file.h"

__asm__(".pushsection .rodata.shim, \"a\"\n"
        ".balign 16\n"
        ".globl shim_image, shim_image_end\n"
        "shim_image:\n"
        ".incbin \"" SHIM_FILE "\"\n"
        "shim_image_end:\n"
        ".popsection\n");
