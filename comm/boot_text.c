/* SPDX-License-Identifier: Apache-2.0 */
/* Small things that are said about ranks. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/hash.h"
#include "comm/boot.h"

#define SWEPT    32  /* strangers at a time */
#define TEXT_MAX 160 /* of the list; the rest is counted */

void weft_boot_late_collect(const unsigned char *present, int ranks, struct weft_boot_late *late)
{
    late->missing = late->range_count = 0;
    for (int i = 0; i < ranks; i++) {
        if (present[i])
            continue;
        late->missing++;
        struct weft_boot_range *last = late->range_count ? &late->ranges[late->range_count - 1] : NULL;
        if (last && last->last + 1 == (uint32_t)i)
            last->last++;
        else if (late->range_count < WEFT_BOOT_RANGES_MAX)
            late->ranges[late->range_count++] = (struct weft_boot_range){(uint32_t)i, (uint32_t)i};
    }
}

const char *weft_boot_late_text(const struct weft_boot_late *late, char *text, size_t capacity)
{
    size_t used = (size_t)snprintf(text, capacity, late->missing == 1 ? "rank " : "ranks ");
    uint32_t listed = 0;
    for (uint32_t i = 0; i < late->range_count && used < TEXT_MAX && used < capacity; i++) {
        const struct weft_boot_range *range = &late->ranges[i];
        const char *comma = i ? ", " : "";
        listed += range->last - range->first + 1;
        if (range->first == range->last)
            used += (size_t)snprintf(text + used, capacity - used, "%s%u", comma, (unsigned)range->first);
        else
            used += (size_t)snprintf(text + used, capacity - used, "%s%u-%u", comma, (unsigned)range->first,
                                     (unsigned)range->last);
    }
    if (listed < late->missing && used < capacity)
        snprintf(text + used, capacity - used, ", ... (%u in all)", (unsigned)late->missing);
    return text;
}

uint64_t weft_boot_name_hash(const char *name)
{
    return weft_hash_text(WEFT_HASH_START, name ? name : "");
}

/* One at most is kept for sweeping: rank 0 and the others each listen once. */
void weft_boot_retire(struct weft_bootstrap *b, struct weft_boot_accept *accept)
{
    if (!accept)
        return;
    weft_boot_accept_stop(accept);
    weft_boot_accept_close(b->retired);
    b->retired = accept;
    weft_boot_sweep(b);
}

void weft_boot_sweep(struct weft_bootstrap *b)
{
    if (b->retired && weft_boot_accept_sweep(b->retired, SWEPT) == 0) {
        weft_boot_accept_close(b->retired);
        b->retired = NULL;
    }
}

void weft_boot_self(struct weft_boot_member *member)
{
    memset(member, 0, sizeof *member);
    member->pid = (uint32_t)getpid();
    if (gethostname(member->host, sizeof member->host) != 0)
        snprintf(member->host, sizeof member->host, "unknown");
    member->host[sizeof member->host - 1] = '\0';
}
