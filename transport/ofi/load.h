/* SPDX-License-Identifier: Apache-2.0 */
/* Loading libfabric.
 *
 * The library is opened with dlopen() when the first instance needs it: loading it and asking it for
 * providers takes 100 ms, maps tens of MB, and makes some providers install signal handlers. It is never
 * unloaded, since providers leave threads and handlers behind; the table below is therefore process-wide, and
 * constant once loaded. Everything else of libfabric's interface is inline functions over tables of objects.
 *
 * Threads: any.
 */
#ifndef WEFT_TRANSPORT_OFI_LOAD_H
#define WEFT_TRANSPORT_OFI_LOAD_H

#include <rdma/fabric.h>
#include <sys/types.h>

struct ofi_library {
    int (*getinfo)(uint32_t version, const char *node, const char *service, uint64_t flags,
                   const struct fi_info *hints, struct fi_info **info);
    void (*freeinfo)(struct fi_info *info);
    struct fi_info *(*dupinfo)(const struct fi_info *info);
    int (*fabric)(struct fi_fabric_attr *attr, struct fid_fabric **fabric, void *context);
    const char *(*strerror)(int error);
    uint32_t (*version)(void);
    pid_t loader; /* the process that loaded it; another one is a child, made by fork() without exec() */
};

/* WEFT_NOT_FOUND, saying what to install, when there is no libfabric of at least 1.17. */
int ofi_library_get(const struct ofi_library **library);

#endif
