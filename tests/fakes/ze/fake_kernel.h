/* SPDX-License-Identifier: Apache-2.0 */
/* Modules and kernels of the fake driver, between module.c, spirv.c, list.c and ze_kernels.c. */
#ifndef WEFT_TESTS_FAKES_ZE_FAKE_KERNEL_H
#define WEFT_TESTS_FAKES_ZE_FAKE_KERNEL_H

#include "tests/fakes/ze/fake.h"

#define FAKE_ARGUMENTS 18
#define FAKE_POINTERS  10 /* the first ones */
#define FAKE_ENTRIES   16

/* --- spirv.c: what a module of SPIR-V says of itself */

struct fake_entry {
    char name[64];
    uint32_t id, local_size; /* 0: any */
    int keeps_operations;    /* products and sums are not contracted */
    uint32_t argument_count;
    uint8_t argument_bytes[FAKE_ARGUMENTS];
    uint32_t pointers; /* bits: arguments */
};

struct fake_spirv {
    int uses_float64, uses_float16, uses_atomics; /* of 64 bits */
    uint32_t entry_count;
    struct fake_entry entries[FAKE_ENTRIES];
};

/* 0: that is no SPIR-V, as far as this reads it. */
int fake_spirv_read(const void *module, size_t size, struct fake_spirv *read);

/* --- ze_kernels.c: weft's kernels compiled as C */

struct fake_span {
    char *begin, *end;
};

/* One launch, with its arguments as they were when it was appended. */
struct fake_launch {
    int function; /* -1: none */
    int device;
    uint32_t groups;
    uint32_t pointers;                  /* bits: arguments */
    uint32_t indirect;                  /* ze_kernel_indirect_access_flags_t */
    uint64_t arguments[FAKE_ARGUMENTS]; /* pointers as the program has them */
    char *reached[FAKE_POINTERS];       /* and as the driver does */
    struct fake_span spans[FAKE_POINTERS];
    struct fake_kernel *kernel;
};

/* Of the functions that there are; -1. */
int fake_function_find(const char *name);
void fake_function_run(const struct fake_launch *launch, int backwards);

/* --- ze_collectives.c: those of device collectives */

enum { FAKE_COLLECTIVES = 1000 }; /* from here on; a number, or -1 */
int fake_collective_find(const char *name);
void fake_collective_run(const struct fake_launch *launch);

/* --- memory.c. With fake_lock. */

/* What a kernel of the device reaches at the pointer: where the driver has it, and the allocation around it. 0: nothing. */
int fake_kernel_reach(const void *memory, int device, char **reached, struct fake_span *span);
/* Whether a kernel of the device reaches it by an address that is none of its arguments: its own, the host's and shared memory, and what has been made
 * resident. */
int fake_is_resident(const void *memory, int device);
ze_memory_type_t fake_type(const void *memory);

/* --- module.c */

struct fake_kernel {
    struct fake_module *module;
    const struct fake_entry *entry;
    int function;
    uint32_t group_size, set; /* bits: arguments */
    uint32_t indirect;        /* ze_kernel_indirect_access_flags_t */
    uint64_t arguments[FAKE_ARGUMENTS];
    int in_flight; /* with fake_lock */
    _Atomic int users;
};

/* What a launch of the kernel by now is. 0, with a violation: it cannot be. */
int fake_kernel_launch(ze_kernel_handle_t kernel, const struct fake_context *context, int device,
                       const ze_group_count_t *groups, struct fake_launch *launch);

#endif
