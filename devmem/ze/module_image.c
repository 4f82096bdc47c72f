/* SPDX-License-Identifier: Apache-2.0 */
/* The modules, as clang and llvm-spirv made them of devmem/ze/reduce.cl: the assembler puts the files' bytes here. */
#include "devmem/ze/modules.h"

#define MODULE(group)                                                                                        \
    __asm__(".pushsection .rodata.weft_ze_module, \"a\"\n"                                                   \
            ".balign 8\n"                                                                                    \
            ".local weft_ze_module_" #group "_begin\n"                                                       \
            "weft_ze_module_" #group "_begin:\n"                                                             \
            ".incbin \"" WEFT_ZE_MODULES "/" #group ".spv\"\n"                                               \
            ".local weft_ze_module_" #group "_end\n"                                                         \
            "weft_ze_module_" #group "_end:\n"                                                               \
            ".popsection\n");                                                                                \
    extern const unsigned char weft_ze_module_##group##_begin[] __attribute__((visibility("hidden")));       \
    extern const unsigned char weft_ze_module_##group##_end[] __attribute__((visibility("hidden")));
WEFT_KERNEL_GROUPS(MODULE)

const void *weft_ze_module_image(int group, size_t *size)
{
#define ROW(group) {weft_ze_module_##group##_begin, weft_ze_module_##group##_end},
    static const struct {
        const unsigned char *begin, *end;
    } images[] = {WEFT_KERNEL_GROUPS(ROW)};
#undef ROW
    *size = (size_t)(images[group].end - images[group].begin);
    return images[group].begin;
}
