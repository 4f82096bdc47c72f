/* SPDX-License-Identifier: Apache-2.0 */
/* Allocations of the fake driver, between memory.c and external.c. All with fake_lock. */
#ifndef WEFT_TESTS_FAKES_ZE_FAKE_MEMORY_H
#define WEFT_TESTS_FAKES_ZE_FAKE_MEMORY_H

#include "tests/fakes/ze/fake.h"

#define FAKE_PAGE ((size_t)4096)

struct allocation {
    char *base;
    size_t size;
    ze_memory_type_t type;
    ze_device_handle_t device; /* NULL: none */
    uint64_t id;
    struct fake_context *context;
    int commands;       /* in flight that use it */
    uint32_t residents; /* bits: devices that it was made resident for */
    int may_export;     /* was asked for when it was allocated */
    int is_pool;        /* parts of it are given out */
    int is_imported;
    uint64_t inode; /* of what was imported */
    int file;       /* that device memory lies in from the beginning; -1: in the arena's */
    int fd;         /* of its dma-buf, once it was exported, or by which it was imported; -1: none */
};

/* What the program has at the address, an allocation or a part of a pool; NULL. */
struct allocation *fake_find(const void *memory);
/* What the driver has there: an allocation, or a pool with all that is in it; NULL. */
struct allocation *fake_find_whole(const void *memory);
/* What was imported of a file for the device; NULL. */
struct allocation *fake_find_imported(ze_device_handle_t device, uint64_t inode);
/* An allocation of device memory, of which nobody has said yet whose it is; NULL: there is no room. */
struct allocation *fake_reserve(size_t size, size_t alignment);
/* Where the driver reaches it. */
char *fake_reached(const struct allocation *one);
/* Puts other memory there, of a file; and the arena's again. 0 on success. */
int fake_map_file(const struct allocation *one, size_t size, int fd);
void fake_map_arena(const struct allocation *one);
/* Takes it out of the table; its memory is the arena's. */
void fake_unreserve(struct allocation *one);

/* --- external.c */

/* Fills an allocation with the memory of a file. */
ze_result_t fake_import(ze_context_handle_t context, ze_device_handle_t device, size_t size,
                        const ze_external_memory_import_fd_t *from, void **memory);
/* Gives a new allocation a file to lie in, so that it does not move when it is exported: kernels may run that use it. Where there is none to be had
 * it stays in the arena. */
void fake_external_begin(struct allocation *one);
/* Ends what an allocation has of files, before it is freed. */
void fake_external_end(struct allocation *one);
/* The driver's descriptor of the allocation, made at need. */
ze_result_t fake_export(struct allocation *whole, ze_external_memory_export_fd_t *to);

#endif
