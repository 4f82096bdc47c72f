/* SPDX-License-Identifier: Apache-2.0 */
/* How long the kernel's driver lets a kernel wait. A work group that waits for a peer cannot be preempted, so
 * i915 resets its context when other work wants the engine for longer than preempt_timeout_ms; its own
 * heartbeats, of each heartbeat_interval_ms, are such work after a while. 0 switches either off. All queues
 * of the context fail then. The driver xe has other files, and resets no such kernel.
 *
 * Source: Linux, drivers/gpu/drm/i915/Kconfig.profile.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "devmem/ze/ze.h"

#define FOLDER_BYTES 512

void weft_ze_pci(const struct weft_ze_driver *driver, ze_device_handle_t place, char *text, size_t size)
{
    ze_pci_ext_properties_t pci = {.stype = ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES};
    *text = '\0';
    if (driver->zeDevicePciGetPropertiesExt &&
        driver->zeDevicePciGetPropertiesExt(place, &pci) == ZE_RESULT_SUCCESS)
        snprintf(text, size, "%04x:%02x:%02x.%x", pci.address.domain & 0xffff, pci.address.bus & 0xff,
                 pci.address.device & 0xff, pci.address.function & 0xf);
}

/* A file of an engine's; 0: there is none. */
static int number_of(const char *folder, const char *engine, const char *file)
{
    char path[FOLDER_BYTES + 64], line[32] = "";
    snprintf(path, sizeof path, "%s/engine/%s/%s", folder, engine, file);
    weft_file_read_line(path, line, sizeof line);
    long number = strtol(line, NULL, 10);
    return number > 0 && number <= INT32_MAX ? (int)number : 0;
}

/* The folder of the card's, in the folder of the PCI device's; 0: it has none. */
static int find_card(char folder[FOLDER_BYTES])
{
    DIR *cards = opendir(folder);
    const struct dirent *entry = NULL;
    while (cards && (entry = readdir(cards)) && strncmp(entry->d_name, "card", 4) != 0)
        ;
    size_t used = strlen(folder);
    if (entry)
        snprintf(folder + used, FOLDER_BYTES - used, "/%.32s", entry->d_name);
    if (cards)
        closedir(cards);
    return entry != NULL;
}

int weft_ze_limit_ms(struct weft_device *device, int ordinal)
{
    static const char *const engines[] = {"rcs0", "ccs0", "ccs1", "ccs2", "ccs3"}; /* that run kernels */
    char folder[FOLDER_BYTES], pci[32];
    int least_ms = 0;
    weft_ze_pci(&device->driver, device->ordinals[ordinal].device, pci, sizeof pci);
    snprintf(folder, sizeof folder, "%.400s/sys/bus/pci/devices/%s/drm", device->root, pci);
    if (!*pci || !find_card(folder))
        return 0;
    for (size_t i = 0; i < sizeof engines / sizeof *engines; i++) {
        int ms = number_of(folder, engines[i], "preempt_timeout_ms");
        ms = ms ? ms : number_of(folder, engines[i], "heartbeat_interval_ms");
        least_ms = ms && (!least_ms || ms < least_ms) ? ms : least_ms;
    }
    return least_ms;
}
