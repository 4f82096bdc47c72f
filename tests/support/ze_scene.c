/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs ze */
#include "tests/support/ze_scene.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devmem/registry.h"
#include "tests/support/built.h"

char ze_said[512], ze_logged[8192];

static void *library;

struct ze_fake *ze_scene_load(void)
{
    if (!test_ze_use(NULL))
        return NULL;
    library = dlopen(getenv("ZE_ENABLE_ALT_DRIVERS"), RTLD_NOW | RTLD_LOCAL);
    struct ze_fake *fake = library ? dlsym(library, "ze_fake") : NULL;
    if (!fake)
        fprintf(stderr, "%s\n", dlerror());
    else
        fake->copies_wait = 1;
    return fake;
}

void *ze_scene_function(const char *name)
{
    return library ? dlsym(library, name) : NULL;
}

static int fail_with(int status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(ze_said, sizeof ze_said, format, arguments);
    va_end(arguments);
    return status;
}

static void log_line(int level, const char *format, ...)
{
    size_t used = strlen(ze_logged);
    va_list arguments;
    va_start(arguments, format);
    if (level <= WEFT_DEVICE_LOG_INFO) {
        vsnprintf(ze_logged + used, sizeof ze_logged - used - 1, format, arguments);
        strcat(ze_logged, "\n");
    }
    va_end(arguments);
}

int ze_logged_count(const char *text)
{
    int count = 0;
    for (const char *at = ze_logged; (at = strstr(at, text)); at++)
        count++;
    return count;
}

struct weft_device *ze_scene_open(void)
{
    struct weft_device_params params = {
        .size = sizeof params, .fail = fail_with, .log = log_line, .options = ""};
    struct weft_device *device = NULL;
    return weft_device_find("ze")->open(&params, &device) == WEFT_OK ? device : NULL;
}

struct ze_fake *ze_scene_begin(struct weft_device_ops *ops, struct weft_device **device)
{
    struct ze_fake *fake = ze_scene_load();
    if (!fake || weft_device_complete(weft_device_find("ze"), ops) != WEFT_OK)
        return NULL;
    fake->device_count = 2;
    *device = ze_scene_open();
    return *device ? fake : NULL;
}

int ze_scene_finish(const struct weft_device_ops *ops, struct weft_device_queue *queue)
{
    struct weft_device_event *event;
    int status;
    if (ops->mark(queue, &event) != WEFT_OK)
        return -1;
    while ((status = ops->test(event)) == 0)
        usleep(20);
    ops->event_free(event);
    return status;
}

int ze_scene_end(const struct weft_device_ops *ops, struct ze_fake *fake, struct weft_device *device)
{
    ops->close(device);
    if (fake->violations)
        fprintf(stderr, "%s\n", fake->first_violation);
    return fake->violations || fake->contexts || fake->allocations || fake->ipc_handles;
}
