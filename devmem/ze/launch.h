/* SPDX-License-Identifier: Apache-2.0 */
/* A device's modules and kernels. Private to devmem/ze/: load.c has them loaded, launch.c has them run. */
#ifndef WEFT_DEVMEM_ZE_LAUNCH_H
#define WEFT_DEVMEM_ZE_LAUNCH_H

#include "devmem/ze/modules.h"
#include "devmem/ze/ze.h"

struct weft_ze_module {
    ze_module_handle_t handle;
    int state;               /* enum weft_ze_module_state */
    char text[WEFT_ZE_TEXT]; /* why it is not there */
};

enum weft_ze_module_state {
    WEFT_ZE_MODULE_UNTRIED = 0,
    WEFT_ZE_MODULE_LOADING, /* by a thread, without the lock */
    WEFT_ZE_MODULE_LOADED,
    WEFT_ZE_MODULE_REFUSED
};

#define WEFT_ZE_TRIES 3 /* at a trial that shows nothing */

/* Of one ordinal, from its first reduction on. */
struct weft_ze_launcher {
    pthread_mutex_t
        lock; /* of all of it, and of each kernel from its first argument until it has been appended */
    pthread_cond_t loaded; /* some module, or not: its state says */
    int is_known;          /* what follows; it never changes then */
    ze_device_module_properties_t properties;
    uint32_t group_size;  /* that the device has at most */
    uint64_t blocks;      /* that it runs at a time */
    int is_division_said; /* that it is the host's */
    struct weft_ze_module modules[WEFT_ZE_MODULE_COUNT];
    ze_kernel_handle_t kernels[WEFT_ZE_KERNEL_COUNT];
    pthread_mutex_t probe_lock; /* of the ordinal's trials, until they have an answer */
    void *words[WEFT_ZE_TRIES]; /* of each, where kernels that were left may look; NULL: none */
};

/* Memory for the steps of a device collective. */
struct weft_ze_steps {
    uint64_t *words;
    size_t bytes;
    struct weft_device_event *end; /* of the launch that uses it; NULL: none does */
    struct weft_ze_steps *next;
};

/* steps.c. So many bytes that nothing in flight uses; and gives back what nothing was launched with. */
ze_result_t weft_ze_steps_take(struct weft_device_queue *queue, size_t bytes, struct weft_ze_steps **taken);
void weft_ze_steps_drop(struct weft_device_queue *queue, struct weft_ze_steps *dropped);

/* The launcher of the queue's device, locked, with a kernel loaded for an operation. NULL with a text and the status of why not:
 * WEFT_UNSUPPORTED where the device does not have it. What the program has not asked for is said once in the log. */
struct weft_ze_launcher *weft_ze_launcher_lock(struct weft_device_queue *queue, int kernel, weft_op op,
                                               int *status);
/* The launcher itself, neither locked nor filled; NULL: no memory. */
struct weft_ze_launcher *weft_ze_launcher_of(struct weft_device *device, int ordinal);
/* Locked, with nothing loaded; NULL: no memory. The lock is kept neither while a module is compiled nor while something is tried. */
struct weft_ze_launcher *weft_ze_launcher_look(struct weft_device *device, int ordinal);

#endif
