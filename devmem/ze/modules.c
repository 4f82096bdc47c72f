/* SPDX-License-Identifier: Apache-2.0 */
#include "devmem/ze/modules.h"

#include <stdint.h>

#define NAME_OF(name, ...) [WEFT_KERNEL_##name] = "weft_ze_" #name,
#define NAME_OF_COLLECTIVE(name, ...)                                                                        \
    [WEFT_ZE_COLLECTIVES + WEFT_KERNEL_##name] = "weft_ze_" #name "_collective",
static const char *const names[WEFT_ZE_KERNEL_COUNT] = {
    WEFT_KERNEL_REDUCTIONS(NAME_OF, NAME_OF)
        WEFT_KERNEL_REDUCTIONS(NAME_OF_COLLECTIVE, NAME_OF_COLLECTIVE)[WEFT_ZE_PROBE] = "weft_ze_probe"};

/* A group's families are neighbours, in the order of the groups: where each group ends. */
#define ONE_MORE(...)   +1
#define COUNT_OF(group) 0 WEFT_KERNEL_GROUP_##group(ONE_MORE, ONE_MORE),
static const uint8_t counts[WEFT_ZE_GROUP_COUNT] = {WEFT_KERNEL_GROUPS(COUNT_OF)};

#define GROUP_NAME(group) #group,
static const char *const group_names[WEFT_ZE_GROUP_COUNT] = {WEFT_KERNEL_GROUPS(GROUP_NAME)};

static const uint8_t float_bits[WEFT_ZE_GROUP_COUNT] = {
    [WEFT_ZE_GROUP_float8] = 32,     [WEFT_ZE_GROUP_float16] = 32, [WEFT_ZE_GROUP_bfloat16] = 32,
    [WEFT_ZE_GROUP_float32] = 32,    [WEFT_ZE_GROUP_float64] = 64, [WEFT_ZE_GROUP_complex64] = 32,
    [WEFT_ZE_GROUP_complex128] = 64,
};

const char *weft_ze_kernel_name(int kernel)
{
    return names[kernel];
}

int weft_ze_module_of(int kernel)
{
    if (kernel == WEFT_ZE_PROBE)
        return WEFT_ZE_GROUP_COUNT + WEFT_ZE_GROUP_bits;
    return kernel < WEFT_ZE_COLLECTIVES
               ? weft_ze_group_of(kernel)
               : WEFT_ZE_GROUP_COUNT + weft_ze_group_of(kernel - WEFT_ZE_COLLECTIVES);
}

int weft_ze_group_of(int family)
{
    int group = 0;
    while (family >= counts[group])
        family -= counts[group++];
    return group;
}

const char *weft_ze_group_name(int group)
{
    return group_names[group];
}

int weft_ze_group_float_bits(int group)
{
    return float_bits[group];
}
