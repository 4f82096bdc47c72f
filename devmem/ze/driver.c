/* SPDX-License-Identifier: Apache-2.0 */
/* Finding libze_loader.so.1 and its functions. */
#include "devmem/ze/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <weft/status.h>

#include "base/runtime.h"
#include "base/signals.h"

static const struct {
    const char *symbol;
    size_t offset;
    int is_needed;
} functions[] = {
#define ROW(symbol, type, is_needed) {#symbol, offsetof(struct weft_ze_driver, symbol), is_needed},
    WEFT_ZE_FUNCTIONS(ROW)
#undef ROW
};

static int fill(struct weft_ze_driver *driver, void *library, char *text, size_t size)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *address = dlsym(library, functions[i].symbol);
        if (!address && functions[i].is_needed) {
            snprintf(text, size, "%s lacks %s: expected a loader of Level Zero 1.0 or later", WEFT_RUNTIME_ZE,
                     functions[i].symbol);
            return WEFT_NOT_FOUND;
        }
        memcpy((char *)driver + functions[i].offset, &address, sizeof address);
    }
    return 1;
}

int weft_ze_driver_find(struct weft_ze_driver *driver, char *text, size_t size)
{
    void *library = dlopen(WEFT_RUNTIME_ZE, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (!library)
        return 0;
    int status = fill(driver, library, text, size);
    /* Who loaded it may unload it. Its code stays from here on. */
    if (status == 1 && !dlopen(WEFT_RUNTIME_ZE, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE))
        status = 0;
    dlclose(library);
    return status;
}

int weft_ze_driver_load(struct weft_ze_driver *driver, char *text, size_t size)
{
    struct weft_signals signals;
    weft_signals_save(&signals);
    void *library = dlopen(WEFT_RUNTIME_ZE, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    weft_signals_restore(&signals);
    if (!library) {
        snprintf(text, size, "%s cannot be loaded: no Level Zero here", WEFT_RUNTIME_ZE);
        return WEFT_NOT_FOUND;
    }
    return fill(driver, library, text, size);
}
