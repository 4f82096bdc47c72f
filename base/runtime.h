/* SPDX-License-Identifier: Apache-2.0 */
/* The libraries that are loaded by name while a program runs: the one list of them. Nothing of weft is linked with any, so what is
 * missing costs what it is for and nothing else. `weft-plan --version` and its like print the list with what is found here, and the
 * packages' dependencies are made from it (mk/debian/loaded.sh).
 */
#ifndef WEFT_BASE_RUNTIME_H
#define WEFT_BASE_RUNTIME_H

#define WEFT_RUNTIME_VERBS "libibverbs.so.1"
#define WEFT_RUNTIME_OFI   "libfabric.so.1"
#define WEFT_RUNTIME_PMIX  "libpmix.so.2"
#define WEFT_RUNTIME_CUDA  "libcuda.so.1"
#define WEFT_RUNTIME_HWLOC "libhwloc.so.15"
#define WEFT_RUNTIME_NVML  "libnvidia-ml.so.1"
#define WEFT_RUNTIME_ZE    "libze_loader.so.1"

struct weft_runtime_library {
    const char *name;
    const char *user;    /* "library": libweft loads it; "tools": weft-topo and its like do */
    const char *kind;    /* what packages say of it: "recommends" or "suggests" */
    const char *purpose; /* what it is for */
    const char *without; /* what happens where it is missing */
};

/* Ends with a row without a name. */
extern const struct weft_runtime_library weft_runtime_libraries[];

#endif
