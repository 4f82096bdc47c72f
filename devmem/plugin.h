/* SPDX-License-Identifier: Apache-2.0 */
/* Loading a kind of device from a shared object.
 *
 * Whoever can write the file, or rename one of the folders on its path, runs code in this process. So each part of the
 * path is opened in turn, without following links, and belongs to root or the effective user; nobody else may write to it,
 * unless it is a folder where only owners rename and remove (sticky, as /tmp). The object is then loaded from the descriptor
 * that was checked (/proc/self/fd), so that what is put in its place meanwhile is not what runs. Its $ORIGIN is of no use
 * for that reason. Signal dispositions stay as they were (base/signals.h).
 *
 * Threads: any.
 */
#ifndef WEFT_DEVMEM_PLUGIN_H
#define WEFT_DEVMEM_PLUGIN_H

#include <weft/device.h>

struct weft_plugin {
    void *handle;
    const struct weft_device_ops *ops; /* as the plug-in exports it: not checked; valid until unloaded */
};

/* WEFT_INVALID, WEFT_NOT_FOUND or WEFT_ACCESS, naming path, what was found and what was expected. */
int weft_plugin_load(const char *path, struct weft_plugin *plugin);

/* Lets it go. One that cannot be unloaded (it has been linked so) stays. */
void weft_plugin_unload(struct weft_plugin *plugin);

#endif
