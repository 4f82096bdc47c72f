/* SPDX-License-Identifier: Apache-2.0 */
/* Which provider, interface and mode.
 *
 * fi_getinfo() answers with a list, best first, of what can do the capabilities asked for. Asked first is RMA
 * (puts by remote write), then tagged messages (puts by tagged receive); within an answer the first entry
 * wins that
 *   - is not on the exclude list, unless the caller names its provider,
 *   - has an address of the interface that the caller names, when its addresses are internet addresses,
 *   - reaches other hosts, unless the caller names its provider (libfabric's shm does not).
 *
 * RDMA devices have interfaces of their own, which are seldom the one that the ranks found each other by. A
 * caller who names the provider verbs gets the entry with the wanted address, else the first with an internet
 * address of a device, else one with an InfiniBand address (which libfabric 1.17 offers for RoCE as well, where
 * it cannot be opened). FI_VERBS_IFACE or FI_VERBS_DEVICE_NAME narrow down what libfabric offers. Nobody gets
 * verbs unasked on an interface that the ranks do not talk over: nothing says that it leads to the peers.
 *
 * Device memory (FI_HMEM) is no reason to choose. If the program has some by now, the entry that was chosen is looked for
 * once more among those that can do that too. It must be the same in all that weft looks at, but for how much may be injected,
 * as programs and messages without such memory shall have what they had.
 *
 * One exception to the order: libfabric 1.17 lists tcp;ofi_rxm before net, the tcp provider's successor with
 * reliable datagrams of its own, which later versions merged into tcp and list first. It has fewer layers
 * (6.1 against 8.4 us for an exchange of 8 bytes over loopback), so net, where offered, stands in for
 * tcp;ofi_rxm.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "transport/ofi/ofi_private.h"

#define VERBS "verbs" /* how the names of its providers begin */

/* Deprecated, unreliable for our use, built on such, or not a provider by itself. */
static const char *const excluded[] = {"sockets",     "udp",     "UDP",   "psm",       "psm2",
                                       "psm3",        "ofi_rxd", "usnic", "ofi_mrail", "ofi_hook",
                                       "efa;ofi_rxd", "opx",     "ucx",   "lpp"};

static int is_excluded(const char *name)
{
    if (strstr(name, "ofi_rxd") || strstr(name, "ofi_hook"))
        return 1;
    for (size_t i = 0; i < sizeof excluded / sizeof excluded[0]; i++) {
        size_t length = strlen(excluded[i]);
        if (strncmp(name, excluded[i], length) == 0 && (name[length] == '\0' || name[length] == ';'))
            return 1;
    }
    return 0;
}

/* What is looked for. */
struct ofi_wish {
    const struct ofi_library *library;
    const char *local; /* numeric address of the interface */
    int no_verbs;
};

/* How well an entry fits, best last. */
enum suit { SUIT_NOT, SUIT_FABRIC_ADDRESS, SUIT_OTHER_INTERFACE, SUIT_BEST };

int ofi_info_is_verbs(const struct fi_info *info)
{
    return strncmp(info->fabric_attr->prov_name, VERBS, strlen(VERBS)) == 0;
}

/* Whether an address is for one link only: fe80::/10 and 169.254.0.0/16. */
static int is_link_local(const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        return (ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 16) == 0xa9fe;
    const struct in6_addr *in6 = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
    return in6->s6_addr[0] == 0xfe && (in6->s6_addr[1] & 0xc0) == 0x80;
}

/* Whether an internet address is the one that is wanted, as text. No link-local one with its scope is: a provider's address would carry
 * that to other hosts, where it means something else. */
static int is_wanted(const struct sockaddr *address, const char *wanted)
{
    unsigned char binary[16];
    if (inet_pton(address->sa_family, wanted, binary) != 1)
        return 0;
    if (address->sa_family == AF_INET)
        return memcmp(binary, &((const struct sockaddr_in *)(const void *)address)->sin_addr, 4) == 0;
    return memcmp(binary, &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr, 16) == 0;
}

static enum suit address_suits(const struct fi_info *info, const char *wanted, int named)
{
    const struct sockaddr *address = info->src_addr;
    int roams = named && ofi_info_is_verbs(info);
    if (info->addr_format == FI_SOCKADDR_IB)
        return roams ? SUIT_FABRIC_ADDRESS : SUIT_NOT;
    if (!address || (info->addr_format != FI_SOCKADDR && info->addr_format != FI_SOCKADDR_IN &&
                     info->addr_format != FI_SOCKADDR_IN6))
        return SUIT_BEST;
    size_t size = address->sa_family == AF_INET    ? sizeof(struct sockaddr_in)
                  : address->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                                   : SIZE_MAX;
    if (info->src_addrlen < size) /* not an internet address */
        return SUIT_BEST;
    if (is_wanted(address, wanted))
        return SUIT_BEST;
    return roams && !is_link_local(address) ? SUIT_OTHER_INTERFACE : SUIT_NOT;
}

static enum suit suits(const struct ofi_wish *wish, const struct fi_info *info, int named)
{
    if (info->ep_attr->type != FI_EP_RDM || info->ep_attr->max_msg_size < 512)
        return SUIT_NOT;
    if ((info->caps & FI_RMA) && info->domain_attr->cq_data_size < 4 && !(info->caps & FI_TAGGED))
        return SUIT_NOT;
    if ((!named && is_excluded(info->fabric_attr->prov_name)) || (wish->no_verbs && ofi_info_is_verbs(info)))
        return SUIT_NOT;
    return address_suits(info, wish->local, named);
}

static struct fi_info *hints_make(const struct ofi_library *library, uint64_t caps, const char *provider)
{
    int devices = caps & FI_HMEM ? FI_MR_HMEM : 0;
    struct fi_info *hints = library->dupinfo(NULL);
    if (!hints)
        return NULL;
    hints->caps = caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_MSG_PREFIX | FI_RX_CQ_DATA;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->threading = FI_THREAD_DOMAIN; /* our caller serialises */
    hints->domain_attr->control_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->data_progress = FI_PROGRESS_MANUAL;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->domain_attr->mr_mode =
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT | devices;
    if (provider) {
        hints->fabric_attr->prov_name = strdup(provider);
        if (!hints->fabric_attr->prov_name) {
            library->freeinfo(hints);
            return NULL;
        }
    }
    return hints;
}

/* The first of the entries that fit best, or NULL. */
static struct fi_info *choose(const struct ofi_wish *wish, uint64_t caps, const char *provider, int named)
{
    const struct ofi_library *library = wish->library;
    /* What is not asked for is not reported, so whether an entry reaches other hosts has to be asked. */
    struct fi_info *hints = hints_make(library, named ? caps : caps | FI_REMOTE_COMM, provider);
    struct fi_info *list = NULL, *best = NULL;
    enum suit best_suit = SUIT_NOT;
    if (!hints)
        return NULL;
    int error = library->getinfo(OFI_API, NULL, NULL, 0, hints, &list);
    library->freeinfo(hints);
    if (error)
        return NULL;
    for (struct fi_info *info = list; info && best_suit != SUIT_BEST; info = info->next) {
        enum suit suit = suits(wish, info, named);
        weft_log(WEFT_LOG_DEBUG, "ofi: offered %s domain %s, suits %d of %d", info->fabric_attr->prov_name,
                 info->domain_attr->name ? info->domain_attr->name : "?", suit, SUIT_BEST);
        if (suit > best_suit) {
            best_suit = suit;
            best = info;
        }
    }
    if (best)
        best = library->dupinfo(best);
    library->freeinfo(list);
    return best;
}

static struct fi_info *choose_any(const struct ofi_wish *wish, const char *provider, int named)
{
    struct fi_info *info = choose(wish, FI_MSG | FI_RMA | FI_WRITE | FI_REMOTE_WRITE, provider, named);
    if (info && info->domain_attr->cq_data_size < 4) {
        wish->library->freeinfo(info);
        info = NULL;
    }
    return info ? info : choose(wish, FI_MSG | FI_TAGGED, provider, named);
}

static int nothing_fits(const struct ofi_wish *wish, const char *provider)
{
    uint32_t version = wish->library->version();
    if (wish->no_verbs && provider && strncmp(provider, VERBS, strlen(VERBS)) == 0)
        return weft_fail(
            WEFT_UNSUPPORTED,
            "ofi: provider %s cannot be used in a process forked from one that has loaded libfabric, "
            "which keeps RDMA devices open that the child cannot use; start the process with exec",
            provider);
    return weft_fail(
        WEFT_NOT_FOUND, "ofi: libfabric %u.%u offers no suitable provider%s%s for local address %s; %s",
        FI_MAJOR(version), FI_MINOR(version), provider ? " " : "", provider ? provider : "", wish->local,
        strchr(wish->local, '%') ? "link-local addresses serve the transport tcp alone"
                                 : "`fi_info` lists what there is");
}

int ofi_info_choose(const struct ofi_library *library, const struct weft_transport_params *params,
                    int no_verbs, struct fi_info **result)
{
    const char *provider = params->provider && *params->provider ? params->provider : NULL;
    const char *local = params->local_address && *params->local_address ? params->local_address : "127.0.0.1";
    struct ofi_wish wish = {library, local, no_verbs || library->loader != getpid()};
    struct fi_info *info = choose_any(&wish, provider, provider != NULL);
    if (info && strcmp(info->fabric_attr->prov_name, "tcp;ofi_rxm") == 0 &&
        (!provider || strcmp(provider, "tcp") == 0)) {
        struct fi_info *native = choose_any(&wish, "net", 1);
        if (native) {
            library->freeinfo(info);
            info = native;
        }
    }
    /* A provider that cannot open anything is not offered, and nothing says why. */
    int limit = info ? 0 : weft_limits_descriptors();
    if (limit)
        return weft_fail(WEFT_NOT_FOUND, "ofi: libfabric offers no provider: %s", weft_errno_text(limit));
    if (!info)
        return nothing_fits(&wish, provider);
    *result = info;
    return WEFT_OK;
}

static int is_same_text(const char *a, const char *b)
{
    return a && b ? strcmp(a, b) == 0 : a == b;
}

/* Whether two entries differ in nothing but device memory. */
static int is_same_beside_devices(const struct fi_info *a, const struct fi_info *b)
{
    const struct fi_domain_attr *domain = a->domain_attr, *other = b->domain_attr;
    return is_same_text(a->fabric_attr->prov_name, b->fabric_attr->prov_name) &&
           is_same_text(a->fabric_attr->name, b->fabric_attr->name) &&
           is_same_text(domain->name, other->name) && a->addr_format == b->addr_format &&
           a->src_addrlen == b->src_addrlen &&
           (!a->src_addrlen || memcmp(a->src_addr, b->src_addr, a->src_addrlen) == 0) &&
           !(a->caps & ~b->caps) && a->mode == b->mode && a->tx_attr->mode == b->tx_attr->mode &&
           a->rx_attr->mode == b->rx_attr->mode && a->ep_attr->protocol == b->ep_attr->protocol &&
           a->ep_attr->max_msg_size == b->ep_attr->max_msg_size &&
           a->ep_attr->msg_prefix_size == b->ep_attr->msg_prefix_size &&
           a->tx_attr->msg_order == b->tx_attr->msg_order && a->rx_attr->msg_order == b->rx_attr->msg_order &&
           a->rx_attr->comp_order == b->rx_attr->comp_order &&
           domain->mr_mode == (other->mr_mode & ~FI_MR_HMEM) && domain->mr_key_size == other->mr_key_size &&
           domain->cq_data_size == other->cq_data_size;
}

void ofi_info_add_devices(const struct ofi_library *library, struct fi_info **info)
{
    const char *provider = (*info)->fabric_attr->prov_name;
    struct fi_info *hints = hints_make(library, (*info)->caps | FI_HMEM, provider), *list = NULL;
    if (!hints)
        return;
    int error = library->getinfo(OFI_API, NULL, NULL, 0, hints, &list);
    library->freeinfo(hints);
    const struct fi_info *found = error ? NULL : list;
    while (found && !((found->caps & FI_HMEM) && is_same_beside_devices(*info, found)))
        found = found->next;
    weft_log(WEFT_LOG_INFO, "ofi: provider %s %s device memory", provider, found ? "takes" : "does not take");
    struct fi_info *copy = found ? library->dupinfo(found) : NULL;
    if (copy) {
        library->freeinfo(*info);
        *info = copy;
    }
    if (!error)
        library->freeinfo(list);
}
