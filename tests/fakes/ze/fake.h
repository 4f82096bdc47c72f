/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the fake driver. */
#ifndef WEFT_TESTS_FAKES_ZE_FAKE_H
#define WEFT_TESTS_FAKES_ZE_FAKE_H

#include <pthread.h>
#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>

#include "tests/fakes/ze/ze_fake.h"

#define FAKE_TICK_NS 40 /* of the devices' clocks */

extern struct ze_fake ze_fake;

/* --- check.c */

/* Counts a violation unless it holds; section: of the specification. Returns whether it holds. */
int fake_expect(int holds, const char *call, const char *section, const char *what);
/* A struct of ours or of an extension begins with its type, and is followed by none that we do not know. */
int fake_expect_struct(const void *given, ze_structure_type_t type, const char *call);
/* The same of the first, for a call that takes structs behind it: next becomes the second, or NULL. */
int fake_expect_chain(const void *given, ze_structure_type_t type, const void **next, const char *call);
/* zeInit() has been called. */
int fake_expect_ready(const char *call);

/* --- driver.c */

extern _Atomic int fake_is_ready;

ze_result_t fake_init(ze_init_flags_t flags);
ze_result_t fake_driver_get(uint32_t *count, ze_driver_handle_t *drivers);
ze_result_t fake_driver_version(ze_driver_handle_t driver, ze_api_version_t *version);
ze_result_t fake_driver_properties(ze_driver_handle_t driver, ze_driver_properties_t *properties);
ze_result_t fake_driver_extensions(ze_driver_handle_t driver, uint32_t *count,
                                   ze_driver_extension_properties_t *extensions);
/* The driver's number; -1, a violation, where it is none. */
int fake_driver_index(ze_driver_handle_t driver, const char *call);
ze_result_t fake_driver_function(ze_driver_handle_t driver, const char *name, void **address);

/* --- device.c */

ze_result_t fake_device_get(ze_driver_handle_t driver, uint32_t *count, ze_device_handle_t *devices);
ze_result_t fake_device_properties(ze_device_handle_t device, ze_device_properties_t *properties);
ze_result_t fake_device_memories(ze_device_handle_t device, uint32_t *count,
                                 ze_device_memory_properties_t *memories);
ze_result_t fake_device_subdevices(ze_device_handle_t device, uint32_t *count, ze_device_handle_t *devices);
ze_result_t fake_device_pci(ze_device_handle_t device, ze_pci_ext_properties_t *properties);

ze_result_t fake_device_groups(ze_device_handle_t device, uint32_t *count,
                               ze_command_queue_group_properties_t *groups);
ze_result_t fake_device_external(ze_device_handle_t device,
                                 ze_device_external_memory_properties_t *properties);
ze_result_t fake_device_peer(ze_device_handle_t device, ze_device_handle_t peer, ze_bool_t *value);
ze_result_t fake_device_status(ze_device_handle_t device);
ze_result_t fake_device_compute(ze_device_handle_t device, ze_device_compute_properties_t *properties);
ze_result_t fake_device_modules(ze_device_handle_t device, ze_device_module_properties_t *properties);
uint32_t fake_group_size(void);
/* What the devices' clock says. With fake_lock. */
void fake_note_time(uint64_t *ticks);
/* Of the queues of a group: one, or two. */
uint32_t fake_index_count(void);
ze_device_handle_t fake_device_handle(int index);
/* The number of the device, or of the one whose tile it is; -1, a violation, where it is none. */
int fake_device_index(ze_device_handle_t device, const char *call);

/* --- context.c */

struct fake_context {
    int driver;
    int objects; /* that belong to it, with fake_lock */
};

extern pthread_mutex_t fake_lock; /* of what follows */

ze_result_t fake_context_create(ze_driver_handle_t driver, const ze_context_desc_t *desc,
                                ze_context_handle_t *context);
ze_result_t fake_context_destroy(ze_context_handle_t context);
/* NULL, a violation, where it is none. */
struct fake_context *fake_context_find(ze_context_handle_t context, const char *call);
void fake_context_count(struct fake_context *context, int objects);

/* --- memory.c */

ze_result_t fake_alloc_device(ze_context_handle_t context, const ze_device_mem_alloc_desc_t *desc,
                              size_t size, size_t alignment, ze_device_handle_t device, void **memory);
ze_result_t fake_alloc_host(ze_context_handle_t context, const ze_host_mem_alloc_desc_t *desc, size_t size,
                            size_t alignment, void **memory);
ze_result_t fake_alloc_shared(ze_context_handle_t context, const ze_device_mem_alloc_desc_t *device_desc,
                              const ze_host_mem_alloc_desc_t *host_desc, size_t size, size_t alignment,
                              ze_device_handle_t device, void **memory);
ze_result_t fake_free(ze_context_handle_t context, void *memory);
ze_result_t fake_alloc_properties(ze_context_handle_t context, const void *memory,
                                  ze_memory_allocation_properties_t *properties, ze_device_handle_t *device);
ze_result_t fake_address_range(ze_context_handle_t context, const void *memory, void **base, size_t *size);
ze_result_t fake_make_resident(ze_context_handle_t context, ze_device_handle_t device, void *memory,
                               size_t size);
ze_result_t fake_evict(ze_context_handle_t context, ze_device_handle_t device, void *memory, size_t size);
/* Where the driver itself reaches size bytes of an allocation, or of the host's own memory; NULL: of its own, but of no allocation. One more
 * command in flight uses them, or less. */
void *fake_reach(const void *memory, size_t size, int driver);
void fake_use(const void *memory, int commands);

/* --- external.c */

ze_result_t fake_ipc_get(ze_context_handle_t context, const void *memory, ze_ipc_mem_handle_t *handle);
/* Calls of API 1.6, which the loader of Debian 12 lacks: tests find them by dlsym() in the library, under these names. */
ze_result_t ze_fake_ipc_put(ze_context_handle_t context, ze_ipc_mem_handle_t handle);
ze_result_t ze_fake_ipc_descriptor(ze_context_handle_t context, ze_ipc_mem_handle_t handle,
                                   uint64_t *descriptor);

/* --- event.c */

struct fake_event {
    struct fake_pool *pool;
    uint32_t index;
    int is_signalled, signals, waits; /* how many commands in flight signal it, and wait for it */
    int device;                       /* of the last command that was to signal it; -1: none was */
};

extern pthread_cond_t fake_moved; /* an event was signalled, or a list has something to do */

ze_result_t fake_pool_create(ze_context_handle_t context, const ze_event_pool_desc_t *desc,
                             uint32_t device_count, ze_device_handle_t *devices,
                             ze_event_pool_handle_t *pool);
ze_result_t fake_pool_destroy(ze_event_pool_handle_t pool);
ze_result_t fake_event_create(ze_event_pool_handle_t pool, const ze_event_desc_t *desc,
                              ze_event_handle_t *event);
ze_result_t fake_event_destroy(ze_event_handle_t event);
ze_result_t fake_event_host_signal(ze_event_handle_t event);
ze_result_t fake_event_host_reset(ze_event_handle_t event);
ze_result_t fake_event_host_synchronize(ze_event_handle_t event, uint64_t timeout_ns);
ze_result_t fake_event_query(ze_event_handle_t event);
int fake_event_driver(const struct fake_event *event);

/* --- module.c */

ze_result_t fake_module_create(ze_context_handle_t context, ze_device_handle_t device,
                               const ze_module_desc_t *desc, ze_module_handle_t *module,
                               ze_module_build_log_handle_t *log);
ze_result_t fake_module_destroy(ze_module_handle_t module);
ze_result_t fake_log_string(ze_module_build_log_handle_t log, size_t *size, char *text);
ze_result_t fake_log_destroy(ze_module_build_log_handle_t log);
ze_result_t fake_kernel_create(ze_module_handle_t module, const ze_kernel_desc_t *desc,
                               ze_kernel_handle_t *kernel);
ze_result_t fake_kernel_destroy(ze_kernel_handle_t kernel);
ze_result_t fake_kernel_group(ze_kernel_handle_t kernel, uint32_t x, uint32_t y, uint32_t z);
ze_result_t fake_kernel_argument(ze_kernel_handle_t kernel, uint32_t index, size_t size, const void *value);
ze_result_t fake_kernel_indirect(ze_kernel_handle_t kernel, ze_kernel_indirect_access_flags_t flags);

/* --- list.c */

ze_result_t fake_list_immediate(ze_context_handle_t context, ze_device_handle_t device,
                                const ze_command_queue_desc_t *desc, ze_command_list_handle_t *list);
ze_result_t fake_list_create(ze_context_handle_t context, ze_device_handle_t device,
                             const ze_command_list_desc_t *desc, ze_command_list_handle_t *list);
ze_result_t fake_list_close(ze_command_list_handle_t list);
ze_result_t fake_list_reset(ze_command_list_handle_t list);
ze_result_t fake_queue_create(ze_context_handle_t context, ze_device_handle_t device,
                              const ze_command_queue_desc_t *desc, ze_command_queue_handle_t *queue);
ze_result_t fake_queue_destroy(ze_command_queue_handle_t queue);
ze_result_t fake_queue_execute(ze_command_queue_handle_t queue, uint32_t count,
                               ze_command_list_handle_t *lists, ze_fence_handle_t fence);
ze_result_t fake_list_destroy(ze_command_list_handle_t list);
ze_result_t fake_append_barrier(ze_command_list_handle_t list, ze_event_handle_t signal, uint32_t wait_count,
                                ze_event_handle_t *waits);
ze_result_t fake_append_launch(ze_command_list_handle_t list, ze_kernel_handle_t kernel,
                               const ze_group_count_t *groups, ze_event_handle_t signal, uint32_t wait_count,
                               ze_event_handle_t *waits);
ze_result_t fake_append_copy(ze_command_list_handle_t list, void *destination, const void *source,
                             size_t size, ze_event_handle_t signal, uint32_t wait_count,
                             ze_event_handle_t *waits);
ze_result_t fake_append_fill(ze_command_list_handle_t list, void *destination, const void *pattern,
                             size_t pattern_size, size_t size, ze_event_handle_t signal, uint32_t wait_count,
                             ze_event_handle_t *waits);
ze_result_t fake_append_time(ze_command_list_handle_t list, uint64_t *ticks, ze_event_handle_t signal,
                             uint32_t wait_count, ze_event_handle_t *waits);
/* Calls of API 1.9, found as those of external.c are. */
ze_result_t ze_fake_list_is_immediate(ze_command_list_handle_t list, ze_bool_t *is_immediate);
ze_result_t ze_fake_list_device(ze_command_list_handle_t list, ze_device_handle_t *device);
ze_result_t ze_fake_queue_group(ze_command_queue_handle_t queue, uint32_t *group);
/* What a program's kernel does, for tests: it ends when *flag is not 0. It is a barrier as well. */
ze_result_t ze_fake_append_spin(ze_command_list_handle_t list, const int *flag);
/* Whether nothing of a list or command queue is in flight. */
int ze_fake_is_idle(const void *list);

/* --- tables.c */

/* Whether the loader's version of a table is one that there is, and the table is there. */
ze_result_t fake_table_take(ze_api_version_t version, const void *table);

#endif
