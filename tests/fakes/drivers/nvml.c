/* SPDX-License-Identifier: Apache-2.0 */
/* A fake libnvidia-ml.so.1: GPUs and links as the test sets them in nvml_fake. The structures are laid out as
 * NVML's header has them, written down a second time on purpose. */
#include <stdio.h>
#include <string.h>
#include "tests/fakes/drivers/drivers.h"

struct nvml_fake nvml_fake __attribute__((visibility("default")));

#define API __attribute__((visibility("default")))

typedef struct {
    char busIdLegacy[16];
    unsigned int domain;
    unsigned int bus;
    unsigned int device;
    unsigned int pciDeviceId;
    unsigned int pciSubSystemId;
    char busId[32];
} pci_info;

typedef struct {
    unsigned int fieldId;
    unsigned int scopeId;
    long long timestamp;
    long long latencyUsec;
    int valueType;
    int nvmlReturn;
    union {
        double d;
        unsigned int ui;
        unsigned long long ull;
    } value;
} field_value;

enum { NVML_SUCCESS, NVML_UNINITIALIZED, NVML_INVALID_ARGUMENT, NVML_NOT_SUPPORTED };

API int nvmlInit_v2(void);
API int nvmlShutdown(void);
API int nvmlDeviceGetCount_v2(unsigned *count);
API int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device);
API int nvmlDeviceGetPciInfo_v3(void *device, pci_info *info);
API int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *active);
API int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, pci_info *info);
API int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *type);
API int nvmlDeviceGetNvLinkVersion(void *device, unsigned link, unsigned *version);
API int nvmlDeviceGetFieldValues(void *device, int count, field_value *values);
API int nvmlDeviceGetP2PStatus(void *a, void *b, int capability, unsigned *status);

int nvmlInit_v2(void)
{
    if (nvml_fake.init_result)
        return nvml_fake.init_result;
    nvml_fake.open++;
    return NVML_SUCCESS;
}

int nvmlShutdown(void)
{
    nvml_fake.open--;
    return NVML_SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count)
{
    *count = nvml_fake.gpu_count;
    return nvml_fake.open ? NVML_SUCCESS : NVML_UNINITIALIZED;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device)
{
    *device = &nvml_fake.gpus[index];
    return index < nvml_fake.gpu_count ? NVML_SUCCESS : NVML_INVALID_ARGUMENT;
}

static int set_pci(pci_info *info, const char *pci)
{
    memset(info, 0x5a, sizeof *info); /* what is not set is anything */
    snprintf(info->busId, sizeof info->busId, "%s", pci);
    return NVML_SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(void *device, pci_info *info)
{
    const struct nvml_fake_gpu *gpu = device;
    return set_pci(info, gpu->pci);
}

static const struct nvml_fake_link *link_of(const void *device, unsigned link)
{
    const struct nvml_fake_gpu *gpu = device;
    return link < gpu->link_count ? &gpu->links[link] : NULL;
}

int nvmlDeviceGetNvLinkState(void *device, unsigned link, unsigned *active)
{
    const struct nvml_fake_link *found = link_of(device, link);
    if (!found)
        return NVML_INVALID_ARGUMENT;
    *active = found->is_active;
    return NVML_SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, pci_info *info)
{
    const struct nvml_fake_link *found = link_of(device, link);
    return found && found->remote ? set_pci(info, found->remote) : NVML_NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, unsigned *type)
{
    *type = link_of(device, link)->remote_type;
    return NVML_SUCCESS;
}

int nvmlDeviceGetNvLinkVersion(void *device, unsigned link, unsigned *version)
{
    (void)device;
    (void)link;
    *version = nvml_fake.version;
    return NVML_SUCCESS;
}

int nvmlDeviceGetFieldValues(void *device, int count, field_value *values)
{
    const struct nvml_fake_gpu *gpu = device;
    for (int i = 0; i < count; i++) {
        unsigned number = 0;
        if (values[i].fieldId == 164)
            number = nvml_fake.link_mb_per_s;
        else if (values[i].fieldId == 90)
            number = nvml_fake.common_mb_per_s;
        else if (values[i].fieldId == 170)
            number = gpu->c2c_links;
        else if (values[i].fieldId == 171)
            number = values[i].scopeId < gpu->c2c_links;
        else if (values[i].fieldId == 172)
            number = 45000;
        values[i].nvmlReturn = number ? NVML_SUCCESS : NVML_NOT_SUPPORTED;
        values[i].valueType = 1;
        values[i].value.ull = 0x5a5a5a5a00000000;
        values[i].value.ui = number;
    }
    return NVML_SUCCESS;
}

int nvmlDeviceGetP2PStatus(void *a, void *b, int capability, unsigned *status)
{
    const struct nvml_fake_gpu *x = a, *y = b;
    *status = capability == 2 && x->partition == y->partition ? 0 : 6;
    return NVML_SUCCESS;
}
