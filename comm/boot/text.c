/* SPDX-License-Identifier: Apache-2.0 */
/* Small things that are said about ranks. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/hash.h"
#include "base/log.h"
#include "comm/boot/boot.h"

#define TEXT_MAX 160 /* of the list; the rest is counted */

int weft_boot_set_text(const unsigned char *set, int ranks, char *text, size_t capacity)
{
    int count = 0, listed = 0;
    for (int r = 0; r < ranks; r++)
        count += weft_boot_set_has(set, r);
    size_t used = (size_t)snprintf(text, capacity, count == 1 ? "rank " : "ranks ");
    for (int r = 0; r < ranks && used < TEXT_MAX && used < capacity; r++) {
        int first = r;
        while (r < ranks && weft_boot_set_has(set, r))
            r++;
        if (r == first)
            continue;
        used += (size_t)snprintf(text + used, capacity - used, "%s%d", listed ? ", " : "", first);
        if (r - 1 > first && used < capacity)
            used += (size_t)snprintf(text + used, capacity - used, "-%d", r - 1);
        listed += r - first;
    }
    if (listed < count && used < capacity)
        snprintf(text + used, capacity - used, ", ... (%d in all)", count);
    return count;
}

int weft_boot_say_trying(const char *what, const char *doing, int64_t start_ns, int64_t after_ns,
                         int64_t deadline_ns)
{
    int64_t now_ns = weft_clock_ns();
    char left[48] = "without end (WEFT_TIMEOUT_MS)";
    if (now_ns - start_ns < after_ns || now_ns >= deadline_ns)
        return 0;
    if (deadline_ns != WEFT_NEVER_NS)
        snprintf(left, sizeof left, "for another %.0f s", (double)(deadline_ns - now_ns) / 1e9);
    weft_log(WEFT_LOG_WARN, "%s: still %s, %s", what, doing, left);
    return 1;
}

uint64_t weft_boot_name_hash(const char *name)
{
    return weft_hash_text(WEFT_HASH_START, name ? name : "");
}

void weft_boot_self(struct weft_boot_member *member)
{
    memset(member, 0, sizeof *member);
    member->pid = (uint32_t)getpid();
    if (gethostname(member->host, sizeof member->host) != 0)
        snprintf(member->host, sizeof member->host, "unknown");
    member->host[sizeof member->host - 1] = '\0';
}
