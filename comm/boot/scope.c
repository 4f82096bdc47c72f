/* SPDX-License-Identifier: Apache-2.0 */
/* Link-local addresses of other ranks (docs/bootstrap.md, section 2). They travel without scope, and each rank puts in the
 * interface of its own host by which it reaches the others.
 */
#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "comm/boot/boot.h"

void weft_boot_scopes_set(struct weft_bootstrap *b, uint32_t scope)
{
    const struct weft_net_address *mine = &b->members[b->rank].address;
    /* A rank that came to rank 0 over loopback has an address of its host that rank 0 has chosen. */
    if (!scope && weft_net_address_is_link_local6(mine))
        scope = weft_net_scope_of(mine);
    for (int i = 0; i < b->ranks; i++) {
        if (weft_net_address_is_link_local6(&b->members[i].address))
            b->members[i].address.scope = scope;
    }
}

void weft_bootstrap_complete(const struct weft_bootstrap *b, char *address, size_t capacity)
{
    struct weft_net_address read;
    char text[WEFT_NET_ADDRESS_TEXT];
    if (weft_net_address_parse(address, &read) != WEFT_OK || !weft_net_address_is_link_local6(&read))
        return;
    read.scope = b->members[b->rank].address.scope;
    for (int i = 0; i < b->ranks; i++) {
        const struct weft_net_address *member = &b->members[i].address;
        if (member->family == read.family && memcmp(member->ip, read.ip, sizeof read.ip) == 0)
            read.scope = member->scope;
    }
    snprintf(address, capacity, "%s", weft_net_address_text(&read, 1, text));
}
