/* SPDX-License-Identifier: Apache-2.0 */
/* Path classes on files of NCCL's, as NCCL's own words for the same machines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/topo_asks.h"
#include "tests/support/topo_files.h"
#include "topo/discover/discover.h"
#include "topo/path.h"
#include <weft/weft.h>

static const char *class_of(const struct weft_graph *graph, const char *a, const char *b)
{
    uint32_t x = topo_node(graph, a), y = topo_node(graph, b);
    enum weft_path_class one = weft_path_classify(graph, x, y);
    assert_int_equal(one, weft_path_classify(graph, y, x));
    return weft_path_class_name(one);
}

struct path_case {
    const char *file, *a, *b, *class;
};
static const struct path_case
    ours[] =
        {
            {"nvidia-4gpu-2nic.xml", "gpu0", "gpu1", "NVL"},
            {"nvidia-4gpu-2nic.xml", "gpu0", "gpu3", "NVL"},
            {"nvidia-4gpu-2nic.xml", "gpu1", "mlx5_0", "PIX"},
            {"nvidia-4gpu-2nic.xml", "gpu1", "mlx5_1", "SYS"},
            {"rocm-4gpu-3nic.xml", "gpu0", "gpu2", "NVL"},
            {"rocm-4gpu-3nic.xml", "gpu0", "mlx5_0", "PIX"},
            {"rocm-4gpu-3nic.xml", "gpu2", "0000:60:00.0", "PHB"},
            {"rocm-4gpu-3nic.xml", "gpu2", "mlx5_0", "SYS"},
            {"hwloc-2package.xml", "gpu0", "mlx5_0", "PIX"},
            {"hwloc-2package.xml", "gpu0", "gpu1", "SYS"},
},
    real[] = {
        /* Below 05: a switch with the NIC and, two switches further, the GPU. */
        {"rocm-8gpu-8nic-mi300.xml", "0000:0c:00.0", "0000:07:00.0", "PXB"},
        {"rocm-8gpu-8nic-mi300.xml", "gpu0", "mlx5_1", "PHB"},
        {"rocm-8gpu-8nic-mi300.xml", "gpu0", "gpu7", "NVL"},
        {"rocm-8gpu-8nic-mi300.xml", "gpu0", "mlx5_7", "SYS"},
        {"rocm-8gpu-8nic-mi300.xml", "mlx5_0", "mlx5_1", "PHB"},
        /* Both on one of the eight switches with the same address; and on two of them. */
        {"rocm-16gpu-16nic.xml", "gpu0", "mlx5_12", "PIX"},
        {"rocm-16gpu-16nic.xml", "gpu0", "mlx5_11", "PXB"},
        {"rocm-16gpu-16nic.xml", "gpu0", "mlx5_14", "PHB"},
        {"rocm-16gpu-16nic.xml", "0000:cf:00.0", "0000:d4:00.0", "NVL"},
        {"rocm-16gpu-16nic.xml", "0000:cf:00.0", "0000:d0:00.0", "PXB"},
        {"rocm-8gpu-rome-7numa.xml", "gpu1", "gpu2", "PHB"},
        {"rocm-8gpu-rome-7numa.xml", "gpu0", "gpu2", "NVL"},
        {"rocm-8gpu-rome-7numa.xml", "gpu0", "mlx5_0", "SYS"},
        {"aws-p4d-24xl.xml", "0000:10:1c.0", "0000:10:1b.0", "PIX"},
        {"aws-p4d-24xl.xml", "0000:10:1c.0", "0000:10:1d.0", "PIX"},
        {"aws-p4d-24xl.xml", "0000:10:1c.0", "0000:20:1b.0", "PHB"},
        {"aws-p4d-24xl.xml", "0000:10:1c.0", "0000:90:1b.0", "SYS"},
        {"azure-ndv4.xml", "0003:00:00.0", "0104:00:00.0", "PIX"},
        {"azure-ndv4.xml", "0003:00:00.0", "0004:00:00.0", "PIX"},
        {"azure-ndv4.xml", "0003:00:00.0", "0101:00:00.0", "SYS"},
};

static void case_is(const struct path_case *one, char *text)
{
    struct weft_graph *graph = topo_read(text);
    const char *class = class_of(graph, one->a, one->b);
    if (strcmp(class, one->class) != 0)
        fail_msg("%s: %s and %s are %s, expected %s", one->file, one->a, one->b, class, one->class);
    weft_graph_free(graph);
    free(text);
}

static void test_samples(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        case_is(&ours[i], topo_sample(ours[i].file, NULL));
}

static void test_real_samples(void **state)
{
    (void)state;
    int found = 0;
    for (size_t i = 0; i < sizeof real / sizeof *real; i++) {
        char *text, path[64] = "nccl-xml/";
        size_t size;
        strcat(path, real[i].file);
        if (topo_file(path, &text, &size))
            continue;
        found = 1;
        case_is(&real[i], text);
    }
    if (!found)
        skip();
}

/* GPUs that share nothing but NVSwitches, with all their links to each; and one on PCI only. */
static void test_nvswitch(void **state)
{
    (void)state;
    struct weft_graph *graph =
        topo_read("<system version=\"1\"><cpu numaid=\"0\"><pci busid=\"1:0.0\"><gpu dev=\"0\" sm=\"90\">"
                  "<nvlink target=\"fffffff:ffff:ff\" count=\"18\" tclass=\"0x068000\"/></gpu></pci></cpu>"
                  "<cpu numaid=\"1\"><pci busid=\"2:0.0\"><gpu dev=\"1\" sm=\"90\">"
                  "<nvlink target=\"fffffff:ffff:ff\" count=\"18\" tclass=\"0x068000\"/></gpu></pci>"
                  "<pci busid=\"3:0.0\"><gpu dev=\"2\" sm=\"90\"/></pci></cpu></system>");
    assert_string_equal(class_of(graph, "gpu0", "gpu1"), "NVL");
    assert_string_equal(class_of(graph, "gpu1", "gpu2"), "PHB");
    uint32_t a, b;
    struct weft_path path;
    assert_int_equal(weft_graph_find(graph, "gpu0", &a), WEFT_OK);
    assert_int_equal(weft_graph_find(graph, "gpu1", &b), WEFT_OK);
    assert_int_equal(weft_path_find(graph, a, b, &path), WEFT_OK);
    assert_true(path.bytes_per_s == 450000000000u);
    weft_graph_free(graph);
}

int main(void)
{
    weft_discover_begin();
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_samples), cmocka_unit_test(test_real_samples),
                                       cmocka_unit_test(test_nvswitch)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
