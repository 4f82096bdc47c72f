/* SPDX-License-Identifier: Apache-2.0 */
/* The modules, as clang and llvm-spirv made them of devmem/ze/reduce.cl and devmem/ze/collective.cl: the assembler puts the files' bytes here. */
#include "devmem/ze/modules.h"

#define BYTES(name, file)                                                                                    \
    __asm__(".pushsection .rodata.weft_ze_module, \"a\"\n"                                                   \
            ".balign 8\n"                                                                                    \
            ".local weft_ze_module_" #name "_begin\n"                                                        \
            "weft_ze_module_" #name "_begin:\n"                                                              \
            ".incbin \"" WEFT_ZE_MODULES "/" file ".spv\"\n"                                                 \
            ".local weft_ze_module_" #name "_end\n"                                                          \
            "weft_ze_module_" #name "_end:\n"                                                                \
            ".popsection\n");                                                                                \
    extern const unsigned char weft_ze_module_##name##_begin[] __attribute__((visibility("hidden")));        \
    extern const unsigned char weft_ze_module_##name##_end[] __attribute__((visibility("hidden")));
#define MODULE(group)     BYTES(group, #group)
#define COLLECTIVE(group) BYTES(group##_collective, "collective/" #group)
WEFT_KERNEL_GROUPS(MODULE)
WEFT_KERNEL_GROUPS(COLLECTIVE)

const void *weft_ze_module_image(int module, size_t *size)
{
#define ROW_OF(name)          {weft_ze_module_##name##_begin, weft_ze_module_##name##_end},
#define ROW(group)            ROW_OF(group)
#define COLLECTIVE_ROW(group) ROW_OF(group##_collective)
    static const struct {
        const unsigned char *begin, *end;
    } images[WEFT_ZE_MODULE_COUNT] = {WEFT_KERNEL_GROUPS(ROW) WEFT_KERNEL_GROUPS(COLLECTIVE_ROW)};
    *size = (size_t)(images[module].end - images[module].begin);
    return images[module].begin;
}
