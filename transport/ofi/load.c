/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/ofi/load.h"

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>
#include "base/error.h"
#include "base/log.h"
#include "base/runtime.h"
#include "base/secure.h"

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER; /* guards library and loaded */
static struct ofi_library library;
static int loaded;

/* The version of the symbol whose structures are those of the headers, so that a later libfabric with another
 * layout keeps working. */
static void *symbol(void *handle, const char *name, const char *version)
{
    void *address = dlvsym(handle, name, version);
    return address ? address : dlsym(handle, name);
}

/* libfabric loads and opens what its own variables name (FI_PROVIDER_PATH for one), also for a caller who has
 * fewer rights than the program. Since a library does not edit its program's environment, such a program does
 * without libfabric. */
static int check_environment(void)
{
    for (char **variable = environ; weft_secure_mode() && variable && *variable; variable++) {
        if (strncmp(*variable, "FI_", 3) == 0)
            return weft_fail(WEFT_ACCESS,
                             "ofi: this program runs with more rights than its caller, who has set %.*s: "
                             "libfabric is not loaded",
                             (int)strcspn(*variable, "="), *variable);
    }
    return WEFT_OK;
}

static int load(void)
{
    int status = check_environment();
    if (status)
        return status;
    void *handle = dlopen(WEFT_RUNTIME_OFI, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return weft_fail(WEFT_NOT_FOUND,
                         "ofi: cannot load " WEFT_RUNTIME_OFI " (%s); install the package libfabric1, "
                         "version 1.17 or later",
                         dlerror());
    struct ofi_library found;
    *(void **)&found.getinfo = symbol(handle, "fi_getinfo", "FABRIC_1.3");
    *(void **)&found.freeinfo = symbol(handle, "fi_freeinfo", "FABRIC_1.3");
    *(void **)&found.dupinfo = symbol(handle, "fi_dupinfo", "FABRIC_1.3");
    *(void **)&found.fabric = symbol(handle, "fi_fabric", "FABRIC_1.1");
    *(void **)&found.strerror = symbol(handle, "fi_strerror", "FABRIC_1.0");
    *(void **)&found.version = symbol(handle, "fi_version", "FABRIC_1.0");
    if (!found.getinfo || !found.freeinfo || !found.dupinfo || !found.fabric || !found.strerror ||
        !found.version)
        status = weft_fail(WEFT_NOT_FOUND, "ofi: " WEFT_RUNTIME_OFI " lacks fi_getinfo or another function; "
                                           "install the package libfabric1, version 1.17 or later");
    else if (FI_VERSION_LT(found.version(), FI_VERSION(1, 17)))
        status = weft_fail(WEFT_NOT_FOUND,
                           "ofi: libfabric %u.%u is too old; install the package libfabric1, version 1.17 or "
                           "later",
                           FI_MAJOR(found.version()), FI_MINOR(found.version()));
    if (status) {
        dlclose(handle);
        return status;
    }
    found.loader = getpid();
    library = found;
    loaded = 1;
    weft_log(WEFT_LOG_INFO, "ofi: loaded libfabric %u.%u", FI_MAJOR(library.version()),
             FI_MINOR(library.version()));
    return WEFT_OK;
}

int ofi_library_get(const struct ofi_library **result)
{
    pthread_mutex_lock(&load_lock);
    int status = loaded ? WEFT_OK : load();
    pthread_mutex_unlock(&load_lock);
    if (!status)
        *result = &library;
    return status;
}
