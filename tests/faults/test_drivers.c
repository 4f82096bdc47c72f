/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside drivers; injected */
/* Each allocation, and the loading, of the parts of discovery that ask drivers' libraries fails in turn, on fakes
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
#include <unistd.h>

#include "tests/support/built.h"
#include "tests/fakes/drivers/drivers.h"
#include "tests/faults/every.h"
#include "topo/discover/discover.h"
#include <weft/weft.h>

static struct nvml_fake *nvml;
static struct sysman_fake *sysman;

static void *load(const char *library, const char *symbol)
{
    char name[64], path[4096];
    snprintf(name, sizeof name, "tests/fakes/drivers/%s", library);
    assert_int_equal(test_built(name, path, sizeof path), 0);
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

static int (*ask)(struct weft_graph *graph);
static uint32_t edges; /* that the last graph got by asking */

static int make_machine(struct weft_graph **graph)
{
    uint32_t host, gpu;
    int status = weft_graph_new("test", "test", graph);
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, "host");
    if (!status)
        status = weft_graph_add_node(*graph, &given, &host);
    for (int i = 0; i < 2 && !status; i++) {
        given = WEFT_NODE_GIVEN(WEFT_NODE_GPU, host, i ? "gpu1" : "gpu0");
        given.pci = i ? "0000:02:00.0" : "0000:01:00.0";
        status = weft_graph_add_node(*graph, &given, &gpu);
    }
    return status;
}

static int ask_for_links(void)
{
    struct weft_graph *graph = NULL;
    int status = make_machine(&graph);
    edges = graph ? graph->edge_count : 0;
    if (!status)
        status = ask(graph);
    assert_int_equal(nvml->open, 0);
    edges = graph ? graph->edge_count - edges : 0;
    weft_graph_free(graph);
    return status;
}

static void test_nvml(void **state)
{
    (void)state;
    ask = weft_live_nvml;
    /* Two arrays, the library and its eleven functions. */
    assert_true(fault_try_first("nvml", ask_for_links, fault_expect_memory_only) >= 14);
    assert_int_equal(edges, 1);
}

static void test_sysman(void **state)
{
    (void)state;
    ask = weft_live_sysman;
    /* Four lists, an array, the library and its seven functions. */
    assert_true(fault_try_first("sysman", ask_for_links, fault_expect_memory_only) >= 12);
    assert_int_equal(edges, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_nvml), cmocka_unit_test(test_sysman)};
    fault_start();
    return cmocka_run_group_tests(tests, load_all, NULL);
}
