/* SPDX-License-Identifier: Apache-2.0 */
/* What can be said of ports without asking their device: what is wanted and what is announced of them. */
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>
#include "base/error.h"
#include "transport/verbs/device.h"

int verbs_settings(const struct weft_transport_params *params, struct weft_verbs_settings *settings)
{
    const struct weft_verbs_settings *given = NULL;
    if (params->size >= offsetof(struct weft_transport_params, verbs) + sizeof given)
        given = params->verbs;
    if (given && given->size < offsetof(struct weft_verbs_settings, qps))
        return weft_fail(WEFT_INVALID,
                         "verbs: size of the settings is %zu: expected sizeof(struct "
                         "weft_verbs_settings), here %zu",
                         given->size, sizeof *given);
    *settings = (struct weft_verbs_settings)WEFT_VERBS_SETTINGS_INIT;
    if (given)
        memcpy(settings, given, given->size < sizeof *given ? given->size : sizeof *given);
    settings->size = sizeof *settings;
    return WEFT_OK;
}

void verbs_rails_address(const struct verbs_rail *rails, int count, uint64_t instance,
                         struct verbs_address *address)
{
    memset(address, 0, sizeof *address);
    address->instance = instance;
    address->version_min = VERBS_VERSION_MIN;
    address->version_max = VERBS_VERSION;
    address->port_count = (uint8_t)count;
    for (int i = 0; i < count; i++)
        address->ports[i] = rails[i].port;
}

int verbs_rails_info(const struct verbs_rail *rails, int count, weft_rail *infos, int capacity)
{
    for (int i = 0; i < count && i < capacity; i++) {
        const struct verbs_port *port = &rails[i].port;
        weft_rail info = {
            .size = infos[i].size,
            .port = port->number,
            .gid_index = port->gids[0].index,
            .mtu_bytes = verbs_mtu_bytes(port->mtu),
            .active = rails[i].state == IBV_PORT_ACTIVE,
            .bytes_per_s = (uint64_t)port->speed_mbps * 125000,
        };
        char text[VERBS_GID_TEXT];
        snprintf(info.device, sizeof info.device, "%s", rails[i].device);
        snprintf(info.link_layer, sizeof info.link_layer, "%s",
                 port->layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet" : "InfiniBand");
        snprintf(info.gid, sizeof info.gid, "%.39s", verbs_gid_text(port->gids[0].raw, text));
        memcpy(&infos[i], &info, infos[i].size < sizeof info ? infos[i].size : sizeof info);
    }
    return count;
}
