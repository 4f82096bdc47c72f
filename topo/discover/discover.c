/* SPDX-License-Identifier: Apache-2.0 */
/* This machine as a graph: hwloc for what contains what, sysfs for ports, links on PCI and the kind of host, drivers'
 * libraries for links between GPUs. See topo/read.h for what HWLOC_XMLFILE and HWLOC_FSROOT change. */
#include <stdlib.h>
#include <string.h>
#include "base/error.h"
#include "base/secure.h"
#include "topo/discover/discover.h"
#include "topo/live/live.h"
#include "topo/machines/nccl.h"
#include "topo/read.h"
#include "topo/readers.h"

#define SOURCE "this machine"

/* HWLOC_XMLFILE: the file, which must be what the variable says. */
static int read_file(const char *path, struct weft_graph **graph)
{
    struct weft_graph *read;
    int status = weft_topo_read(path, &read);
    if (status)
        return status;
    const char *expected = weft_topo_readers[WEFT_FORMAT_HWLOC].name;
    if (strcmp(read->format, expected) != 0) {
        status = weft_fail(WEFT_INVALID, "HWLOC_XMLFILE names %.300s, which is %s; expected %s", path,
                           read->format, expected);
        weft_graph_free(read);
        return status;
    }
    *graph = read;
    return WEFT_OK;
}

/* Into a new graph: hwloc's view, or what sysfs says where hwloc is missing or not understood. */
static int read_machine(const char *root, unsigned flags, struct weft_graph **graph)
{
    struct weft_graph *made;
    int status = weft_graph_new(SOURCE, "hwloc", &made);
    if (status)
        return status;
    status = weft_live_hwloc(flags, made);
    if (status)
        weft_graph_free(made);
    if (status == WEFT_NOT_FOUND || status == WEFT_INVALID) {
        status = weft_graph_new(SOURCE, "sysfs", &made);
        if (status)
            return status;
        status = weft_live_machine(root, flags, made);
        if (status)
            weft_graph_free(made);
    }
    if (status == WEFT_OK)
        *graph = made;
    return status;
}

int weft_topo_discover(struct weft_graph **graph)
{
    const char *file = weft_secure_getenv("HWLOC_XMLFILE"), *root = weft_secure_getenv("HWLOC_FSROOT");
    const char *synthetic = weft_secure_getenv("HWLOC_SYNTHETIC");
    if (file)
        return read_file(file, graph);
    struct weft_graph *made;
    unsigned flags = synthetic ? 0 : weft_live_host_flags(root ? root : "");
    int status = read_machine(root ? root : "", flags, &made);
    if (status)
        return status;
    if (!synthetic)
        status = weft_live_host(root ? root : "", made);
    if (!status && !synthetic)
        status = weft_live_ports(root ? root : "", made);
    if (!status && !synthetic)
        status = weft_live_pci(root ? root : "", made);
    if (!status && !synthetic && !root)
        status = weft_live_nvml(made);
    if (!status && !synthetic && !root)
        status = weft_live_sysman(made);
    if (!status)
        status = weft_graph_finish(made);
    if (status) {
        weft_graph_free(made);
        return status;
    }
    weft_error_clear(); /* what is missing is no error */
    *graph = made;
    return WEFT_OK;
}

void weft_discover_begin(void)
{
    setenv("HWLOC_HIDE_ERRORS", "2", 0);   /* 2: those that it calls critical, too */
    setenv("HWLOC_LIBXML_IMPORT", "0", 0); /* see hwloc_text.c */
    weft_topo_read_machines_by(weft_read_hwloc, weft_read_nccl);
}
