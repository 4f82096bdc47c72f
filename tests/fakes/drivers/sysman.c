/* SPDX-License-Identifier: Apache-2.0 */
/* A fake libze_loader.so.1: one driver, with GPUs and fabric ports as the test sets them in sysman_fake. The
 * structures are laid out as the specification has them, written down a second time on purpose. */
#include <string.h>
#include "tests/fakes/drivers/drivers.h"

struct sysman_fake sysman_fake __attribute__((visibility("default")));

#define API __attribute__((visibility("default")))

typedef struct {
    int stype;
    void *pNext;
    uint32_t domain, bus, device, function;
    int32_t gen, width;
    int64_t maxBandwidth;
    uint8_t haveBandwidthCounters, havePacketCounters, haveReplayCounters;
} pci_properties;

typedef struct {
    uint32_t fabricId;
    uint32_t attachId;
    uint8_t portNumber;
} port_id;

typedef struct {
    int64_t bitRate;
    int32_t width;
} port_speed;

typedef struct {
    int stype;
    void *pNext;
    char model[256];
    uint8_t onSubdevice;
    uint32_t subdeviceId;
    port_id portId;
    port_speed maxRxSpeed;
    port_speed maxTxSpeed;
} port_properties;

typedef struct {
    int stype;
    const void *pNext;
    int status;
    uint32_t qualityIssues;
    uint32_t failureReasons;
    port_id remotePortId;
    port_speed rxSpeed;
    port_speed txSpeed;
} port_state;

typedef struct {
    int stype;
    void *pNext;
    int type;
    uint32_t vendorId, deviceId, flags, subdeviceId, coreClockRate;
    uint64_t maxMemAllocSize;
    uint32_t maxHardwareContexts, maxCommandQueuePriority, numThreadsPerEU, physicalEUSimdWidth;
    uint32_t numEUsPerSubslice, numSubslicesPerSlice, numSlices;
    uint64_t timerResolution;
    uint32_t timestampValidBits, kernelTimestampValidBits;
    uint8_t uuid[16];
    char name[256];
} core_properties;

typedef struct {
    int stype;
    void *pNext;
    core_properties core;
    uint32_t numSubdevices;
    char serialNumber[64], boardNumber[64], brandName[64], modelName[64], vendorName[64], driverVersion[64];
} device_properties;

typedef struct {
    int stype;
    void *pNext;
    int type;
    uint8_t onSubdevice;
    uint32_t subdeviceId;
    int location;
    uint64_t physicalSize;
    int32_t busWidth, numChannels;
} memory_properties;

enum { ZE_SUCCESS, ZE_BAD_STRUCTURE = 0x78000004 };

/* A loader from before zesInit() has the compute runtime's calls in place of its; the rest is Sysman's in both. */
#ifdef SYSMAN_FAKE_OLD
#define init        zeInit
#define get_drivers zeDriverGet
#define get_devices zeDeviceGet
#else
#define init        zesInit
#define get_drivers zesDriverGet
#define get_devices zesDeviceGet
#endif
API int init(uint32_t flags);
API int get_drivers(uint32_t *count, void **drivers);
API int get_devices(void *driver, uint32_t *count, void **devices);
API int zesDevicePciGetProperties(void *device, pci_properties *properties);
API int zesDeviceGetProperties(void *device, device_properties *properties);
API int zesDeviceEnumMemoryModules(void *device, uint32_t *count, void **memories);
API int zesMemoryGetProperties(void *memory, memory_properties *properties);
API int zesDeviceEnumFabricPorts(void *device, uint32_t *count, void **ports);
API int zesFabricPortGetProperties(void *port, port_properties *properties);
API int zesFabricPortGetState(void *port, port_state *state);

int init(uint32_t flags)
{
    sysman_fake.init_count++;
    return flags ? ZE_BAD_STRUCTURE : sysman_fake.init_result;
}

/* How many, or at most *count of them. */
static int fill(uint32_t *count, void **handles, char *first, size_t size, uint32_t have)
{
    if (!handles) {
        *count = have;
        return ZE_SUCCESS;
    }
    if (*count > have)
        *count = have;
    for (uint32_t i = 0; i < *count; i++)
        handles[i] = first + i * size;
    return ZE_SUCCESS;
}

int get_drivers(uint32_t *count, void **drivers)
{
    return fill(count, drivers, (char *)&sysman_fake, sizeof sysman_fake, 1);
}

int get_devices(void *driver, uint32_t *count, void **devices)
{
    (void)driver;
    return fill(count, devices, (char *)sysman_fake.gpus, sizeof *sysman_fake.gpus, sysman_fake.gpu_count);
}

int zesDevicePciGetProperties(void *device, pci_properties *properties)
{
    const struct sysman_fake_gpu *gpu = device;
    if (properties->stype != 0x2 || properties->pNext)
        return ZE_BAD_STRUCTURE;
    properties->domain = 0;
    properties->bus = gpu->bus;
    properties->device = properties->function = 0;
    return ZE_SUCCESS;
}

int zesDeviceGetProperties(void *device, device_properties *properties)
{
    const struct sysman_fake_gpu *gpu = device;
    if (properties->stype != 0x1 || properties->pNext || properties->core.stype != 0x3 ||
        properties->core.pNext)
        return ZE_BAD_STRUCTURE;
    properties->core.type = (int)gpu->type;
    memset(properties->core.name, 0, sizeof properties->core.name);
    if (gpu->name)
        memcpy(properties->core.name, gpu->name, strlen(gpu->name));
    memset(properties->core.uuid, 0, sizeof properties->core.uuid);
    properties->core.uuid[0] = gpu->uuid_first;
    properties->numSubdevices = gpu->tiles;
    return ZE_SUCCESS;
}

/* Two of the device's, and one of the host's, which is not counted. */
int zesDeviceEnumMemoryModules(void *device, uint32_t *count, void **memories)
{
    struct sysman_fake_gpu *gpu = device;
    return fill(count, memories, (char *)gpu, 1, gpu->memory_bytes ? 3 : 0);
}

/* Handles are the first bytes of the GPU. */
int zesMemoryGetProperties(void *memory, memory_properties *properties)
{
    size_t at = (size_t)((char *)memory - (char *)sysman_fake.gpus);
    const struct sysman_fake_gpu *gpu = &sysman_fake.gpus[at / sizeof *gpu];
    if (properties->stype != 0xb || properties->pNext)
        return ZE_BAD_STRUCTURE;
    properties->location = at % sizeof *gpu < 2;
    properties->physicalSize = gpu->memory_bytes;
    return ZE_SUCCESS;
}

int zesDeviceEnumFabricPorts(void *device, uint32_t *count, void **ports)
{
    struct sysman_fake_gpu *gpu = device;
    return fill(count, ports, (char *)gpu->ports, sizeof *gpu->ports, gpu->port_count);
}

int zesFabricPortGetProperties(void *port, port_properties *properties)
{
    const struct sysman_fake_port *given = port;
    if (properties->stype != 0x6 || properties->pNext)
        return ZE_BAD_STRUCTURE;
    memset(properties->model, 'x', sizeof properties->model);
    properties->portId = (port_id){given->fabric, given->attach, given->number};
    properties->maxRxSpeed = properties->maxTxSpeed = (port_speed){given->bits_per_s, given->lanes};
    return ZE_SUCCESS;
}

int zesFabricPortGetState(void *port, port_state *state)
{
    const struct sysman_fake_port *given = port;
    if (state->stype != 0x19 || state->pNext)
        return ZE_BAD_STRUCTURE;
    state->status = (int)given->status;
    state->remotePortId = (port_id){given->remote_fabric, given->remote_attach, given->remote_number};
    state->rxSpeed = state->txSpeed = (port_speed){-1, -1};
    return ZE_SUCCESS;
}
