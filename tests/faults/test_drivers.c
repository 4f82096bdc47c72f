/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside drivers */
/* Each allocation, and the loading, of the parts of discovery that ask drivers' libraries fails in turn, on stand-ins
 * with two GPUs and a link: WEFT_NOMEM, or a graph without the link; the library is let go, nothing is left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <libgen.h>
#include <unistd.h>

#include "tests/drivers/drivers.h"
#include "tests/faults/inject.h"
#include "topo/discover/discover.h"
#include <weft/weft.h>

static struct nvml_fake *nvml;
static struct sysman_fake *sysman;

static void *load(const char *library, const char *symbol)
{
    char self[1024], path[2048];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(length > 0);
    self[length] = '\0';
    snprintf(path, sizeof path, "%s/../drivers/%s", dirname(self), library);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(handle);
    void *found = dlsym(handle, symbol);
    assert_non_null(found);
    return found;
}

static int load_all(void **state)
{
    (void)state;
    nvml = load("libnvidia-ml.so.1", "nvml_fake");
    sysman = load("libze_loader.so.1", "sysman_fake");
    nvml->gpu_count = sysman->gpu_count = 2;
    nvml->gpus[0] =
        (struct nvml_fake_gpu){.pci = "0000:01:00.0", .link_count = 1, .links = {{1, 0, "0000:02:00.0"}}};
    nvml->gpus[1] =
        (struct nvml_fake_gpu){.pci = "0000:02:00.0", .link_count = 1, .links = {{1, 0, "0000:01:00.0"}}};
    for (uint32_t i = 0; i < 2; i++) {
        sysman->gpus[i].bus = i + 1;
        sysman->gpus[i].port_count = 1;
        sysman->gpus[i].ports[0] = (struct sysman_fake_port){
            .status = 1, .fabric = i, .number = 1, .remote_fabric = 1 - i, .remote_number = 1, .lanes = 4};
    }
    return 0;
}

static struct weft_graph *machine(void)
{
    struct weft_graph *graph;
    uint32_t host, gpu;
    assert_int_equal(weft_graph_new("test", "test", &graph), WEFT_OK);
    struct weft_node_told told = WEFT_NODE_TOLD(WEFT_NODE_HOST, WEFT_NODE_NONE, "host");
    assert_int_equal(weft_graph_add_node(graph, &told, &host), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        told = WEFT_NODE_TOLD(WEFT_NODE_GPU, host, i ? "gpu1" : "gpu0");
        told.pci = i ? "0000:02:00.0" : "0000:01:00.0";
        assert_int_equal(weft_graph_add_node(graph, &told, &gpu), WEFT_OK);
    }
    return graph;
}

/* How many calls failed. */
static uint32_t fail_each(int (*ask)(struct weft_graph *graph))
{
    static const int calls[] = {FAULT_MALLOC, FAULT_CALLOC, FAULT_REALLOC, FAULT_DLOPEN, FAULT_DLSYM};
    uint32_t failures = 0;
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        int is_memory = c < 3;
        for (uint32_t k = 1;; k++) {
            struct fault_aim aim = {.call = calls[c], .way = 0, .k = k};
            struct fault_report report;
            size_t before = fault_blocks_live();
            struct weft_graph *graph = machine();
            uint32_t edges = graph->edge_count;
            fault_arm(&aim);
            int status = ask(graph);
            fault_disarm(&report);
            assert_int_equal(nvml->open, 0);
            assert_int_equal(status, report.reached && is_memory ? WEFT_NOMEM : WEFT_OK);
            if (!report.reached)
                assert_int_equal(graph->edge_count, edges + 1);
            weft_graph_free(graph);
            assert_int_equal(fault_blocks_live(), before);
            if (!report.reached)
                break;
            failures++;
        }
    }
    return failures;
}

static void test_nvml(void **state)
{
    (void)state;
    assert_true(fail_each(weft_live_nvml) >= 14); /* two arrays, the library and its eleven functions */
}

static void test_sysman(void **state)
{
    (void)state;
    assert_true(fail_each(weft_live_sysman) >=
                12); /* four lists, an array, the library and its seven functions */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nvml), cmocka_unit_test(test_sysman)};
    fault_start();
    return cmocka_run_group_tests(tests, load_all, NULL);
}
