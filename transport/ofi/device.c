/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory: libfabric's FI_HMEM, by the pointer or as a dma-buf.
 *
 * libfabric wants to know whose memory it is (an interface, as it calls a kind of device), as providers may copy by the device's
 * library where their hardware cannot reach it. So both ways need a domain that was opened with FI_HMEM, and a kind that
 * libfabric has a name for. It also wants the device's number, as it counts them. Of Level Zero that is the place in the
 * list of the first driver, with the driver's number in the bits above the lowest 16; it uses no other driver, and releases do not
 * check that. So what it would take for another device is refused here (WEFT_SPAN_OWN_ORDINAL).
 *
 * dma-bufs came with libfabric 1.20: FI_MR_DMABUF, and struct fi_mr_dmabuf in place of the iovec of struct fi_mr_attr
 * (fi_mr(3)). Older headers lack both, so they are written down here, and compared with the headers that have them. struct
 * fi_mr_attr has grown at its end since 1.17; what is passed has zeros there.
 */
#include <stdlib.h>
#include <string.h>
#include <weft/device.h>
#include "base/error.h"
#include "transport/ofi/ofi_private.h"

#define MR_DMABUF (1ULL << 40)

struct mr_dmabuf {
    int fd;
    uint64_t offset; /* of the region in the dma-buf, and in base_addr */
    size_t len;
    void *base_addr;
};

#ifdef FI_MR_DMABUF
_Static_assert(FI_MR_DMABUF == MR_DMABUF && sizeof(struct fi_mr_dmabuf) == sizeof(struct mr_dmabuf) &&
                   offsetof(struct fi_mr_dmabuf, fd) == offsetof(struct mr_dmabuf, fd) &&
                   offsetof(struct fi_mr_dmabuf, offset) == offsetof(struct mr_dmabuf, offset) &&
                   offsetof(struct fi_mr_dmabuf, len) == offsetof(struct mr_dmabuf, len) &&
                   offsetof(struct fi_mr_dmabuf, base_addr) == offsetof(struct mr_dmabuf, base_addr) &&
                   offsetof(struct fi_mr_attr, dmabuf) == offsetof(struct fi_mr_attr, mr_iov),
               "as this file has it");
#endif

/* struct fi_mr_attr of any version. */
union mr_attr {
    struct fi_mr_attr attr;
    uint8_t room[512];
};

/* -1: libfabric has no name for it. */
static int interface_of(const char *kind)
{
    static const struct {
        const char *kind;
        enum fi_hmem_iface interface;
    } known[] = {{"cuda", FI_HMEM_CUDA},
                 {"rocr", FI_HMEM_ROCR},
                 {"ze", FI_HMEM_ZE},
                 {"neuron", FI_HMEM_NEURON},
                 {"synapseai", FI_HMEM_SYNAPSEAI}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].kind, kind) == 0)
            return known[i].interface;
    }
    return -1;
}

int ofi_has_dmabufs(const struct weft_transport *transport)
{
    return FI_VERSION_GE(transport->library->version(), FI_VERSION(1, 20));
}

static int check(const struct weft_transport *transport, const struct weft_device_memory *memory)
{
    const char *provider = transport->info->fabric_attr->prov_name;
    if (transport->broken)
        return weft_fail(WEFT_TRANSPORT, "%s", transport->why);
    if (!transport->takes_devices)
        return weft_fail(WEFT_UNSUPPORTED, "ofi: provider %s was not opened for device memory", provider);
    if (interface_of(memory->kind) < 0)
        return weft_fail(WEFT_UNSUPPORTED, "ofi: libfabric does not know devices of kind %s", memory->kind);
    if (memory->flags & WEFT_SPAN_OWN_ORDINAL)
        return weft_fail(WEFT_UNSUPPORTED, "ofi: libfabric does not have %s:%d by this number", memory->kind,
                         (int)memory->ordinal);
    if (memory->fd >= 0 && !ofi_has_dmabufs(transport))
        return weft_fail(WEFT_UNSUPPORTED, "ofi: libfabric takes dma-bufs from 1.20 on");
    if (!FI_CHECK_OP(transport->domain->mr, struct fi_ops_mr, regattr))
        return weft_fail(WEFT_UNSUPPORTED, "ofi: provider %s registers ordinary memory only", provider);
    return WEFT_OK;
}

static int device_register(struct weft_transport *transport, const struct weft_device_memory *memory,
                           struct fid_mr **result)
{
    struct iovec place = {memory->memory, memory->bytes};
    struct mr_dmabuf dmabuf = {memory->fd, memory->offset, memory->bytes,
                               (uint8_t *)memory->memory - memory->offset};
    int is_dmabuf = memory->fd >= 0;
    union mr_attr any;
    struct fid_mr *mr;
    memset(&any, 0, sizeof any);
    any.attr.mr_iov = is_dmabuf ? (const struct iovec *)(const void *)&dmabuf : &place;
    any.attr.iov_count = 1;
    any.attr.access = ofi_region_access(transport);
    any.attr.requested_key = ofi_next_key(transport);
    any.attr.iface = (enum fi_hmem_iface)interface_of(memory->kind);
    any.attr.device.reserved = (uint32_t)memory->ordinal;
    int error = fi_mr_regattr(transport->domain, &any.attr, is_dmabuf ? MR_DMABUF : 0, &mr);
    if (error)
        return weft_fail(error == -FI_ENOMEM ? WEFT_NOMEM : WEFT_UNSUPPORTED,
                         "ofi: provider %s cannot register %llu bytes of %s:%d %s: %s",
                         transport->info->fabric_attr->prov_name, (unsigned long long)memory->bytes,
                         memory->kind, (int)memory->ordinal, is_dmabuf ? "as a dma-buf" : "by their pointer",
                         transport->library->strerror(-error));
    int status = ofi_register_end(transport, mr, (size_t)memory->bytes);
    if (!status)
        *result = mr;
    return status;
}

int ofi_reg_device(struct weft_transport *transport, const struct weft_device_memory *memory,
                   struct weft_region **result)
{
    int status = check(transport, memory);
    if (status)
        return status;
    struct weft_region *region = calloc(1, sizeof *region);
    if (!region)
        return weft_fail(WEFT_NOMEM, "ofi: no memory for a region");
    region->transport = transport;
    region->memory = memory->memory;
    region->size = memory->bytes;
    region->is_device = 1;
    status = device_register(transport, memory, &region->mr);
    if (status) {
        free(region);
        return status;
    }
    ofi_region_add(transport, region);
    *result = region;
    return WEFT_OK;
}
