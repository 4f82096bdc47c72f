/* SPDX-License-Identifier: Apache-2.0 */
/* The NUMA node of a thread, without loading hwloc: what every rank tells when a communicator is made. */
#ifndef WEFT_TOPO_LIVE_NUMA_H
#define WEFT_TOPO_LIVE_NUMA_H

#include <sched.h>

/* The number of the one NUMA node that holds all these processors; -1 where several do, or the kernel does not say
 * (Documentation/ABI/stable/sysfs-devices-node). sysfs: "/sys". */
int weft_numa_of(const cpu_set_t *processors, const char *sysfs);

#endif
