/* SPDX-License-Identifier: Apache-2.0 */
/* libhwloc, loaded when it is asked and let go afterwards. */
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/runtime.h"
#include "base/secure.h"
#include "topo/discover/discover.h"
#include "topo/discover/hwloc.h"

#define API_MAJOR 2

#define FUNCTION(name)                                                                                       \
    {                                                                                                        \
        "hwloc_" #name, offsetof(struct weft_hwloc_library, name), 0                                         \
    }
static const struct weft_live_function functions[] = {
    FUNCTION(get_api_version),
    FUNCTION(topology_init),
    FUNCTION(topology_set_flags),
    FUNCTION(topology_set_io_types_filter),
    FUNCTION(topology_set_components),
    FUNCTION(topology_set_xmlbuffer),
    FUNCTION(topology_load),
    FUNCTION(topology_destroy),
    FUNCTION(get_obj_by_depth),
    FUNCTION(bitmap_weight),
    FUNCTION(bitmap_first),
    FUNCTION(bitmap_last),
    FUNCTION(bitmap_to_ith_ulong),
    FUNCTION(distances_get_by_name),
    FUNCTION(distances_release),
};

/* A program with more rights than its caller loads nothing that the caller's variables name, such as HWLOC_PLUGINS_PATH. Those
 * that weft_discover_begin() sets name nothing. */
static int may_load(void)
{
    for (char **variable = environ; weft_secure_mode() && variable && *variable; variable++) {
        if (strncmp(*variable, "HWLOC_", 6) == 0 && strncmp(*variable, "HWLOC_HIDE_ERRORS=", 18) != 0 &&
            strncmp(*variable, "HWLOC_LIBXML_IMPORT=", 20) != 0)
            return 0;
    }
    return 1;
}

int weft_hwloc_begin(struct weft_hwloc_session *session)
{
    if (!may_load())
        return weft_fail(WEFT_NOT_FOUND, "a caller with fewer rights has set variables of hwloc");
    weft_signals_save(&session->signals);
    int status = weft_live_load(WEFT_RUNTIME_HWLOC, functions, sizeof functions / sizeof *functions,
                                &session->hwloc, &session->handle);
    if (status)
        goto restore_signals;
    if (session->hwloc.get_api_version() >> 16 == API_MAJOR)
        return WEFT_OK;
    status = weft_fail(WEFT_NOT_FOUND, WEFT_RUNTIME_HWLOC " is no hwloc 2");
    dlclose(session->handle);
restore_signals:
    weft_signals_restore(&session->signals);
    return status;
}

void weft_hwloc_end(struct weft_hwloc_session *session)
{
    dlclose(session->handle);
    weft_signals_restore(&session->signals);
}
