/* SPDX-License-Identifier: Apache-2.0 */
/* What hwloc looks at: this machine, or XML of its own (lstopo machine.xml, hwloc_topology_export_xml()).
 *
 * Of this machine, parts of hwloc that would open GPUs' runtimes (CUDA, OpenCL, displays) or move the calling thread from
 * processor to processor (x86) are turned off: the first take seconds and memory, and the second disturbs the program.
 *
 * A file comes from anywhere, and hwloc's loader trusts it: it ends the process (assert()) on some that hwloc never wrote.
 * So its text is checked first (hwloc_text.c), and then read in a child process (hwloc_trial.c).
 */
#include <stdlib.h>
#include "base/error.h"
#include "topo/discover/discover.h"
#include "topo/discover/hwloc.h"

static int convert(const struct weft_hwloc_library *hwloc, hwloc_topology_t topology,
                   const struct weft_text *text, unsigned host_flags, struct weft_graph *graph)
{
    struct weft_hwloc_machine machine = {.hwloc = hwloc, .topology = topology, .text = text, .graph = graph};
    int status = weft_hwloc_nodes(&machine, host_flags);
    if (!status)
        status = weft_hwloc_devices(&machine);
    if (!status)
        status = weft_hwloc_links(&machine);
    free(machine.numas);
    free(machine.objects);
    return status;
}

/* --- this machine */

static int look_at_machine(const struct weft_hwloc_library *hwloc, hwloc_topology_t topology)
{
    static const char *const unwanted[] = {"x86", "cuda", "opencl", "gl", "nvml", "levelzero"};
    for (size_t i = 0; i < sizeof unwanted / sizeof *unwanted; i++)
        hwloc->topology_set_components(topology, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, unwanted[i]);
    if (hwloc->topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0 ||
        hwloc->topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT) != 0 ||
        hwloc->topology_load(topology) != 0)
        return weft_fail(WEFT_NOT_FOUND, "hwloc does not tell what this machine is");
    return WEFT_OK;
}

int weft_live_hwloc(unsigned host_flags, struct weft_graph *graph)
{
    static const struct weft_text text = {.name = "this machine"};
    struct weft_hwloc_session session;
    hwloc_topology_t topology;
    int status = weft_hwloc_begin(&session);
    if (status)
        return status;
    if (session.hwloc.topology_init(&topology) != 0) {
        status = weft_fail(WEFT_NOT_FOUND, "hwloc does not begin");
        goto end_session;
    }
    status = look_at_machine(&session.hwloc, topology);
    if (!status)
        status = convert(&session.hwloc, topology, &text, host_flags, graph);
    session.hwloc.topology_destroy(topology);
end_session:
    weft_hwloc_end(&session);
    return status;
}

/* --- a file */

/* What is done with a file, here and in the process that does it first. */
struct reading {
    const struct weft_hwloc_library *hwloc;
    const struct weft_text *text;
    char *xml; /* as it is given to hwloc, and its bytes, without the 0 at its end */
    size_t size;
    struct weft_graph *graph;
    int is_refused; /* by hwloc */
};

static int read_xml(struct reading *reading)
{
    const struct weft_hwloc_library *hwloc = reading->hwloc;
    hwloc_topology_t topology;
    if (hwloc->topology_init(&topology) != 0)
        return weft_fail(WEFT_NOMEM, "no memory for a topology of hwloc");
    int status = WEFT_INVALID;
    reading->is_refused =
        hwloc->topology_set_flags(topology, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED) != 0 ||
        hwloc->topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_ALL) != 0 ||
        hwloc->topology_set_xmlbuffer(topology, reading->xml, (int)reading->size + 1) != 0 ||
        hwloc->topology_load(topology) != 0;
    if (!reading->is_refused)
        status = convert(hwloc, topology, reading->text, 0, reading->graph);
    hwloc->topology_destroy(topology);
    return status;
}

static int is_refused(void *user)
{
    struct reading *reading = user;
    read_xml(reading);
    return reading->is_refused;
}

int weft_read_hwloc(const struct weft_text *text, struct weft_graph *graph)
{
    struct weft_hwloc_session session;
    struct reading reading = {.hwloc = &session.hwloc, .text = text, .graph = graph};
    int status = weft_hwloc_rewrite(text, &reading.xml, &reading.size);
    if (status)
        return status;
    status = weft_hwloc_begin(&session);
    if (status == WEFT_NOT_FOUND)
        status = weft_fail(WEFT_NOT_FOUND,
                           "%.300s: hwloc's XML, which libhwloc 2.1 or later reads: it cannot be loaded",
                           text->name);
    if (status)
        goto free_xml;
    status = weft_hwloc_try(text, is_refused, &reading);
    if (!status)
        status = read_xml(&reading);
    weft_hwloc_end(&session);
free_xml:
    free(reading.xml);
    return status;
}
