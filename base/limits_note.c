/* SPDX-License-Identifier: Apache-2.0 */
/* That descriptors ran out, kept for a while. Apart from base/limits.c, for errors note it and limits use errors. */
#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/limits.h"

#define RECENT_NS INT64_C(10000000000)

static _Atomic int64_t noted_ns;
static atomic_int noted;

void weft_limits_note(int error)
{
    if (error != EMFILE && error != ENFILE)
        return;
    atomic_store(&noted, error);
    atomic_store(&noted_ns, weft_clock_ns());
}

int weft_limits_noted(void)
{
    int64_t since_ns = atomic_load(&noted_ns);
    return since_ns && weft_clock_ns() - since_ns < RECENT_NS ? atomic_load(&noted) : 0;
}
