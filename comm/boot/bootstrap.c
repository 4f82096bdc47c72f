/* SPDX-License-Identifier: Apache-2.0 */
/* What others ask of an open bootstrap, and say to it. */
#include "comm/boot/bootstrap.h"

#include <stdio.h>
#include <string.h>
#include "base/error.h"
#include "comm/boot/boot.h"
#include "base/net/socket.h"

const char *weft_bootstrap_local_address(const struct weft_bootstrap *b)
{
    return b->local_address;
}

int weft_bootstrap_failure(const struct weft_bootstrap *bootstrap, char *text, size_t capacity)
{
    struct weft_bootstrap *b = (struct weft_bootstrap *)bootstrap; /* only to lock */
    if (!weft_bootstrap_has_failed(b))
        return WEFT_OK;
    pthread_mutex_lock(&b->lock);
    int status = b->failure_status;
    if (text && capacity)
        snprintf(text, capacity, "%s", b->failure_text);
    pthread_mutex_unlock(&b->lock);
    return status;
}

int weft_bootstrap_has_failed(const struct weft_bootstrap *b)
{
    return __atomic_load_n(&b->failed, __ATOMIC_ACQUIRE);
}

void weft_bootstrap_revoke(struct weft_bootstrap *b, const char *reason)
{
    pthread_mutex_lock(&b->lock);
    weft_boot_revoke(b, WEFT_REVOKED, reason);
    pthread_mutex_unlock(&b->lock);
}

void weft_bootstrap_abort(struct weft_bootstrap *b, const char *reason)
{
    pthread_mutex_lock(&b->lock);
    weft_boot_abort(b, reason);
    pthread_mutex_unlock(&b->lock);
}

uint64_t weft_bootstrap_aborts(struct weft_bootstrap *b)
{
    pthread_mutex_lock(&b->lock);
    uint64_t aborts = b->aborts;
    pthread_mutex_unlock(&b->lock);
    return aborts;
}

void weft_bootstrap_revoke_as(struct weft_bootstrap *b, int status, const char *reason)
{
    if (status >= 0 || status < WEFT_INTERNAL)
        status = WEFT_REVOKED;
    pthread_mutex_lock(&b->lock);
    weft_boot_revoke(b, status, reason);
    b->heard_failure = 1;
    weft_boot_kick(b);
    pthread_mutex_unlock(&b->lock);
}

int weft_bootstrap_listen(const struct weft_bootstrap *b, int *fd, char *address, size_t capacity)
{
    struct weft_net_address here = b->members[b->rank].address, any = {0};
    char text[WEFT_NET_ADDRESS_TEXT];
    here.port = 0;
    /* An address that is forwarded to this host is none of its own. */
    int status = weft_net_listen(&here, fd, &here.port);
    if (status != WEFT_OK)
        status = weft_net_listen(&any, fd, &here.port);
    here.scope = 0; /* of this host, not of those who read it */
    if (status == WEFT_OK)
        snprintf(address, capacity, "%s", weft_net_address_text(&here, 1, text));
    return status;
}

size_t weft_bootstrap_bytes(const struct weft_bootstrap *b)
{
    size_t per_rank = sizeof *b->members + sizeof *b->noticed + sizeof *b->aborts_of;
    per_rank += b->slots ? sizeof *b->slots : 0;
    return sizeof *b + (size_t)b->ranks * per_rank + (size_t)b->edge_count * sizeof *b->edges;
}

int weft_bootstrap_lost_more(struct weft_bootstrap *b, const unsigned char *known)
{
    int more = 0;
    pthread_mutex_lock(&b->lock);
    for (int r = 0; r < b->ranks && !more; r++)
        more = !known[r] && b->noticed[r] & (WEFT_BOOT_IS_DEAD | WEFT_BOOT_HAS_LEFT);
    pthread_mutex_unlock(&b->lock);
    return more;
}
