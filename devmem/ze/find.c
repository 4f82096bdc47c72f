/* SPDX-License-Identifier: Apache-2.0 */
/* From nothing to drivers and their GPUs. */
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/runtime.h"
#include "base/secure.h"
#include "base/signals.h"
#include "devmem/ze/ze.h"

/* Drivers may install signal handlers as well. */
static ze_result_t start(const struct weft_ze_driver *driver, uint32_t *count, ze_driver_handle_t *drivers)
{
    struct weft_ze_init_drivers wanted = {.stype = (ze_structure_type_t)WEFT_ZE_STYPE_INIT_DRIVERS,
                                          .flags = WEFT_ZE_INIT_GPUS};
    struct weft_signals signals;
    weft_signals_save(&signals);
    ze_result_t result = driver->zeInitDrivers ? driver->zeInitDrivers(count, drivers, &wanted)
                                               : driver->zeInit(ZE_INIT_FLAG_GPU_ONLY);
    weft_signals_restore(&signals);
    if (result == ZE_RESULT_SUCCESS && !driver->zeInitDrivers)
        result = driver->zeDriverGet(count, drivers);
    return result;
}

/* The first group that computes and copies; every GPU has one. */
static uint32_t find_group(const struct weft_ze_driver *driver, ze_device_handle_t device,
                           uint32_t *last_index)
{
    enum { GROUPS = 16 };
    const ze_command_queue_group_property_flags_t both =
        ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COMPUTE | ZE_COMMAND_QUEUE_GROUP_PROPERTY_FLAG_COPY;
    ze_command_queue_group_properties_t groups[GROUPS];
    uint32_t count = GROUPS;
    for (int i = 0; i < GROUPS; i++)
        groups[i] =
            (ze_command_queue_group_properties_t){.stype = ZE_STRUCTURE_TYPE_COMMAND_QUEUE_GROUP_PROPERTIES};
    if (driver->zeDeviceGetCommandQueueGroupProperties(device, &count, groups) != ZE_RESULT_SUCCESS)
        return 0;
    for (uint32_t i = 0; i < count && i < GROUPS; i++) {
        if ((groups[i].flags & both) != both)
            continue;
        *last_index = groups[i].numQueues ? groups[i].numQueues - 1 : 0;
        return i;
    }
    return 0;
}

/* Whether its memory can be given to others as a dma-buf, and taken from them. */
static void find_external(const struct weft_ze_driver *driver, struct weft_ze_ordinal *ordinal)
{
    ze_device_external_memory_properties_t external = {
        .stype = ZE_STRUCTURE_TYPE_DEVICE_EXTERNAL_MEMORY_PROPERTIES};
    if (driver->zeDeviceGetExternalMemoryProperties(ordinal->device, &external) != ZE_RESULT_SUCCESS)
        return;
    ordinal->exports = (external.memoryAllocationExportTypes & ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF) != 0;
    ordinal->imports = (external.memoryAllocationImportTypes & ZE_EXTERNAL_MEMORY_TYPE_FLAG_DMA_BUF) != 0;
}

/* A tile whose uuid is not known has none. */
static void find_tiles(const struct weft_ze_driver *driver, struct weft_ze_ordinal *ordinal)
{
    ordinal->tile_count = WEFT_ZE_TILES_MAX;
    if (driver->zeDeviceGetSubDevices(ordinal->device, &ordinal->tile_count, ordinal->tiles) !=
        ZE_RESULT_SUCCESS)
        ordinal->tile_count = 0;
    if (ordinal->tile_count > WEFT_ZE_TILES_MAX)
        ordinal->tile_count = WEFT_ZE_TILES_MAX;
    for (uint32_t t = 0; t < ordinal->tile_count; t++) {
        ze_device_properties_t tile = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
        if (driver->zeDeviceGetProperties(ordinal->tiles[t], &tile) == ZE_RESULT_SUCCESS)
            memcpy(ordinal->tile_uuids[t], tile.uuid.id, sizeof ordinal->tile_uuids[t]);
    }
}

/* One GPU, with what never changes of it. */
static void add_device(struct weft_device *device, int place, ze_device_handle_t found,
                       const ze_device_properties_t *properties)
{
    struct weft_ze_ordinal *added = &device->ordinals[device->count++];
    memset(added, 0, sizeof *added);
    added->device = found;
    added->place = place;
    memcpy(added->uuid, properties->uuid.id, sizeof added->uuid);
    added->group = find_group(&device->driver, found, &added->last_index);
    find_tiles(&device->driver, added);
    find_external(&device->driver, added);
}

/* The GPUs of one driver, behind those of the others. A driver without any gets no context.
 *
 * Other libraries, as libfabric, know the first driver's devices only, and number all that its list has. */
static int add_devices(struct weft_device *device, ze_driver_handle_t from, int is_first,
                       char text[WEFT_ZE_TEXT])
{
    const struct weft_ze_driver *driver = &device->driver;
    const ze_context_desc_t plain = {.stype = ZE_STRUCTURE_TYPE_CONTEXT_DESC};
    ze_device_handle_t found[WEFT_ZE_ORDINALS_MAX];
    uint32_t count = WEFT_ZE_ORDINALS_MAX;
    int before = device->count;
    struct weft_ze_place *place = &device->places[device->place_count];
    ze_result_t result = driver->zeDeviceGet(from, &count, found);
    if (result != ZE_RESULT_SUCCESS)
        return weft_ze_word(result, text, "asking for devices");
    for (uint32_t i = 0; i < count && device->count < WEFT_ZE_ORDINALS_MAX; i++) {
        ze_device_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES};
        result = driver->zeDeviceGetProperties(found[i], &properties);
        if (result != ZE_RESULT_SUCCESS) {
            device->count = before;
            return weft_ze_word(result, text, "asking for device %u", i);
        }
        if (properties.type != ZE_DEVICE_TYPE_GPU)
            continue;
        int is_unlisted = !is_first || i != (uint32_t)device->count;
        add_device(device, device->place_count, found[i], &properties);
        device->ordinals[device->count - 1].is_unlisted = is_unlisted;
    }
    if (device->count == before)
        return WEFT_OK;
    *place = (struct weft_ze_place){.driver = from};
    result = driver->zeContextCreate(from, &plain, &place->context);
    if (result != ZE_RESULT_SUCCESS) {
        device->count = before;
        return weft_ze_word(result, text, "making a context");
    }
    device->place_count++;
    return WEFT_OK;
}

/* With the lock, and the functions. */
static int initialise(struct weft_device *device, char text[WEFT_ZE_TEXT])
{
    ze_driver_handle_t drivers[WEFT_ZE_DRIVERS_MAX];
    uint32_t count = WEFT_ZE_DRIVERS_MAX;
    ze_result_t result = start(&device->driver, &count, drivers);
    if (result == ZE_RESULT_ERROR_UNINITIALIZED) {
        const char *named = weft_secure_getenv("ZE_ENABLE_ALT_DRIVERS");
        snprintf(text, WEFT_ZE_TEXT, "%s finds no driver that works: %s%.80s", WEFT_RUNTIME_ZE,
                 named ? "ZE_ENABLE_ALT_DRIVERS names "
                       : "none is installed, or none could start: is /dev/dri there, and open to this user?",
                 named ? named : "");
        return WEFT_NOT_FOUND;
    }
    if (result != ZE_RESULT_SUCCESS) {
        int status = weft_ze_word(result, text, "starting the drivers of %s", WEFT_RUNTIME_ZE);
        return status == WEFT_NOMEM ? status : WEFT_NOT_FOUND;
    }
    /* A driver that fails does not stand in the way of the others. */
    int failed = WEFT_OK;
    for (uint32_t i = 0; i < count; i++) {
        int status = add_devices(device, drivers[i], i == 0, text);
        failed = status != WEFT_OK ? status : failed;
    }
    if (device->count == 0 && failed == WEFT_OK) {
        snprintf(text, WEFT_ZE_TEXT, "%s has %u driver%s, and no GPU", WEFT_RUNTIME_ZE, count,
                 count == 1 ? "" : "s");
        return WEFT_NOT_FOUND;
    }
    if (device->count == 0)
        return failed;
    if (failed != WEFT_OK)
        device->params.log(WEFT_DEVICE_LOG_WARN, "a driver of Level Zero is left out: %s", text);
    atomic_store_explicit(&device->level, WEFT_ZE_READY, memory_order_release);
    return WEFT_OK;
}

static int is_ready(struct weft_device *device)
{
    return atomic_load_explicit(&device->level, memory_order_acquire) == WEFT_ZE_READY;
}

int weft_ze_ready(struct weft_device *device)
{
    char text[WEFT_ZE_TEXT];
    if (device->pid != getpid() || weft_fork_is_child())
        return device->params.fail(WEFT_INVALID, "Level Zero cannot be used in a child forked from a process "
                                                 "that used it");
    if (is_ready(device))
        return WEFT_OK;
    pthread_mutex_lock(&device->lock);
    int status = is_ready(device) ? 1 : weft_ze_driver_load(&device->driver, text, sizeof text);
    if (status == 1)
        status = is_ready(device) ? WEFT_OK : initialise(device, text);
    pthread_mutex_unlock(&device->lock);
    return status == WEFT_OK ? WEFT_OK : device->params.fail(status, "%s", text);
}

/* What the linker has loaded: how often it has, and whether a driver is among it, which the loader gets when somebody initialises it. */
struct loaded {
    unsigned long long loads;
    int has_driver;
    const char *others; /* drivers that the user names */
};

static int look_at(struct dl_phdr_info *info, size_t size, void *arg)
{
    static const char *const none[] = {"libze_loader.", "libze_validation_", "libze_tracing_"};
    struct loaded *loaded = arg;
    const char *name = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
    int is_driver = name && strncmp(++name, "libze_", 6) == 0;
    (void)size;
    loaded->loads = info->dlpi_adds;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        is_driver = is_driver && strncmp(name, none[i], strlen(none[i])) != 0;
    loaded->has_driver |= is_driver || (name && loaded->others && strstr(loaded->others, name));
    return 0;
}

/* The first record is enough for the count. */
static int count_loads(struct dl_phdr_info *info, size_t size, void *loads)
{
    (void)size;
    *(unsigned long long *)loads = info->dlpi_adds;
    return 1;
}

int weft_ze_find(struct weft_device *device)
{
    char text[WEFT_ZE_TEXT];
    unsigned long long loads = 0;
    struct loaded loaded = {.others = getenv("ZE_ENABLE_ALT_DRIVERS")};
    if (is_ready(device))
        return device->pid == getpid();
    dl_iterate_phdr(count_loads, &loads);
    if (loads == atomic_load_explicit(&device->library_loads, memory_order_acquire) ||
        device->pid != getpid() || weft_fork_is_child())
        return 0;
    pthread_mutex_lock(&device->lock);
    dl_iterate_phdr(look_at, &loaded);
    if (!is_ready(device) && loaded.has_driver &&
        weft_ze_driver_find(&device->driver, text, sizeof text) == 1 && initialise(device, text) != WEFT_OK)
        device->params.log(WEFT_DEVICE_LOG_INFO, "memory of Level Zero is taken for host memory: %s", text);
    atomic_store_explicit(&device->library_loads, loaded.loads, memory_order_release);
    pthread_mutex_unlock(&device->lock);
    return is_ready(device);
}

int weft_ze_check(struct weft_device *device, int ordinal)
{
    int status = weft_ze_ready(device);
    if (status == WEFT_OK && (ordinal < 0 || ordinal >= device->count))
        return device->params.fail(WEFT_INVALID, "there is no Level Zero device %d, there are %d", ordinal,
                                   device->count);
    return status;
}
