/* Which provider, interface and mode.
 *
 * fi_getinfo() answers with a list, best first, of what can do the capabilities asked for. Asked first is RMA
 * (puts by remote write), then tagged messages (puts by tagged receive); within an answer the first entry
 * wins that
 *   - is not on the exclude list, unless the caller names its provider,
 *   - has an address of the interface that the caller names, when its addresses are internet addresses,
 *   - reaches other hosts, unless the caller names its provider (libfabric's shm does not).
 * One exception to the order: libfabric 1.17 lists tcp;ofi_rxm before net, the tcp provider's successor with
 * reliable datagrams of its own, which later versions merged into tcp and list first. It has fewer layers
 * (6.1 against 8.4 us for an exchange of 8 bytes over loopback), so net, where offered, stands in for
 * tcp;ofi_rxm.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/limits.h"
#include "base/log.h"
#include "transport/ofi/ofi_private.h"

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

/* Compares an internet address of an entry with a numeric address. 1 equal, 0 not, -1 not internet. */
static int address_matches(const struct fi_info *info, const char *wanted)
{
    const struct sockaddr *address = info->src_addr;
    if (!address || (info->addr_format != FI_SOCKADDR && info->addr_format != FI_SOCKADDR_IN &&
                     info->addr_format != FI_SOCKADDR_IN6))
        return -1;
    unsigned char binary[16];
    if (address->sa_family == AF_INET && info->src_addrlen >= sizeof(struct sockaddr_in)) {
        if (inet_pton(AF_INET, wanted, binary) != 1)
            return 0;
        return memcmp(binary, &((const struct sockaddr_in *)info->src_addr)->sin_addr, 4) == 0;
    }
    if (address->sa_family == AF_INET6 && info->src_addrlen >= sizeof(struct sockaddr_in6)) {
        if (inet_pton(AF_INET6, wanted, binary) != 1)
            return 0;
        return memcmp(binary, &((const struct sockaddr_in6 *)info->src_addr)->sin6_addr, 16) == 0;
    }
    return -1;
}

static int fits(const struct fi_info *info, const char *local_address, int named)
{
    if (info->ep_attr->type != FI_EP_RDM || info->ep_attr->max_msg_size < 512)
        return 0;
    if ((info->caps & FI_RMA) && info->domain_attr->cq_data_size < 4 && !(info->caps & FI_TAGGED))
        return 0;
    if (!named && is_excluded(info->fabric_attr->prov_name))
        return 0;
    return address_matches(info, local_address) != 0;
}

static struct fi_info *hints_make(const struct ofi_library *library, uint64_t caps, const char *provider)
{
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
        FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_ENDPOINT;
    if (provider) {
        hints->fabric_attr->prov_name = strdup(provider);
        if (!hints->fabric_attr->prov_name) {
            library->freeinfo(hints);
            return NULL;
        }
    }
    return hints;
}

/* The first entry that fits, or NULL. */
static struct fi_info *choose(const struct ofi_library *library, uint64_t caps, const char *provider,
                              const char *local_address, int named)
{
    /* What is not asked for is not reported, so whether an entry reaches other hosts has to be asked. */
    struct fi_info *hints = hints_make(library, named ? caps : caps | FI_REMOTE_COMM, provider);
    struct fi_info *list = NULL, *chosen = NULL;
    if (!hints)
        return NULL;
    int error = library->getinfo(OFI_API, NULL, NULL, 0, hints, &list);
    library->freeinfo(hints);
    if (error)
        return NULL;
    for (struct fi_info *info = list; info && !chosen; info = info->next) {
        weft_log(WEFT_LOG_DEBUG, "ofi: offered %s domain %s", info->fabric_attr->prov_name,
                 info->domain_attr->name ? info->domain_attr->name : "?");
        if (fits(info, local_address, named))
            chosen = library->dupinfo(info);
    }
    library->freeinfo(list);
    return chosen;
}

static struct fi_info *choose_any(const struct ofi_library *library, const char *provider,
                                  const char *local_address, int named)
{
    struct fi_info *info =
        choose(library, FI_MSG | FI_RMA | FI_WRITE | FI_REMOTE_WRITE, provider, local_address, named);
    if (info && info->domain_attr->cq_data_size < 4) {
        library->freeinfo(info);
        info = NULL;
    }
    return info ? info : choose(library, FI_MSG | FI_TAGGED, provider, local_address, named);
}

int ofi_info_choose(const struct ofi_library *library, const struct weft_transport_params *params,
                    struct fi_info **result)
{
    const char *provider = params->provider && *params->provider ? params->provider : NULL;
    const char *local = params->local_address && *params->local_address ? params->local_address : "127.0.0.1";
    struct fi_info *info = choose_any(library, provider, local, provider != NULL);
    if (info && strcmp(info->fabric_attr->prov_name, "tcp;ofi_rxm") == 0 &&
        (!provider || strcmp(provider, "tcp") == 0)) {
        struct fi_info *native = choose_any(library, "net", local, 1);
        if (native) {
            library->freeinfo(info);
            info = native;
        }
    }
    /* A provider that cannot open anything is not offered, and nothing says why. */
    int limit = info ? 0 : weft_limits_descriptors();
    if (limit)
        return weft_fail(WEFT_MISSING, "ofi: libfabric offers no provider: %s", weft_errno_text(limit));
    if (!info)
        return weft_fail(
            WEFT_MISSING,
            "ofi: libfabric %u.%u offers no suitable provider%s%s for local address %s; `fi_info` "
            "lists what there is",
            FI_MAJOR(library->version()), FI_MINOR(library->version()), provider ? " " : "",
            provider ? provider : "", local);
    *result = info;
    return WEFT_OK;
}
