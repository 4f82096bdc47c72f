/* SPDX-License-Identifier: Apache-2.0 */
/* libhwloc, left out of this build. */
#include "base/error.h"
#include "topo/discover/discover.h"

int weft_live_hwloc(char **xml, size_t *size)
{
    (void)xml;
    (void)size;
    return weft_fail(WEFT_MISSING, "built without hwloc (WITH_HWLOC=no)");
}
