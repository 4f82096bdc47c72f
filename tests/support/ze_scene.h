/* SPDX-License-Identifier: Apache-2.0 */
/* Level Zero's own loader with the fake driver of tests/fakes/ze/. */
#ifndef WEFT_TESTS_ZE_SCENE_H
#define WEFT_TESTS_ZE_SCENE_H

#include <stdio.h>
#include <weft/device.h>

#include "tests/fakes/ze/ze_fake.h"

/* In a function that runs in a process of its own (tests/support/child.h): 1 when it does not hold. */
#define ZE_CHECK(condition)                                                                                  \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            fprintf(stderr, "%s:%d: not %s; the last text is '%s'\n", __FILE__, __LINE__, #condition,        \
                    ze_said);                                                                                \
            return 1;                                                                                        \
        }                                                                                                    \
    } while (0)

/* The last text that the kind has failed with. */
extern char ze_said[512];
/* What it has logged down to "info", line by line, and how often a text is there. */
extern char ze_logged[8192];
int ze_logged_count(const char *text);

/* Has the loader find the fake driver, and look for mistakes by its own layers as well: before the loader is loaded. What the driver
 * has, to be set before it is initialised; NULL with a text on stderr. */
struct ze_fake *ze_scene_load(void);
/* A function of the fake driver's that no loader knows; NULL. */
void *ze_scene_function(const char *name);
/* The kind "ze", opened; NULL: not. */
struct weft_device *ze_scene_open(void);
/* Both, with two devices; ops become the kind's, complete. NULL: not. */
struct ze_fake *ze_scene_begin(struct weft_device_ops *ops, struct weft_device **device);
/* Waits until the queue has done what is in it: 1, or what it has failed with. */
int ze_scene_finish(const struct weft_device_ops *ops, struct weft_device_queue *queue);
/* A device collective of one step. */
static inline struct weft_device_collective ze_scene_signal(const struct weft_device_step *step,
                                                            uint64_t *stop)
{
    return (struct weft_device_collective){.size = sizeof(struct weft_device_collective),
                                           .dtype = WEFT_INT32,
                                           .op = WEFT_SUM,
                                           .step_count = 1,
                                           .steps = step,
                                           .stop = stop};
}
/* Closes it. 0: nothing is left, and nothing that was called is forbidden. */
int ze_scene_end(const struct weft_device_ops *ops, struct ze_fake *fake, struct weft_device *device);

#endif
