/* SPDX-License-Identifier: Apache-2.0 */
/* What the figures were taken on. */
#ifndef WEFT_PERF_MACHINE_H
#define WEFT_PERF_MACHINE_H

#include <stddef.h>

struct perf_machine {
    char host[64];
    char system[256]; /* kernel name, release, machine */
    char cpu[128];    /* the processor's model */
    int cores;        /* online */
    char date[32];    /* UTC, ISO 8601 */
};

void perf_machine_describe(struct perf_machine *machine);

#endif
