/* SPDX-License-Identifier: Apache-2.0 */
/* Which kinds of devices are built in, and how an incomplete table becomes a complete one.
 *
 * Threads: any; all functions only read constant tables.
 */
#ifndef WEFT_DEVMEM_REGISTRY_H
#define WEFT_DEVMEM_REGISTRY_H

#include <weft/device.h>

#define WEFT_DEVICE_NAME_MAX 31 /* characters of a kind's name */

/* The table of the index-th built-in kind, possibly with absent operations; NULL behind the last. "host", whose memory every
 * pointer is, comes last. Static. */
const struct weft_device_ops *weft_device_built_in(size_t index);

/* The same by name; NULL when there is none of this name. */
const struct weft_device_ops *weft_device_find(const char *name);

/* Whether a kind may be called so: 1 to WEFT_DEVICE_NAME_MAX lower-case letters, digits, '-' and '_', a letter first. */
int weft_device_name_is_good(const char *name);

/* Copies a table and fills absent operations with callable defaults: they answer WEFT_UNSUPPORTED with a text, event_free() and
 * wait_free() do nothing, flush_writes() has nothing to do, and in_use() and reaches() say yes. WEFT_INVALID for another ABI, a
 * table too small to be one, a name that is none, or a table without an operation that every kind needs. partial may come from anybody's plug-in. */
int weft_device_complete(const struct weft_device_ops *partial, struct weft_device_ops *complete);

#endif
