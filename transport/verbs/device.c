/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/verbs/device.h"

#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>
#include "base/error.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/signals.h"
#include "transport/verbs/why.h"
#include "transport/verbs/window.h"

#define PORTS_MAX  16   /* of one device, beyond which they are not looked at */
#define GIDS_MAX   256  /* entries of a port's table: the index has one byte (InfiniBand's address vector) */
#define GIDS_READ  1024 /* entries of all ports: the kernel's call takes less than 64 KiB */
#define RATE_BYTES 64
#define SOFT_ROCE  0xffffff /* its vendor's number, which is nobody's */

/* --- what the machine has */

/* First line of a file of the port in sysfs; "" when there is none. */
static void read_port_file(const char *device, int port, const char *name, char text[RATE_BYTES])
{
    char path[256];
    snprintf(path, sizeof path, "/sys/class/infiniband/%s/ports/%d/%s", device, port, name);
    weft_file_read_line(path, text, RATE_BYTES);
}

static uint32_t read_rate(const char *device, int port, int layer)
{
    char text[RATE_BYTES];
    read_port_file(device, port, "rate", text);
    return verbs_rate_mbps(text, layer);
}

/* The ports of a device, from sysfs: opening every device just to look takes long on hosts that have many. */
static int add_candidates(const struct ibv_device *device, struct verbs_candidate *candidates)
{
    int count = 0;
    for (int port = 1; port <= PORTS_MAX; port++) {
        char text[RATE_BYTES];
        read_port_file(device->name, port, "state", text);
        if (!*text)
            break;
        struct verbs_candidate *candidate = &candidates[count++];
        snprintf(candidate->device, sizeof candidate->device, "%s", device->name);
        candidate->port = port;
        candidate->is_active = atoi(text) == IBV_PORT_ACTIVE;
        read_port_file(device->name, port, "link_layer", text);
        candidate->speed_mbps =
            read_rate(device->name, port,
                      strcmp(text, "InfiniBand") == 0 ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET);
    }
    return count;
}

/* --- opening a rail */

static int fail_open(const struct ibv_device *device, int error)
{
    return weft_fail(
        WEFT_NOT_FOUND,
        "verbs: cannot open %s: %s; look whether /dev/infiniband/%s exists and this process may use it "
        "(containers must be given /dev/infiniband)",
        device->name, weft_errno_text(error), device->dev_name);
}

/* Reads everything that the device says about itself. */
static int read_limits(struct verbs_rail *rail, const struct weft_verbs_settings *settings)
{
    struct ibv_device_attr_ex attributes;
    int error = verbs_query_device(rail->verbs, rail->context, &attributes);
    if (error)
        return weft_fail(WEFT_TRANSPORT, "verbs: %s does not report its limits: %s", rail->device,
                         weft_errno_text(error));
    const struct ibv_device_attr *basic = &attributes.orig_attr;
    int has_windows =
        basic->device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B);
    uint32_t paged = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_WRITE;
    rail->limits = (struct verbs_limits){
        .queue_pairs = basic->max_qp,
        .queue_entries = basic->max_qp_wr,
        .queue_segments = basic->max_sge,
        .completion_entries = basic->max_cqe,
        .shared_queues = basic->max_srq,
        .shared_entries = basic->max_srq_wr,
        .memory_windows = has_windows && settings->windows ? basic->max_mw : 0,
        .binds_again = basic->vendor_id == SOFT_ROCE,
        .region_bytes = basic->max_mr_size,
        .relaxed = settings->relaxed != 0,
        .paging = settings->odp && (attributes.odp_caps.general_caps & IBV_ODP_SUPPORT) &&
                  (attributes.odp_caps.per_transport_caps.rc_odp_caps & paged) == paged,
    };
    rail->window_limit = rail->limits.memory_windows;
    rail->port.guid = basic->node_guid;
    if (settings->odp && !rail->limits.paging)
        weft_log(WEFT_LOG_WARN,
                 "verbs: %s has no on-demand paging for writes: WEFT_VERBS_ODP is ignored, memory is pinned",
                 rail->device);
    return WEFT_OK;
}

static int read_port(struct verbs_rail *rail, const struct weft_verbs_settings *settings)
{
    struct ibv_port_attr port;
    int error = verbs_query_port(rail->verbs, rail->context, rail->port.number, &port);
    if (error)
        return weft_fail(WEFT_TRANSPORT, "verbs: %s does not report its port %d: %s", rail->device,
                         rail->port.number, weft_errno_text(error));
    rail->state = port.state;
    rail->physical_state = port.phys_state;
    rail->limits.message_bytes = port.max_msg_sz;
    /* Drivers that are older than RoCE leave the layer unspecified. */
    rail->port.layer =
        port.link_layer == IBV_LINK_LAYER_ETHERNET ? IBV_LINK_LAYER_ETHERNET : IBV_LINK_LAYER_INFINIBAND;
    rail->port.lid = port.lid;
    rail->port.lmc = port.lmc;
    rail->port.needs_grh =
        (port.flags & IBV_QPF_GRH_REQUIRED) != 0; /* virtual functions, hosts that share an adapter */
    rail->port.mtu = (uint8_t)port.active_mtu;
    rail->port.speed_mbps = read_rate(rail->device, rail->port.number, rail->port.layer);
    __be16 key;
    if (settings->partition_index >= port.pkey_tbl_len ||
        rail->verbs->query_pkey(rail->context, rail->port.number, (int)settings->partition_index, &key))
        return weft_fail(WEFT_INVALID,
                         "WEFT_VERBS_PKEY is %d: port %d of %s has %u partition keys, counted from 0",
                         (int)settings->partition_index, rail->port.number, rail->device, port.pkey_tbl_len);
    rail->port.partition = ntohs(key);
    return WEFT_OK;
}

static uint8_t count_bits(const void *mask, size_t size)
{
    const uint8_t *bytes = mask;
    int bits = 0;
    for (size_t i = 0; i < size; i++)
        bits += __builtin_popcount(bytes[i]);
    return (uint8_t)bits;
}

/* The address that a GID of RoCE is made of gives the subnet, if an interface here has it. */
static void look_up(const struct ifaddrs *interfaces, unsigned interface, struct verbs_gid *gid)
{
    char name[IF_NAMESIZE];
    /* Adapters put a link-local GID into the table whatever addresses the interface has. */
    gid->foreign = !(gid->raw[0] == 0xfe && interface && if_indextoname(interface, name));
    for (const struct ifaddrs *at = interfaces; at; at = at->ifa_next) {
        if (!at->ifa_addr || !at->ifa_netmask)
            continue;
        struct in6_addr address = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
        uint8_t bits;
        if (at->ifa_addr->sa_family == AF_INET) {
            memcpy(&address.s6_addr[12], &((struct sockaddr_in *)at->ifa_addr)->sin_addr, 4);
            bits = (uint8_t)(96 + count_bits(&((struct sockaddr_in *)at->ifa_netmask)->sin_addr, 4));
        } else if (at->ifa_addr->sa_family == AF_INET6) {
            address = ((struct sockaddr_in6 *)at->ifa_addr)->sin6_addr;
            bits = count_bits(&((struct sockaddr_in6 *)at->ifa_netmask)->sin6_addr, 16);
        } else {
            continue;
        }
        if (memcmp(&address, gid->raw, sizeof gid->raw) == 0) {
            gid->prefix_bits = bits;
            gid->foreign = 0;
        }
    }
}

/* Takes the entries of the rail's port from the device's. */
static int take_gids(const struct verbs_rail *rail, const struct ibv_gid_entry *entries, ssize_t count,
                     struct verbs_gid *gids)
{
    struct ifaddrs *interfaces = NULL;
    if (rail->port.layer == IBV_LINK_LAYER_ETHERNET && getifaddrs(&interfaces) != 0)
        interfaces = NULL; /* subnets stay unknown */
    int used = 0;
    for (ssize_t i = 0; i < count && used < GIDS_MAX; i++) {
        if (entries[i].port_num != rail->port.number || entries[i].gid_index >= GIDS_MAX)
            continue;
        struct verbs_gid *gid = &gids[used++];
        memset(gid, 0, sizeof *gid);
        memcpy(gid->raw, entries[i].gid.raw, sizeof gid->raw);
        gid->index = (uint8_t)entries[i].gid_index;
        if (rail->port.layer == IBV_LINK_LAYER_INFINIBAND)
            continue;
        gid->type = entries[i].gid_type == IBV_GID_TYPE_ROCE_V2 ? VERBS_GID_ROCE2 : VERBS_GID_ROCE1;
        look_up(interfaces, entries[i].ndev_ifindex, gid);
    }
    if (interfaces)
        freeifaddrs(interfaces);
    return used;
}

static int choose_gids(struct verbs_rail *rail, const struct weft_verbs_settings *settings)
{
    struct ibv_gid_entry *entries = calloc(GIDS_READ, sizeof *entries);
    struct verbs_gid *gids = calloc(GIDS_MAX, sizeof *gids);
    int status = WEFT_OK, count = 0;
    if (!entries || !gids) {
        status = weft_fail(WEFT_NOMEM, "verbs: no memory for the GIDs of %s", rail->device);
    } else {
        ssize_t read = rail->verbs->query_gid_table(rail->context, entries, GIDS_READ, 0, sizeof *entries);
        if (read < 0)
            status = weft_fail(WEFT_TRANSPORT, "verbs: %s does not report its GIDs: %s", rail->device,
                               strerror((int)-read));
        count = take_gids(rail, entries, read, gids);
        rail->port.gid_count =
            (uint8_t)verbs_gids_choose(gids, count, (int)settings->gid_index, rail->port.gids);
    }
    if (!status && !rail->port.gid_count && settings->gid_index >= 0)
        status = weft_fail(WEFT_INVALID, "WEFT_VERBS_GID is %d: port %d of %s has no such GID, but %d others",
                           (int)settings->gid_index, rail->port.number, rail->device, count);
    else if (!status && !rail->port.gid_count)
        status = weft_fail(WEFT_NOT_FOUND,
                           "verbs: port %d of %s has no GID: give its network interface an address",
                           rail->port.number, rail->device);
    free(entries);
    free(gids);
    return status;
}

/* Children must not keep the device open: as long as one does, its queue pairs answer for a parent that has died. */
static int note_descriptors(struct verbs_rail *rail)
{
    int fd = rail->context->async_fd, flags = fcntl(fd, F_GETFL);
    if (weft_fd_note(rail->context->cmd_fd) || weft_fd_note(fd) || flags < 0 ||
        fcntl(fd, F_SETFL, flags | O_NONBLOCK))
        return weft_fail_errno("verbs: descriptors of %s", rail->device);
    return WEFT_OK;
}

static void close_rail(struct verbs_rail *rail)
{
    verbs_windows_end(rail);
    if (rail->domain)
        rail->verbs->dealloc_pd(rail->domain);
    if (rail->context) {
        weft_fd_forget(rail->context->cmd_fd);
        weft_fd_forget(rail->context->async_fd);
        rail->verbs->close_device(rail->context);
    }
    memset(rail, 0, sizeof *rail);
}

static int open_rail(const struct verbs_library *verbs, struct ibv_device *device, int port,
                     const struct weft_verbs_settings *settings, struct verbs_rail *rail)
{
    memset(rail, 0, sizeof *rail);
    rail->verbs = verbs;
    rail->port.number = (uint8_t)port;
    snprintf(rail->device, sizeof rail->device, "%s", device->name);
    errno = 0;
    rail->context = verbs->open_device(device);
    if (!rail->context)
        return fail_open(device, errno);
    int status = note_descriptors(rail);
    if (!status)
        status = read_limits(rail, settings);
    if (!status)
        status = read_port(rail, settings);
    if (!status)
        status = choose_gids(rail, settings);
    if (!status && rail->limits.shared_queues == 0)
        status = weft_fail(WEFT_NOT_FOUND, "verbs: %s has no shared receive queues", rail->device);
    if (!status) {
        rail->domain = verbs->alloc_pd(rail->context);
        status = rail->domain ? WEFT_OK
                              : weft_fail(WEFT_TRANSPORT, "verbs: no protection domain on %s: %s",
                                          rail->device, weft_errno_text(errno));
    }
    if (status)
        close_rail(rail);
    return status;
}

/* --- opening all */

/* Devices that speak InfiniBand's protocol; iWARP needs a connection manager, EFA and usNIC have no RC queue pairs. */
static int is_usable(const struct ibv_device *device)
{
    return device->transport_type == IBV_TRANSPORT_IB && device->node_type == IBV_NODE_CA;
}

static struct ibv_device *find_device(struct ibv_device **list, const char *name)
{
    while (*list && strcmp((*list)->name, name) != 0)
        list++;
    return *list;
}

/* Opens chosen ports until there are enough. One that cannot be used is passed over, unless the caller named it: a
 * container may see eight adapters and own one. */
static int open_chosen(const struct weft_transport_params *params, const struct verbs_library *verbs,
                       struct ibv_device **list, const struct verbs_candidate *candidates,
                       int candidate_count, struct verbs_rail *rails, int *count)
{
    struct weft_verbs_settings settings;
    const char *wanted = params->devices ? params->devices : "";
    int is_named = *wanted && *wanted != '^', used = 0, status = verbs_settings(params, &settings);
    if (status)
        return status;
    int *chosen = calloc((size_t)candidate_count + 1, sizeof *chosen);
    if (!chosen)
        return weft_fail(WEFT_NOMEM, "verbs: no memory for %d ports", candidate_count);
    int chosen_count = verbs_choose(wanted, candidates, candidate_count, chosen, candidate_count);
    for (int i = 0; i < chosen_count && used < VERBS_RAILS && used < settings.rails; i++) {
        const struct verbs_candidate *candidate = &candidates[chosen[i]];
        struct ibv_device *device = find_device(list, candidate->device);
        status = open_rail(verbs, device, candidate->port, &settings, &rails[used]);
        if (!status) {
            rails[used].number = used;
            used++;
        } else if (is_named) {
            break;
        } else {
            weft_log(WEFT_LOG_INFO, "%s: not used", weft_error_detail());
        }
    }
    free(chosen);
    if (chosen_count < 0)
        return chosen_count;
    if (used == 0 || (status && is_named)) {
        verbs_rails_close(rails, used);
        return status;
    }
    *count = used;
    return WEFT_OK;
}

static int open_listed(const struct weft_transport_params *params, const struct verbs_library *verbs,
                       struct verbs_rail *rails, int *count)
{
    int device_count = 0, candidate_count = 0;
    struct ibv_device **list = verbs->get_device_list(&device_count);
    if (!list)
        return weft_fail(WEFT_NOT_FOUND,
                         "verbs: libibverbs cannot list devices: %s (the kernel module ib_uverbs is "
                         "needed)",
                         weft_errno_text(errno));
    struct verbs_candidate *candidates = calloc((size_t)device_count * PORTS_MAX + 1, sizeof *candidates);
    int status;
    if (!candidates) {
        status = weft_fail(WEFT_NOMEM, "verbs: no memory for the ports of %d devices", device_count);
    } else {
        for (int i = 0; i < device_count; i++) {
            if (is_usable(list[i]))
                candidate_count += add_candidates(list[i], &candidates[candidate_count]);
        }
        status = open_chosen(params, verbs, list, candidates, candidate_count, rails, count);
    }
    free(candidates);
    verbs->free_device_list(list);
    return status;
}

int verbs_rails_open(const struct weft_transport_params *params, struct verbs_rail rails[VERBS_RAILS],
                     int *count)
{
    if (!verbs_machine_has_device())
        return weft_fail(WEFT_NOT_FOUND,
                         "verbs: there is no RDMA device here (/sys/class/infiniband is empty)");
    struct weft_signals signals;
    weft_signals_save(&signals); /* libibverbs loads its drivers when it lists devices */
    const struct verbs_library *verbs;
    int status = verbs_library_get(&verbs);
    if (!status)
        status = open_listed(params, verbs, rails, count);
    weft_signals_restore(&signals);
    for (int i = 0; !status && i < *count; i++) {
        char text[VERBS_GID_TEXT];
        weft_log(WEFT_LOG_INFO, "verbs: rail %d is %s port %d, %u Mb/s, MTU %d, GID %u %s (%s)", i,
                 rails[i].device, rails[i].port.number, rails[i].port.speed_mbps,
                 verbs_mtu_bytes(rails[i].port.mtu), rails[i].port.gids[0].index,
                 verbs_gid_text(rails[i].port.gids[0].raw, text),
                 verbs_gid_type_text(rails[i].port.gids[0].type));
    }
    return status;
}

void verbs_rails_close(struct verbs_rail *rails, int count)
{
    for (int i = 0; i < count; i++)
        close_rail(&rails[i]);
}

int verbs_rail_refresh(struct verbs_rail *rail)
{
    struct ibv_port_attr port;
    int error = verbs_query_port(rail->verbs, rail->context, rail->port.number, &port);
    rail->state = error ? 0 : (int)port.state;
    rail->physical_state = error ? 0 : port.phys_state;
    if (error)
        return weft_fail(WEFT_TRANSPORT, "verbs: %s does not report its port %d: %s", rail->device,
                         rail->port.number, weft_errno_text(error));
    return WEFT_OK;
}
