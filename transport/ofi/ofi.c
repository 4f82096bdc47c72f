/* SPDX-License-Identifier: Apache-2.0 */
/* The ofi transport: opening, closing, and its table of operations. */
#include "transport/ofi/ofi.h"

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/weft.h>
#include "base/clock.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/signals.h"
#include "transport/ofi/ofi_private.h"

/* Two processes with the same number share a kernel and a network namespace, so also its loopback. */
static uint64_t host_hash(void)
{
    char text[64] = "";
    weft_file_read("/proc/sys/kernel/random/boot_id", text, sizeof text);
    struct stat namespace;
    memset(&namespace, 0, sizeof namespace);
    uint64_t hash = WEFT_HASH_START;
    if (stat("/proc/self/ns/net", &namespace) == 0)
        hash ^= namespace.st_ino;
    return weft_hash_bytes(hash, text, sizeof text);
}

static int read_address(struct weft_transport *transport)
{
    struct ofi_address *address = &transport->address;
    const struct fi_info *info = transport->info;
    size_t size = sizeof address->name;
    int error = fi_getname(&transport->ep->fid, address->name, &size);
    if (error || size > sizeof address->name)
        return weft_fail(WEFT_TRANSPORT, "ofi: address of provider %s (%zu bytes): %s",
                         info->fabric_attr->prov_name, size, transport->library->strerror(-error));
    address->magic = OFI_MAGIC;
    address->version_min = address->version_max = OFI_WIRE_VERSION;
    address->name_size = (uint16_t)size;
    address->format = info->addr_format;
    address->protocol = info->ep_attr->protocol;
    address->host = host_hash();
    if (strcmp(info->fabric_attr->prov_name, "net") == 0 || strcmp(info->fabric_attr->prov_name, "tcp") == 0)
        address->features |= OFI_FEATURE_WARY;
    size_t length = strlen(info->fabric_attr->prov_name);
    if (length >= sizeof address->provider)
        length = sizeof address->provider - 1;
    memcpy(address->provider, info->fabric_attr->prov_name, length);
    transport->address_size = OFI_ADDRESS_FIXED + size;
    return WEFT_OK;
}

/* Instances that libfabric could not close safely: kept for ever, as it may still point into them. */
static struct weft_transport *unclosed;

static void instance_free(struct weft_transport *transport)
{
    if (transport->unclosed) { /* under the turn of weft_signals_save() */
        transport->next_unclosed = unclosed;
        unclosed = transport;
        return;
    }
    ofi_rbufs_close(transport);
    while (transport->regions)
        ofi_dereg(transport->regions);
    ofi_endpoint_close(transport);
    ofi_rbufs_free(transport);
    ofi_puts_free(transport);
    for (uint32_t i = 0; i < transport->links_count; i++)
        ofi_link_free(transport->links[i]);
    free(transport->links);
    weft_crypto_wipe(&transport->address.key, sizeof transport->address.key);
    free(transport);
}

static int open_with_library(const struct weft_transport_params *params, int no_verbs,
                             struct weft_transport *transport)
{
    int status = ofi_library_get(&transport->library);
    if (!status)
        status = ofi_info_choose(transport->library, params, no_verbs, &transport->info);
    int asks = params->size >= offsetof(struct weft_transport_params, device_memory) + sizeof(int) &&
               params->device_memory;
    if (!status && asks)
        ofi_info_add_devices(transport->library, &transport->info);
    if (!status)
        status = ofi_endpoint_open(transport);
    if (!status)
        status = read_address(transport);
    return status;
}

/* *is_verbs says on failure whether an RDMA device was to blame. */
static int instance_open(const struct weft_transport_params *params, int no_verbs,
                         struct weft_transport **result, int *is_verbs)
{
    struct weft_transport *transport = calloc(1, sizeof *transport);
    *is_verbs = 0;
    if (!transport)
        return weft_fail(WEFT_NOMEM, "ofi: no memory for an instance");
    transport->wait_fd = -1;
    transport->events_last = &transport->events;
    transport->address.instance = ofi_random(transport);
    weft_crypto_random(&transport->address.key, sizeof transport->address.key);
    struct weft_signals signals;
    weft_signals_save(&signals);
    int status = open_with_library(params, no_verbs, transport);
    if (status) {
        *is_verbs = transport->info && ofi_info_is_verbs(transport->info);
        instance_free(transport);
    }
    weft_signals_restore(&signals);
    if (!status)
        *result = transport;
    return status;
}

static int ofi_open(const struct weft_transport_params *params, struct weft_transport **result)
{
    int status = weft_crypto_init(), is_verbs;
    if (status)
        return status;
    status = instance_open(params, 0, result, &is_verbs);
    /* libfabric lists RDMA devices first, also those that it cannot open with its own defaults. */
    if (status && is_verbs && !(params->provider && *params->provider)) {
        weft_log(WEFT_LOG_WARN, "%s; not using RDMA", weft_error_detail());
        status = instance_open(params, 1, result, &is_verbs);
    }
    return status;
}

/* Whether a peer may still lack something that was sent to it. */
static int is_unacknowledged(const struct weft_link *link)
{
    return link->state == OFI_LINK_UP && !link->gone &&
           (link->sent != link->acked || link->puts != link->puts_acked);
}

static void flush_unacknowledged(struct weft_transport *transport)
{
    for (uint32_t i = 0; i < transport->links_count; i++) {
        if (is_unacknowledged(transport->links[i]))
            ofi_link_want(transport->links[i], OFI_PENDING_FLUSH);
    }
}

static int any_unacknowledged(const struct weft_transport *transport)
{
    for (uint32_t i = 0; i < transport->links_count; i++) {
        if (is_unacknowledged(transport->links[i]))
            return 1;
    }
    return 0;
}

/* Messages that arrive now are nobody's any more, but their senders wait for the acknowledgement. */
static void discard(void *arg, const struct weft_event *event)
{
    (void)arg, (void)event;
}

static int all_parted(const struct weft_transport *transport)
{
    for (uint32_t i = 0; i < transport->links_count; i++) {
        if (transport->links[i]->state == OFI_LINK_UP && !transport->links[i]->gone)
            return 0;
    }
    return 1;
}

/* Where a connection must not end with messages unread (message.c): waits until no more can come from any peer, and
 * each has had a moment to read our last. A peer that does not poll sends nothing either. */
static void part(struct weft_transport *transport)
{
    int64_t deadline_ns = weft_clock_ns() + OFI_PARTED_NS;
    while (!transport->broken && transport->parted_ns) {
        int64_t now_ns = weft_clock_ns();
        if (now_ns >= transport->parted_ns + OFI_PARTING_NS &&
            (now_ns >= deadline_ns || all_parted(transport)))
            break;
        ofi_progress(transport, OFI_BATCH);
        sched_yield();
    }
}

/* Polls until everything that was sent is delivered, then says good-bye.
 *
 * A FLUSH to every peer that has something unacknowledged goes behind all of it, and is answered when the
 * peer polls. When the provider has completed all that we gave it (OFI_CLOSE_NS at most), the peer's side
 * holds it even if it does not poll now; the answer is then only waited for a moment, so that what the peer
 * sends until it knows does not hit a closed connection, which could take delivered bytes with it. */
static void drain(struct weft_transport *transport)
{
    int64_t deadline_ns = weft_clock_ns() + OFI_CLOSE_NS, answer_ns = 0;
    transport->closing = 1;
    ofi_rbufs_withdraw(transport);
    flush_unacknowledged(transport);
    for (int turns = 1; !transport->broken; turns++) {
        ofi_poll(transport, OFI_BATCH, discard, NULL);
        if (transport->owing)
            ofi_acks_want(transport);
        int handed_over = !transport->events && !transport->in_flight && !transport->links_pending;
        int64_t now_ns = weft_clock_ns();
        if (handed_over && !answer_ns) {
            answer_ns = now_ns + OFI_ANSWER_NS;
            flush_unacknowledged(transport); /* of puts that have left only now */
        }
        if ((handed_over && !any_unacknowledged(transport)) || (answer_ns && now_ns > answer_ns) ||
            now_ns > deadline_ns)
            break;
        if (turns % 256 == 0)
            sched_yield();
    }
    deadline_ns = weft_clock_ns() + OFI_ANSWER_NS;
    for (uint32_t i = 0; i < transport->links_count; i++) {
        int heard = transport->links[i]->state == OFI_LINK_UP || transport->links[i]->state == OFI_LINK_MET;
        if (!heard || transport->links[i]->gone)
            continue;
        ofi_link_want(transport->links[i], OFI_PENDING_BYE);
    }
    while (!transport->broken && weft_clock_ns() < deadline_ns) {
        ofi_links_flush(transport);
        ofi_progress(transport, OFI_BATCH);
        if (!transport->links_pending && !transport->in_flight)
            break;
    }
    if (transport->fragile)
        part(transport);
}

static void ofi_close(struct weft_transport *transport)
{
    if (!transport)
        return;
    drain(transport);
    if (transport->stale_puts || transport->stale_frames || transport->unanswered_withdrawals ||
        transport->strangers)
        weft_log(WEFT_LOG_INFO,
                 "ofi: dropped %llu messages of strangers, %llu stale puts and %llu stale frames; %llu "
                 "withdrawals unanswered",
                 (unsigned long long)transport->strangers, (unsigned long long)transport->stale_puts,
                 (unsigned long long)transport->stale_frames,
                 (unsigned long long)transport->unanswered_withdrawals);
    struct weft_signals signals;
    weft_signals_save(&signals);
    instance_free(transport);
    weft_signals_restore(&signals);
}

static int ofi_busy(struct weft_transport *transport)
{
    if (transport->linger_ns && weft_clock_ns() >= transport->linger_ns)
        transport->linger_ns = 0;
    return transport->in_flight || transport->links_pending || transport->linger_ns;
}

static void ofi_caps(const struct weft_transport *transport, struct weft_transport_caps *caps)
{
    struct weft_transport_caps own = {
        .size = sizeof own,
        .flags = WEFT_CAP_PUT,
        .eager_bytes = (uint32_t)(transport->frame_bytes - sizeof(struct ofi_frame)),
        .put_bytes = transport->put_bytes,
    };
    if (transport->local_mr)
        own.flags |= WEFT_CAP_REG_LOCAL;
    if (transport->takes_devices)
        own.flags |= WEFT_CAP_DEVICE_POINTER | (ofi_has_dmabufs(transport) ? WEFT_CAP_DMABUF : 0);
    if (!transport->use_rma) /* a region has no remote key */
        own.flags |= WEFT_CAP_REG_KEEP;
    if (transport->use_rma ? !transport->own_keys : transport->local_mr)
        own.flags |= WEFT_CAP_REG_REMOTE;
    size_t size = caps->size && caps->size < sizeof own ? caps->size : sizeof own;
    memcpy(caps, &own, size);
    caps->size = size;
}

static int ofi_address(struct weft_transport *transport, void *address, size_t *size)
{
    if (*size < transport->address_size)
        return weft_fail(WEFT_INVALID, "ofi: address needs %zu bytes, there are %zu", transport->address_size,
                         *size);
    memcpy(address, &transport->address, transport->address_size);
    *size = transport->address_size;
    return WEFT_OK;
}

const struct weft_transport_ops weft_ofi_ops = {
    .size = sizeof weft_ofi_ops,
    .abi = WEFT_TRANSPORT_ABI,
    .name = "ofi",
    .open = ofi_open,
    .close = ofi_close,
    .busy = ofi_busy,
    .caps = ofi_caps,
    .address = ofi_address,
    .reachable = ofi_reachable,
    .connect = ofi_connect,
    .disconnect = ofi_disconnect,
    .reg = ofi_reg,
    .dereg = ofi_dereg,
    .send = ofi_send,
    .advertise = ofi_advertise,
    .withdraw = ofi_withdraw,
    .put = ofi_put,
    .poll = ofi_poll,
    .fds = ofi_fds,
    .arm = ofi_arm,
    .link_flags = ofi_link_flags,
    .recall = ofi_recall,
    .recall_wait = ofi_recall_wait,
    .sent_by = ofi_sent_by,
    .reg_device = ofi_reg_device,
};
