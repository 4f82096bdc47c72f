/* SPDX-License-Identifier: Apache-2.0 */
/* Loading the libraries that discovery asks. */
#include <dlfcn.h>
#include <string.h>
#include "base/error.h"
#include "base/signals.h"
#include "topo/discover/discover.h"

int weft_live_load(const char *library, const struct weft_live_function *functions, size_t count, void *table,
                   void **handle)
{
    void *opened = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!opened)
        return weft_fail(WEFT_NOT_FOUND, "%s cannot be loaded", library);
    for (size_t i = 0; i < count; i++) {
        void *address = dlsym(opened, functions[i].name);
        if (!address && !functions[i].is_optional) {
            dlclose(opened);
            return weft_fail(WEFT_NOT_FOUND, "%s lacks %s", library, functions[i].name);
        }
        memcpy((char *)table + functions[i].offset, &address, sizeof address);
    }
    *handle = opened;
    return WEFT_OK;
}

int weft_live_ask(const char *library, const struct weft_live_function *functions, size_t count, void *table,
                  int (*ask)(void *asking), void *asking)
{
    struct weft_signals signals;
    void *handle;
    weft_signals_save(&signals);
    int status = weft_live_load(library, functions, count, table, &handle);
    if (status == WEFT_OK) {
        status = ask(asking);
        dlclose(handle);
    } else if (status == WEFT_NOT_FOUND) {
        status = WEFT_OK;
    }
    weft_signals_restore(&signals);
    return status;
}
