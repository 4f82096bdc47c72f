/* SPDX-License-Identifier: Apache-2.0 */
/* A library that was built without clang or llvm-spirv has no modules. */
#include "devmem/ze/modules.h"

const void *weft_ze_module_image(int group, size_t *size)
{
    (void)group;
    *size = 0;
    return NULL;
}
