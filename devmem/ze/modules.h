/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for Level Zero as they lie in the library: for each group of families
 * (devmem/kernels/families.h) a module of SPIR-V that reduces, and one that runs device collectives; and what
 * each needs of a device. Private to devmem/ze/. */
#ifndef WEFT_DEVMEM_ZE_MODULES_H
#define WEFT_DEVMEM_ZE_MODULES_H

#include <stddef.h>

#include "devmem/kernels/pieces.h"

#define WEFT_ZE_GROUP_NUMBER(group) WEFT_ZE_GROUP_##group,
enum weft_ze_group { WEFT_KERNEL_GROUPS(WEFT_ZE_GROUP_NUMBER) WEFT_ZE_GROUP_COUNT };
#undef WEFT_ZE_GROUP_NUMBER

/* Modules by number: the groups', and from WEFT_ZE_GROUP_COUNT on those for device collectives. */
enum { WEFT_ZE_MODULE_COUNT = 2 * WEFT_ZE_GROUP_COUNT };

/* Kernels by number: the families', copies excepted; those for device collectives; and the one that shows
 * whether queues get on beside it. */
enum { WEFT_ZE_COLLECTIVES = WEFT_KERNEL_copy, WEFT_ZE_PROBE = 2 * WEFT_KERNEL_copy, WEFT_ZE_KERNEL_COUNT };

/* Parameters of every kernel in devmem/ze/reduce.cl: pointers, 64-bit numbers, 32-bit numbers. */
enum {
    WEFT_ZE_POINTERS = WEFT_KERNEL_SOURCES + WEFT_DEVICE_DESTINATIONS_MAX,
    WEFT_ZE_LONGS = 5,
    WEFT_ZE_INTS = 3,
    WEFT_ZE_ARGUMENTS = WEFT_ZE_POINTERS + WEFT_ZE_LONGS + WEFT_ZE_INTS
};

/* A module; NULL in a library that was built without clang or llvm-spirv. Lives for ever. */
const void *weft_ze_module_image(int module, size_t *size);

/* Of a kernel: its name, and the module that has it. */
const char *weft_ze_kernel_name(int kernel);
int weft_ze_module_of(int kernel);
/* Of a family, copies excepted. */
int weft_ze_group_of(int family);
const char *weft_ze_group_name(int group);
/* Bits of the floating-point arithmetic that a group's kernels do: 64, 32, or 0. */
int weft_ze_group_float_bits(int group);

#endif
