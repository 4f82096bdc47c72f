/* SPDX-License-Identifier: Apache-2.0 */
/* Fabric objects, registered memory, and the two pools of frame buffers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/resource.h>
#include "base/environment.h"
#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "transport/ofi/ofi_private.h"

#define CHUNK_BUFFERS 16

/* Providers report a limit on locked memory in different ways, and say the same when a malloc() of theirs has failed. */
const char *ofi_limit_reached(const struct weft_transport *transport, int error, size_t registering,
                              char *text, size_t size)
{
    struct rlimit limit;
    struct weft_limits_locked locked;
    text[0] = '\0';
    /* Some have other words for it that no descriptor is left. */
    int descriptors = error == -FI_EMFILE || error == -ENFILE || (!registering && weft_limits_descriptors());
    if (descriptors && getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        unsigned strangers = ofi_strangers_connected(transport);
        int used = snprintf(text, size, "; the limit is %llu file descriptors, raise it with ulimit -n",
                            (unsigned long long)limit.rlim_cur);
        if (strangers && used > 0 && (size_t)used < size)
            snprintf(text + used, size - (size_t)used,
                     "; %u of them are connections to this rank's listener of libfabric on which nobody has "
                     "proven the job's secret (docs/security.md)",
                     strangers);
    }
    if (!descriptors && registering &&
        (error == -FI_ENOMEM || error == -FI_EAGAIN || error == -FI_EPERM || error == -FI_EIO) &&
        weft_limits_locked(registering, &locked))
        snprintf(text, size, "; the limit is %llu KiB of locked memory, raise it with ulimit -l",
                 (unsigned long long)locked.limit / 1024);
    return text;
}

/* registering: bytes, 0 for anything else. */
static int failed_with(const struct weft_transport *transport, const char *what, int error,
                       size_t registering)
{
    char limit[OFI_LIMIT_TEXT];
    return weft_fail(WEFT_TRANSPORT, "ofi: %s of provider %s: %s%s", what,
                     transport->info->fabric_attr->prov_name, transport->library->strerror(-error),
                     ofi_limit_reached(transport, error, registering, limit, sizeof limit));
}

static int failed(const struct weft_transport *transport, const char *what, int error)
{
    return failed_with(transport, what, error, 0);
}

/* ofi_rxm takes completion entries for as many peers as FI_UNIVERSE_SIZE says, whatever the device has, and no
 * call of libfabric's changes that. */
static int failed_enabling(const struct weft_transport *transport, int error)
{
    int is_queue = (error == -FI_EINVAL || error == -FI_ENOMEM) &&
                   strcmp(transport->info->fabric_attr->prov_name, "verbs;ofi_rxm") == 0;
    if (!is_queue)
        return failed(transport, "enabling the endpoint", error);
    return weft_fail(
        WEFT_TRANSPORT,
        "ofi: enabling verbs;ofi_rxm on device %s: %s; set FI_UNIVERSE_SIZE to the number of ranks: "
        "256 completion entries each may be more than the device has",
        transport->info->domain_attr->name, transport->library->strerror(-error));
}

/* What the provider reports decides everything else. */
static void read_capabilities(struct weft_transport *transport)
{
    const struct fi_info *info = transport->info;
    int mr_mode = info->domain_attr->mr_mode;
    /* Matching in order is not enough: a long message of tcp;ofi_rxm completes after a later short one. */
    transport->ordered = (info->tx_attr->msg_order & FI_ORDER_SAS) != 0 &&
                         (info->rx_attr->msg_order & FI_ORDER_SAS) != 0 &&
                         (info->rx_attr->comp_order & (FI_ORDER_STRICT | FI_ORDER_DATA)) != 0;
    transport->use_rma = (info->caps & FI_RMA) != 0 && info->domain_attr->cq_data_size >= 4;
    uint64_t mode = info->mode | info->rx_attr->mode | info->tx_attr->mode;
    transport->data_buffers = transport->use_rma && (mode & FI_RX_CQ_DATA) != 0;
    transport->prefix = mode & FI_MSG_PREFIX ? info->ep_attr->msg_prefix_size : 0;
    transport->local_mr = (mr_mode & FI_MR_LOCAL) != 0;
    transport->address_keys = (mr_mode & FI_MR_VIRT_ADDR) != 0;
    transport->own_keys = !(mr_mode & (FI_MR_PROV_KEY | FI_MR_ENDPOINT | FI_MR_LOCAL | FI_MR_ALLOCATED));
    transport->inject_bytes = info->tx_attr->inject_size;
    size_t largest = info->ep_attr->max_msg_size;
    transport->frame_bytes = largest < OFI_FRAME_BYTES ? largest & ~(size_t)7 : OFI_FRAME_BYTES;
    if (transport->inject_bytes > transport->frame_bytes)
        transport->inject_bytes = transport->frame_bytes;
    transport->put_bytes = largest < 1u << 30 ? largest : 1u << 30;
    transport->sends_limit = OFI_WINDOW;
    transport->wide_keys = info->domain_attr->mr_key_size >= 8;
    transport->fragile = strcmp(info->fabric_attr->prov_name, "verbs;ofi_rxm") == 0;
    transport->wide_data = info->domain_attr->cq_data_size >= 8;
    transport->takes_devices = (info->caps & FI_HMEM) != 0;
    weft_log(WEFT_LOG_INFO,
             "ofi: provider %s, domain %s: %s, puts by %s, %s keys, inject %zu, message %zu, prefix %zu",
             info->fabric_attr->prov_name, info->domain_attr->name ? info->domain_attr->name : "?",
             transport->ordered ? "ordered" : "unordered", transport->use_rma ? "write" : "tagged message",
             transport->own_keys ? "own" : "provider's", transport->inject_bytes, transport->frame_bytes,
             transport->prefix);
}

static int open_queue(struct weft_transport *transport)
{
    struct fi_info *info = transport->info;
    size_t depth = info->tx_attr->size + info->rx_attr->size;
    struct fi_cq_attr attr = {
        .size = depth < 64      ? 64
                : depth > 65536 ? 65536
                                : depth,
        .format = FI_CQ_FORMAT_DATA,
        .wait_obj = FI_WAIT_FD,
    };
    int error = fi_cq_open(transport->domain, &attr, &transport->cq, NULL);
    if (!error && fi_control(&transport->cq->fid, FI_GETWAIT, &transport->wait_fd) != 0)
        transport->wait_fd = -1;
    if (!error)
        return WEFT_OK;
    attr.wait_obj = FI_WAIT_NONE;
    transport->wait_fd = -1;
    error = fi_cq_open(transport->domain, &attr, &transport->cq, NULL);
    return error ? failed(transport, "completion queue", error) : WEFT_OK;
}

static int open_endpoint(struct weft_transport *transport)
{
    struct fi_info *info = transport->info;
    struct fi_av_attr attr = {.type = info->domain_attr->av_type};
    int error = fi_av_open(transport->domain, &attr, &transport->av, NULL);
    if (error)
        return failed(transport, "address vector", error);
    error = fi_endpoint(transport->domain, info, &transport->ep, NULL);
    if (error)
        return failed(transport, "endpoint", error);
    error = fi_ep_bind(transport->ep, &transport->av->fid, 0);
    if (!error)
        error = fi_ep_bind(transport->ep, &transport->cq->fid, FI_TRANSMIT | FI_RECV);
    if (!error)
        error = fi_enable(transport->ep);
    return error ? failed_enabling(transport, error) : WEFT_OK;
}

/* With shared receive contexts ofi_rxm 1.17 over verbs reports a write with data as a message (of garbage), so that
 * nobody learns of it. */
static int check_receives(const struct weft_transport *transport)
{
    const char *shared = weft_environment_get("FI_OFI_RXM_USE_SRX");
    if (!transport->fragile || !shared || !strchr("1oOtTyY", *shared) || strcasecmp(shared, "off") == 0 ||
        !FI_VERSION_LT(transport->library->version(), FI_VERSION(1, 18)))
        return WEFT_OK;
    return weft_fail(
        WEFT_UNSUPPORTED,
        "ofi: FI_OFI_RXM_USE_SRX=%s: with it verbs;ofi_rxm of libfabric 1.17 loses notices of writes; "
        "unset it",
        shared);
}

int ofi_endpoint_open(struct weft_transport *transport)
{
    read_capabilities(transport);
    int status = check_receives(transport);
    if (status)
        return status;
    transport->scratch = aligned_alloc(64, (transport->prefix + transport->inject_bytes + 127) & ~(size_t)63);
    if (!transport->scratch)
        return weft_fail(WEFT_NOMEM, "ofi: no memory for an instance");
    memset(transport->scratch, 0, (transport->prefix + transport->inject_bytes + 127) & ~(size_t)63);
    int error = transport->library->fabric(transport->info->fabric_attr, &transport->fabric, NULL);
    if (error)
        return failed(transport, "fabric", error);
    error = fi_domain(transport->fabric, transport->info, &transport->domain, NULL);
    if (error)
        return failed(transport, "domain", error);
    status = open_queue(transport);
    if (!status)
        status = open_endpoint(transport);
    if (!status)
        status = ofi_receives_grow(transport, OFI_SPARE_BUFFERS);
    return status;
}

/* Closing an endpoint of ofi_rxm while a write into this process is half done crashes inside libfabric (1.17,
 * over tcp). Software progresses only when we drive it, so leaving it alone is as good; it is never freed then. A
 * device goes on by itself, but not without registrations. */
void ofi_endpoint_stop(struct weft_transport *transport)
{
    transport->unclosed = strstr(transport->info->fabric_attr->prov_name, "ofi_rxm") != NULL;
    if (!transport->unclosed)
        fi_close(&transport->ep->fid);
    transport->ep = NULL;
    for (struct weft_region *region = transport->regions; transport->unclosed && region;
         region = region->next) {
        if (region->mr)
            fi_close(&region->mr->fid);
        region->mr = NULL;
    }
}

void ofi_endpoint_close(struct weft_transport *transport)
{
    if (transport->ep && transport->fragile && transport->receives) /* it could be enabled */
        ofi_queue_settle(transport);
    if (transport->ep)
        fi_close(&transport->ep->fid);
    while (transport->chunks) {
        struct ofi_chunk *chunk = transport->chunks;
        transport->chunks = chunk->next;
        if (chunk->mr)
            fi_close(&chunk->mr->fid);
        free(chunk->memory);
        free(chunk);
    }
    if (transport->av)
        fi_close(&transport->av->fid);
    if (transport->cq)
        fi_close(&transport->cq->fid);
    if (transport->domain)
        fi_close(&transport->domain->fid);
    if (transport->fabric)
        fi_close(&transport->fabric->fid);
    if (transport->info)
        transport->library->freeinfo(transport->info);
    free(transport->scratch);
}

int ofi_register_end(struct weft_transport *transport, struct fid_mr *mr, size_t size)
{
    if (!(transport->info->domain_attr->mr_mode & FI_MR_ENDPOINT))
        return WEFT_OK;
    int error = fi_mr_bind(mr, &transport->ep->fid, 0);
    if (!error)
        error = fi_mr_enable(mr);
    if (!error)
        return WEFT_OK;
    fi_close(&mr->fid);
    return failed_with(transport, "enabling registered memory", error, size);
}

int ofi_register(struct weft_transport *transport, const void *memory, size_t size, uint64_t access,
                 uint64_t key, struct fid_mr **result)
{
    struct fid_mr *mr;
    if (transport->broken)
        return weft_fail(WEFT_TRANSPORT, "%s", transport->why);
    int error = fi_mr_reg(transport->domain, memory, size, access, 0, key, 0, &mr, NULL);
    if (error ==
        -FI_EFAULT) /* whatever the access that is asked for: libfabric's own cache registers for all */
        return weft_fail(
            WEFT_INVALID,
            "ofi: provider %s cannot register %zu bytes at %p: there is no such memory, or it is "
            "read-only",
            transport->info->fabric_attr->prov_name, size, memory);
    if (error)
        return failed_with(transport, "registering memory", error, size);
    int status = ofi_register_end(transport, mr, size);
    if (!status)
        *result = mr;
    return status;
}

uint64_t ofi_next_key(struct weft_transport *transport)
{
    uint64_t key = 1u << 31 | transport->next_key++; /* unique in its lower half */
    return transport->wide_keys ? ofi_random(transport) << 32 | key : key;
}

uint64_t ofi_region_access(const struct weft_transport *transport)
{
    return transport->use_rma ? FI_WRITE | FI_REMOTE_WRITE : FI_SEND | FI_RECV;
}

void ofi_region_add(struct weft_transport *transport, struct weft_region *region)
{
    region->next = transport->regions;
    if (region->next)
        region->next->previous = region;
    transport->regions = region;
}

int ofi_reg(struct weft_transport *transport, void *memory, size_t size, struct weft_region **result)
{
    if (!memory || !size)
        return weft_fail(WEFT_INVALID, "ofi: cannot register %zu bytes at %p", size, memory);
    struct weft_region *region = calloc(1, sizeof *region);
    if (!region)
        return weft_fail(WEFT_NOMEM, "ofi: no memory for a region");
    region->transport = transport;
    region->memory = memory;
    region->size = size;
    int status = WEFT_OK;
    /* Where advertise() registers on its own and local buffers need nothing, a region has nothing to do. */
    if (!transport->own_keys)
        status = ofi_register(transport, memory, size, ofi_region_access(transport), ofi_next_key(transport),
                              &region->mr);
    if (status) {
        free(region);
        return status;
    }
    ofi_region_add(transport, region);
    *result = region;
    return WEFT_OK;
}

void ofi_dereg(struct weft_region *region)
{
    if (!region)
        return;
    if (region->mr)
        fi_close(&region->mr->fid);
    if (region->previous)
        region->previous->next = region->next;
    else
        region->transport->regions = region->next;
    if (region->next)
        region->next->previous = region->previous;
    free(region);
}

/* Allocates CHUNK_BUFFERS buffers and lists them. */
static int chunk_add(struct weft_transport *transport, enum ofi_op_kind kind, struct ofi_buffer **list)
{
    size_t stride = (transport->prefix + transport->frame_bytes + 127) & ~(size_t)63;
    struct ofi_chunk *chunk = calloc(1, sizeof *chunk + CHUNK_BUFFERS * sizeof chunk->buffers[0]);
    if (!chunk)
        goto no_memory;
    chunk->size = stride * CHUNK_BUFFERS;
    chunk->memory = aligned_alloc(4096, (chunk->size + 4095) & ~(size_t)4095);
    if (!chunk->memory)
        goto free_chunk;
    if (transport->local_mr) {
        int status = ofi_register(transport, chunk->memory, chunk->size, FI_SEND | FI_RECV,
                                  ofi_next_key(transport), &chunk->mr);
        if (status) {
            free(chunk->memory);
            free(chunk);
            return status;
        }
    }
    for (size_t i = CHUNK_BUFFERS; i-- > 0;) {
        struct ofi_buffer *buffer = &chunk->buffers[i];
        buffer->op.kind = kind;
        buffer->desc = chunk->mr ? fi_mr_desc(chunk->mr) : NULL;
        buffer->memory = (uint8_t *)chunk->memory + i * stride;
        buffer->next = *list;
        *list = buffer;
    }
    chunk->next = transport->chunks;
    transport->chunks = chunk;
    return WEFT_OK;

free_chunk:
    free(chunk);
no_memory:
    return weft_fail(WEFT_NOMEM, "ofi: no memory for message buffers");
}

int ofi_receives_grow(struct weft_transport *transport, uint32_t more)
{
    uint32_t wanted = transport->receives_wanted + more;
    while (transport->receives < wanted) {
        int status = chunk_add(transport, OFI_OP_RECV, &transport->unposted);
        if (status)
            return status;
        transport->receives += CHUNK_BUFFERS;
    }
    transport->receives_wanted = wanted;
    return ofi_receives_post(transport);
}

int ofi_receives_post(struct weft_transport *transport)
{
    while (transport->unposted && !transport->broken) {
        struct ofi_buffer *buffer = transport->unposted;
        ssize_t error = fi_recv(transport->ep, buffer->memory, transport->prefix + transport->frame_bytes,
                                buffer->desc, FI_ADDR_UNSPEC, &buffer->op.context);
        if (error == -FI_EAGAIN)
            return WEFT_OK;
        if (error)
            return failed(transport, "receive", (int)error);
        transport->unposted = buffer->next;
    }
    return WEFT_OK;
}

struct ofi_buffer *ofi_send_take(struct weft_transport *transport)
{
    if (!transport->free_sends && transport->sends < transport->sends_limit) {
        if (chunk_add(transport, OFI_OP_SEND, &transport->free_sends))
            return NULL;
        transport->sends += CHUNK_BUFFERS;
        transport->sends_free += CHUNK_BUFFERS;
    }
    struct ofi_buffer *buffer = transport->free_sends;
    if (buffer) {
        transport->free_sends = buffer->next;
        transport->sends_free--;
    }
    return buffer;
}

void ofi_send_return(struct weft_transport *transport, struct ofi_buffer *buffer)
{
    buffer->next = transport->free_sends;
    transport->free_sends = buffer;
    transport->sends_free++;
}
