/* SPDX-License-Identifier: Apache-2.0 */
/* weft's kernels for Level Zero compiled as C, all groups of them. They take long to compile, so nothing else includes them. */
#include "tests/fakes/ze/opencl.h"

#include "tests/fakes/ze/fake_kernel.h"

#define WEFT_KERNEL_GROUP_all WEFT_KERNEL_REDUCTIONS
#define WEFT_GROUP            all
#include "devmem/ze/reduce.cl"

typedef void function(const uchar *, const uchar *, const uchar *, const uchar *, const uchar *,
                      const uchar *, const uchar *, const uchar *, uchar *, uchar *, ulong, ulong, ulong,
                      ulong, ulong, uint, uint, uint);

#define ROW(name, ...) {"weft_ze_" #name, weft_ze_##name},
static const struct {
    const char *name;
    function *run;
} functions[] = {WEFT_KERNEL_REDUCTIONS(ROW, ROW)};

int fake_function_find(const char *name)
{
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        if (strcmp(functions[i].name, name) == 0)
            return (int)i;
    }
    return fake_collective_find(name);
}

static void run_item(const struct fake_launch *launch)
{
    const uint64_t *a = launch->arguments;
    uchar *p[FAKE_POINTERS];
    for (int i = 0; i < FAKE_POINTERS; i++)
        p[i] = (uchar *)launch->reached[i];
    functions[launch->function].run(p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7], p[8], p[9], a[10], a[11],
                                    a[12], a[13], a[14], (uint)a[15], (uint)a[16], (uint)a[17]);
}

/* All work items one after the other; groups run in no order, so sometimes the last one comes first. */
void fake_function_run(const struct fake_launch *launch, int backwards)
{
    struct opencl_span spans[FAKE_POINTERS];
    uint64_t items = (uint64_t)launch->groups * WEFT_KERNEL_THREADS;
    if (launch->function >= FAKE_COLLECTIVES) {
        fake_collective_run(launch);
        return;
    }
    for (int i = 0; i < FAKE_POINTERS; i++)
        spans[i] = (struct opencl_span){(uintptr_t)launch->spans[i].begin, (uintptr_t)launch->spans[i].end};
    opencl_item.groups = launch->groups;
    opencl_item.spans = spans;
    opencl_item.span_count = FAKE_POINTERS;
    for (uint64_t i = 0; i < items; i++) {
        uint64_t item = backwards ? items - 1 - i : i;
        opencl_item.group = (size_t)(item / WEFT_KERNEL_THREADS);
        opencl_item.local = (size_t)(item % WEFT_KERNEL_THREADS);
        run_item(launch);
    }
}
