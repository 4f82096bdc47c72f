/* SPDX-License-Identifier: Apache-2.0 */
/* run: unthreaded (files are read) */
/* Whole files of NCCL's kind: ours, and real ones where they stand beside the repository. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>
#include <weft/weft.h>

#include "tests/support/topo_asks.h"
#include "tests/support/topo_files.h"

/* Counted in each file by hand: elements <gpu> and <nic>, or classes 0x03.... and 0x02...., <cpu>, 0x0604.., and
 * pairs of targets. */
struct sample {
    const char *file;
    uint32_t gpus, nics, numa, bridges, ports, links;
};

static void sample_is(const struct sample *sample, char *text)
{
    struct weft_graph *g = topo_read(text);
    assert_int_equal(topo_count(g, WEFT_NODE_GPU), sample->gpus);
    assert_int_equal(topo_count(g, WEFT_NODE_NIC), sample->nics);
    assert_int_equal(topo_count(g, WEFT_NODE_NUMA), sample->numa);
    assert_int_equal(topo_count(g, WEFT_NODE_BRIDGE), sample->bridges);
    assert_int_equal(topo_count(g, WEFT_NODE_PORT), sample->ports);
    assert_int_equal(topo_count(g, WEFT_NODE_DEVICE), 0);
    assert_int_equal(topo_count_edges(g, WEFT_EDGE_GPU_LINK), sample->links);
    weft_graph_free(g);
    free(text);
}

static void test_samples(void **state)
{
    (void)state;
    /* In both each GPU reaches each other one: over NVSwitches, and straight. */
    sample_is(&(struct sample){"nvidia-4gpu-2nic.xml", 4, 2, 2, 2, 2, 6},
              topo_sample("nvidia-4gpu-2nic.xml", NULL));
    sample_is(&(struct sample){"rocm-4gpu-3nic.xml", 4, 2, 2, 2, 3, 6},
              topo_sample("rocm-4gpu-3nic.xml", NULL));
}

static void test_real_samples(void **state)
{
    (void)state;
    static const struct sample samples[] = {
        {"nccl-xml/aws-p4d-24xl.xml", 8, 4, 2, 4, 0, 0},
        {"nccl-xml/azure-ndv4.xml", 8, 8, 4, 4, 0, 0},
        {"nccl-xml/rocm-16gpu-16nic.xml", 16, 16, 1, 20, 16, 24},
        {"nccl-xml/rocm-8gpu-8nic-mi300.xml", 8, 8, 2, 24, 8, 28},
        {"nccl-xml/rocm-8gpu-rome-7numa.xml", 8, 1, 7, 8, 1, 8},
    };
    int found = 0;
    for (size_t i = 0; i < sizeof samples / sizeof *samples; i++) {
        char *text;
        size_t size;
        if (topo_file(samples[i].file, &text, &size))
            continue;
        found = 1;
        sample_is(&samples[i], text);
    }
    if (!found)
        skip();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples), cmocka_unit_test(test_real_samples)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
