/* SPDX-License-Identifier: Apache-2.0 */
/* Finding libcuda.so.1 and its functions. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <weft/status.h>
#include "base/runtime.h"
#include "base/signals.h"
#include "devmem/cuda/driver.h"

static const struct {
    const char *symbol;
    size_t offset;
    int is_needed;
} functions[] = {
#define ROW(field, symbol, is_needed, arguments)                                                             \
    {symbol, offsetof(struct weft_cuda_driver, field), is_needed},
    WEFT_CUDA_FUNCTIONS(ROW)
#undef ROW
};

/* The version is asked first: of an old driver it says more than the function that it happens to lack. */
static int fill(struct weft_cuda_driver *driver, void *library, char *text, size_t size)
{
    int (*get_version)(int *) = NULL;
    void *address = dlsym(library, "cuDriverGetVersion");
    memcpy(&get_version, &address, sizeof address);
    int version = 0;
    if (!get_version || get_version(&version) != CUDA_SUCCESS) {
        snprintf(text, size, "%s does not report its version", WEFT_RUNTIME_CUDA);
        return WEFT_NOT_FOUND;
    }
    if (version < WEFT_CUDA_VERSION_MIN) {
        snprintf(text, size, "the NVIDIA driver serves CUDA %d.%d, needed is %d.%d or later", version / 1000,
                 version % 1000 / 10, WEFT_CUDA_VERSION_MIN / 1000, WEFT_CUDA_VERSION_MIN % 1000 / 10);
        return WEFT_NOT_FOUND;
    }
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        address = dlsym(library, functions[i].symbol);
        if (!address && functions[i].is_needed) {
            snprintf(text, size, "%s, of CUDA %d.%d, lacks %s", WEFT_RUNTIME_CUDA, version / 1000,
                     version % 1000 / 10, functions[i].symbol);
            return WEFT_NOT_FOUND;
        }
        memcpy((char *)driver + functions[i].offset, &address, sizeof address);
    }
    driver->version = version;
    return 1;
}

int weft_cuda_driver_find(struct weft_cuda_driver *driver, char *text, size_t size)
{
    void *library = dlopen(WEFT_RUNTIME_CUDA, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (!library)
        return 0;
    int status = fill(driver, library, text, size);
    /* Who loaded it may unload it, but a driver that has been initialised is never unloaded; before that,
     * identify() calls nothing but what says that it is not. Both need the code to stay. */
    if (status == 1 && !dlopen(WEFT_RUNTIME_CUDA, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD | RTLD_NODELETE))
        status = 0;
    dlclose(library);
    return status;
}

int weft_cuda_driver_load(struct weft_cuda_driver *driver, char *text, size_t size)
{
    struct weft_signals signals;
    weft_signals_save(&signals);
    void *library = dlopen(WEFT_RUNTIME_CUDA, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    weft_signals_restore(&signals);
    if (!library) {
        snprintf(text, size, "%s cannot be loaded: no NVIDIA driver here", WEFT_RUNTIME_CUDA);
        return WEFT_NOT_FOUND;
    }
    return fill(driver, library, text, size);
}
