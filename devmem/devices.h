/* SPDX-License-Identifier: Apache-2.0 */
/* The kinds of devices of one context: which there are, which work, and whose memory is at a pointer.
 *
 * A kind is built in (devmem/registry.h) or comes from a plug-in (devmem/plugin.h). Nothing is loaded or opened before the first
 * question. Then each allowed kind is opened once; one that fails is kept with its reason, which is logged once, and the
 * others go on without it. "host" is always there and has every pointer that no other kind claims.
 *
 * Threads: any, several at once; questions take no lock once the kinds are open.
 */
#ifndef WEFT_DEVMEM_DEVICES_H
#define WEFT_DEVMEM_DEVICES_H

#include <weft/device.h>

#include "devmem/plugin.h"
#include "devmem/registry.h"

struct weft_devices;

/* What is known of one kind. Constant once it has been seen; lives as long as the set. */
struct weft_device_kind {
    char name[WEFT_DEVICE_NAME_MAX + 1]; /* "": a plug-in that does not get so far as to say it */
    char source[512];                    /* "built in", or the plug-in's path */
    int status;                          /* WEFT_OK: open; else why it cannot be used, */
    char reason[640];                    /* in words */
    struct weft_device_ops ops;          /* complete, when open */
    struct weft_device *device;
    struct weft_plugin plugin;
};

/* allowed: kinds separated by commas, or behind "^" those to leave out, "" all; plugins: absolute paths separated by
 * colons; options: "kind:options" separated by semicolons. All three are copied. WEFT_INVALID when one cannot be read. */
int weft_devices_create(const char *allowed, const char *plugins, const char *options,
                        struct weft_devices **devices);

/* Closes what was opened; everything made with the kinds must have been given back. NULL is allowed. */
void weft_devices_destroy(struct weft_devices *devices);

/* All kinds, also those that do not work or are not allowed; opens them. */
int weft_devices_count(struct weft_devices *devices);
const struct weft_device_kind *weft_devices_kind(struct weft_devices *devices, int index);

/* The kind that is open under this name; NULL when there is none. */
const struct weft_device_kind *weft_devices_find(struct weft_devices *devices, const char *name);

/* Whether the program may have memory of some device by now: 1 or 0. No driver is loaded for that. It costs a few nanoseconds; one that
 * was loaded in the last milliseconds may not be seen yet. */
int weft_devices_in_use(struct weft_devices *devices);
/* It is in use from now on. */
void weft_devices_use(struct weft_devices *devices);

/* Whose memory is at a pointer: never NULL. Sets span->size and fills the rest. */
const struct weft_device_kind *weft_devices_identify(struct weft_devices *devices, const void *pointer,
                                                     struct weft_device_span *span);

#endif
