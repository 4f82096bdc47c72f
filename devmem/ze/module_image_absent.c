/* SPDX-License-Identifier: Apache-2.0 */
/* A library that was built without clang or llvm-spirv has no modules. */
#include "devmem/ze/modules.h"

const void *weft_ze_module_image(int module, size_t *size)
{
    (void)module;
    *size = 0;
    return NULL;
}
