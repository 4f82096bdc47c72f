/* SPDX-License-Identifier: Apache-2.0 */
/* build: beside drivers */
/* Links between GPUs as drivers' libraries tell them, on fakes of these libraries: there need be no GPU here. */
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
#include "topo/discover/discover.h"
#include "topo/live/live.h"
#include <weft/weft.h>

static struct nvml_fake *nvml;
static struct sysman_fake *sysman;

/* The fakes lie in the build folder. */
static void *load(const char *library, const char *symbol)
{
    char name[64], path[4096];
    snprintf(name, sizeof name, "tests/fakes/drivers/%s", library);
    assert_int_equal(test_built(name, path, sizeof path), 0);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        print_message("%s\n", dlerror());
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
    return 0;
}

/* A host with four GPUs on buses 1 to 4, two on each NUMA node. */
static struct weft_graph *machine(void)
{
    struct weft_graph *graph;
    uint32_t host, numas[2], gpu;
    assert_int_equal(weft_graph_new("test", "test", &graph), WEFT_OK);
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, "host");
    assert_int_equal(weft_graph_add_node(graph, &given, &host), WEFT_OK);
    for (int i = 0; i < 2; i++) {
        char name[32];
        snprintf(name, sizeof name, "numa%d", i);
        given = WEFT_NODE_GIVEN(WEFT_NODE_NUMA, host, name);
        assert_int_equal(weft_graph_add_node(graph, &given, &numas[i]), WEFT_OK);
    }
    for (int i = 0; i < 4; i++) {
        char name[32], pci[32];
        snprintf(name, sizeof name, "gpu%d", i);
        snprintf(pci, sizeof pci, "0000:0%d:00.0", i + 1);
        given = WEFT_NODE_GIVEN(WEFT_NODE_GPU, numas[i / 2], name);
        given.pci = pci;
        given.parent_pci = 1;
        assert_int_equal(weft_graph_add_node(graph, &given, &gpu), WEFT_OK);
    }
    return graph;
}

static uint32_t links(const struct weft_graph *graph)
{
    uint32_t found = 0;
    for (uint32_t i = 0; i < graph->edge_count; i++)
        found += graph->edges[i].kind == WEFT_EDGE_GPU_LINK;
    return found;
}

static int is_end(const struct weft_graph *graph, uint32_t node, const char *name)
{
    const struct weft_node *found = &graph->nodes[node];
    return strcmp(found->pci ? found->pci : found->name, name) == 0;
}

/* The one edge between two, by address or by name; NULL when there is none. */
static const struct weft_edge *link_between(const struct weft_graph *graph, const char *a, const char *b)
{
    const struct weft_edge *found = NULL;
    for (uint32_t i = 0; i < graph->edge_count; i++) {
        const struct weft_edge *edge = &graph->edges[i];
        if (edge->kind != WEFT_EDGE_GPU_LINK || !((is_end(graph, edge->a, a) && is_end(graph, edge->b, b)) ||
                                                  (is_end(graph, edge->a, b) && is_end(graph, edge->b, a))))
            continue;
        assert_null(found);
        found = edge;
    }
    return found;
}

#define GPU1 "0000:01:00.0"
#define GPU2 "0000:02:00.0"
#define GPU3 "0000:03:00.0"
#define GPU4 "0000:04:00.0"

static void check_link(const struct weft_graph *graph, const char *a, const char *b, unsigned flags,
                       uint32_t count, uint64_t bytes_per_s)
{
    const struct weft_edge *edge = link_between(graph, a, b);
    assert_non_null(edge);
    assert_int_equal(edge->flags, flags);
    assert_int_equal(edge->links, count);
    assert_true(edge->bytes_per_s == bytes_per_s);
}

/* --- NVML */

static void nvml_reset(void)
{
    static const char *const addresses[] = {"00000000:01:00.0", "00000000:02:00.0", "00000000:03:00.0",
                                            "00000000:04:00.0"};
    memset(nvml, 0, sizeof *nvml);
    nvml->gpu_count = 4;
    for (int i = 0; i < 4; i++)
        nvml->gpus[i].pci = addresses[i];
}

static void nvml_link(int gpu, unsigned is_active, unsigned type, const char *remote)
{
    struct nvml_fake_gpu *to = &nvml->gpus[gpu];
    to->links[to->link_count++] = (struct nvml_fake_link){is_active, type, remote};
}

static struct weft_graph *ask_nvml(void)
{
    struct weft_graph *graph = machine();
    assert_int_equal(weft_live_nvml(graph), WEFT_OK);
    assert_int_equal(nvml->open, 0);
    assert_int_equal(weft_graph_finish(graph), WEFT_OK);
    return graph;
}

static void test_nvlink_direct(void **state)
{
    (void)state;
    nvml_reset();
    nvml->common_mb_per_s = 25781;
    for (int i = 0; i < 3;
         i++) { /* three links from the first GPU to the second, one of them down at one end */
        nvml_link(0, 1, 0, nvml->gpus[1].pci);
        nvml_link(1, i > 0, 0, nvml->gpus[0].pci);
    }
    nvml_link(0, 0, 0, nvml->gpus[2].pci);  /* not active */
    nvml_link(0, 1, 0, "00000000:77:00.0"); /* a GPU that this container does not see */
    nvml_link(2, 1, 1, NULL);               /* to a POWER processor */
    nvml_link(2, 1, 255, NULL);             /* to what nobody knows */
    struct weft_graph *graph = ask_nvml();
    assert_int_equal(links(graph), 2);
    check_link(graph, GPU1, GPU2, WEFT_EDGE_NVLINK, 3, 25781000000);
    check_link(graph, GPU3, "numa1", WEFT_EDGE_NVLINK, 1, 25781000000);
    weft_graph_free(graph);
}

static void test_nvlink_switches(void **state)
{
    (void)state;
    nvml_reset();
    nvml->link_mb_per_s = 26562;
    nvml->common_mb_per_s = 1;
    for (int gpu = 0; gpu < 4; gpu++) {
        for (int link = 0; link < (gpu == 1 ? 17 : 18); link++)
            nvml_link(gpu, 1, 2, "00000000:05:00.0");
        nvml->gpus[gpu].partition = gpu == 3;
    }
    struct weft_graph *graph = ask_nvml();
    assert_int_equal(links(graph), 3); /* the fourth is in a partition of its own */
    check_link(graph, GPU1, GPU2, WEFT_EDGE_NVLINK | WEFT_EDGE_NVSWITCH, 17, 26562000000);
    check_link(graph, GPU1, GPU3, WEFT_EDGE_NVLINK | WEFT_EDGE_NVSWITCH, 18, 26562000000);
    weft_graph_free(graph);
}

/* Where the driver tells no speed, only versions that never meant anything else do. */
static void test_nvlink_speed(void **state)
{
    (void)state;
    static const struct {
        unsigned version;
        uint64_t bytes_per_s;
    } cases[] = {{1, 20000000000}, {2, 25000000000}, {5, 0}, {7, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        nvml_reset();
        nvml->version = cases[i].version;
        nvml_link(0, 1, 0, nvml->gpus[1].pci);
        nvml_link(1, 1, 0, nvml->gpus[0].pci);
        struct weft_graph *graph = ask_nvml();
        check_link(graph, GPU1, GPU2, WEFT_EDGE_NVLINK, 1, cases[i].bytes_per_s);
        weft_graph_free(graph);
    }
}

static void test_c2c(void **state)
{
    (void)state;
    nvml_reset();
    nvml->gpus[0].c2c_links = 10;
    struct weft_graph *graph = ask_nvml();
    assert_int_equal(links(graph), 1);
    check_link(graph, GPU1, "numa0", WEFT_EDGE_C2C, 10, 45000000000);
    weft_graph_free(graph);
}

/* GPUs are numbered as nvidia-smi does where NVML knows all of them. */
static void test_nvml_numbers(void **state)
{
    (void)state;
    for (int all = 0; all < 2; all++) {
        nvml_reset();
        const char *first = nvml->gpus[0].pci;
        nvml->gpus[0].pci = nvml->gpus[3].pci;
        nvml->gpus[3].pci = first;
        nvml->gpu_count = all ? 4 : 3;
        struct weft_graph *graph = ask_nvml();
        uint32_t gpu = weft_live_find(graph, WEFT_NODE_GPU, GPU4);
        assert_string_equal(graph->nodes[gpu].name, all ? "gpu0" : "gpu3");
        assert_string_equal(weft_graph_attribute(graph, gpu, "NVML"), "nvml0");
        weft_graph_free(graph);
    }
}

static void test_nvml_refuses(void **state)
{
    (void)state;
    nvml_reset();
    nvml_link(0, 1, 0, nvml->gpus[1].pci);
    nvml->init_result = 9; /* the driver is not loaded */
    struct weft_graph *graph = ask_nvml();
    assert_int_equal(links(graph), 0);
    weft_graph_free(graph);
    nvml_reset(); /* GPUs that the graph lacks, two of one address, an address that is none */
    nvml->gpus[0].pci = "00000000:99:00.0";
    nvml->gpus[1].pci = "garbage";
    nvml->gpus[3].pci = nvml->gpus[2].pci;
    nvml_link(2, 1, 0, nvml->gpus[3].pci);
    nvml_link(3, 1, 0, nvml->gpus[2].pci);
    nvml_link(2, 1, 0, "garbage");
    graph = ask_nvml();
    assert_int_equal(links(graph), 0);
    weft_graph_free(graph);
}

/* --- Sysman */

static void sysman_port(int gpu, uint32_t status, uint8_t number, int remote_gpu, uint8_t remote)
{
    struct sysman_fake_gpu *to = &sysman->gpus[gpu];
    to->ports[to->port_count++] = (struct sysman_fake_port){.status = status,
                                                            .fabric = 100u + (uint32_t)gpu,
                                                            .attach = 1,
                                                            .number = number,
                                                            .remote_fabric = 100u + (uint32_t)remote_gpu,
                                                            .remote_attach = 1,
                                                            .remote_number = remote,
                                                            .bits_per_s = 53125000000,
                                                            .lanes = 4};
}

static void sysman_reset(void)
{
    memset(sysman, 0, sizeof *sysman);
    sysman->gpu_count = 3;
    for (uint32_t i = 0; i < 3; i++)
        sysman->gpus[i].bus = i + 1;
}

static struct weft_graph *ask_sysman(void)
{
    struct weft_graph *graph = machine();
    assert_int_equal(weft_live_sysman(graph), WEFT_OK);
    assert_int_equal(sysman->init_count, 1);
    assert_int_equal(weft_graph_finish(graph), WEFT_OK);
    return graph;
}

static void test_xe_links(void **state)
{
    (void)state;
    sysman_reset();
    sysman_port(0, 1, 1, 1, 1);
    sysman_port(1, 1, 1, 0, 1);
    sysman_port(0, 2, 2, 1, 2);
    sysman_port(1, 1, 2, 0, 2);
    sysman_port(0, 3, 3, 2, 1); /* failed */
    sysman_port(2, 1, 1, 0, 3);
    sysman_port(1, 1, 5, 2, 5); /* the other end says otherwise */
    sysman_port(2, 1, 5, 1, 6);
    sysman_port(2, 1, 7, 2, 8); /* inside one GPU */
    sysman_port(2, 1, 8, 2, 7);
    struct weft_graph *graph = ask_sysman();
    assert_int_equal(links(graph), 1);
    check_link(graph, GPU1, GPU2, WEFT_EDGE_XE, 2, 26562500000);
    weft_graph_free(graph);
}

static void test_xe_speed(void **state)
{
    (void)state;
    sysman_reset();
    sysman_port(0, 1, 1, 1, 1);
    sysman_port(1, 1, 1, 0, 1);
    sysman->gpus[0].ports[0].bits_per_s = -1; /* not known */
    struct weft_graph *graph = ask_sysman();
    check_link(graph, GPU1, GPU2, WEFT_EDGE_XE, 1, 0);
    weft_graph_free(graph);
}

static void test_sysman_refuses(void **state)
{
    (void)state;
    sysman_reset();
    sysman_port(0, 1, 1, 1, 1);
    sysman_port(1, 1, 1, 0, 1);
    sysman->init_result = 0x78000001;
    struct weft_graph *graph = ask_sysman();
    assert_int_equal(links(graph), 0);
    weft_graph_free(graph);
    sysman->init_result = 0;
    sysman->init_count = 0;
    sysman->gpus[1].bus = 0x99; /* a GPU that the graph lacks */
    graph = ask_sysman();
    assert_int_equal(links(graph), 0);
    weft_graph_free(graph);
}

static const char *said(const struct weft_graph *graph, const char *pci, const char *name)
{
    uint32_t node = weft_live_find(graph, WEFT_NODE_GPU, pci);
    assert_int_not_equal(node, WEFT_NODE_NONE);
    const char *value = weft_graph_attribute(graph, node, name);
    return value ? value : "";
}

/* A GPU of the graph's, one that hwloc has described, one that the system hides, and what is none. */
static void test_sysman_devices(void **state)
{
    (void)state;
    sysman_reset();
    for (int i = 0; i < 3; i++) {
        sysman->gpus[i].type = 1;
        sysman->gpus[i].name = "Fake Max";
        sysman->gpus[i].tiles = 2;
        sysman->gpus[i].uuid_first = (uint8_t)(0xa0 + i);
        sysman->gpus[i].memory_bytes = UINT64_C(1) << 30;
    }
    sysman->gpus[2].bus = 0x99;
    sysman->gpu_count = 4;
    sysman->gpus[3] = (struct sysman_fake_gpu){.bus = 0x9a, .type = 2, .name = "Fake processor"};
    sysman_port(0, 1, 1, 2, 1);
    sysman_port(2, 1, 1, 0, 1);
    struct weft_graph *graph = machine();
    uint32_t described = weft_live_find(graph, WEFT_NODE_GPU, GPU2), before = graph->node_count;
    assert_int_equal(weft_graph_set_attribute(graph, described, "LevelZeroModel", "as hwloc says"), WEFT_OK);
    assert_int_equal(weft_live_sysman(graph), WEFT_OK);
    assert_int_equal(weft_graph_finish(graph), WEFT_OK);
    assert_int_equal(graph->node_count, before + 1);
    assert_string_equal(said(graph, GPU1, "LevelZeroModel"), "Fake Max");
    assert_string_equal(said(graph, GPU1, "LevelZeroUUID"), "a0000000-0000-0000-0000-000000000000");
    assert_string_equal(said(graph, GPU1, "LevelZeroSubdevices"), "2");
    assert_string_equal(said(graph, GPU1, "LevelZeroMemorySize"), "2097152");
    assert_string_equal(said(graph, GPU1, "FabricPorts"), "1");
    assert_string_equal(said(graph, GPU2, "LevelZeroModel"), "as hwloc says");
    assert_string_equal(said(graph, "0000:99:00.0", "LevelZeroModel"), "Fake Max");
    assert_int_equal(weft_live_find(graph, WEFT_NODE_GPU, "0000:9a:00.0"), WEFT_NODE_NONE);
    check_link(graph, GPU1, "0000:99:00.0", WEFT_EDGE_XE, 1, 26562500000);
    weft_graph_free(graph);
}

/* --- a loader without zesInit(): in a process of its own, as a library of one name is loaded once */

static int load_old(void **state)
{
    (void)state;
    sysman = load("old/libze_loader.so.1", "sysman_fake");
    return 0;
}

/* Only where the user has asked for it is the compute runtime started. */
static void test_older_way(void **state)
{
    (void)state;
    static const char *const values[] = {NULL, "0", "1"};
    for (int i = 0; i < 3; i++) {
        sysman_reset();
        sysman_port(0, 1, 1, 1, 1);
        sysman_port(1, 1, 1, 0, 1);
        unsetenv("ZES_ENABLE_SYSMAN");
        if (values[i])
            assert_int_equal(setenv("ZES_ENABLE_SYSMAN", values[i], 1), 0);
        struct weft_graph *graph = machine();
        assert_int_equal(weft_live_sysman(graph), WEFT_OK);
        assert_int_equal(sysman->init_count, i == 2);
        assert_int_equal(weft_graph_finish(graph), WEFT_OK);
        assert_int_equal(links(graph), i == 2);
        if (i == 2)
            check_link(graph, GPU1, GPU2, WEFT_EDGE_XE, 1, 26562500000);
        weft_graph_free(graph);
    }
}

static void test_loader_without_zesinit(void **state)
{
    (void)state;
    char self[1024] = {0}, command[sizeof self + 16];
    assert_true(readlink("/proc/self/exe", self, sizeof self - 1) > 0);
    snprintf(command, sizeof command, "'%s' old", self);
    assert_int_equal(system(command), 0);
}

/* The word old: the tests of the older loader. */
int main(int argc, char **argv)
{
    const struct CMUnitTest older[] = {cmocka_unit_test(test_older_way)};
    if (argc > 1 && strcmp(argv[1], "old") == 0)
        return cmocka_run_group_tests(older, load_old, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nvlink_direct),
        cmocka_unit_test(test_nvlink_switches),
        cmocka_unit_test(test_nvlink_speed),
        cmocka_unit_test(test_c2c),
        cmocka_unit_test(test_nvml_numbers),
        cmocka_unit_test(test_nvml_refuses),
        cmocka_unit_test(test_xe_links),
        cmocka_unit_test(test_xe_speed),
        cmocka_unit_test(test_sysman_refuses),
        cmocka_unit_test(test_sysman_devices),
        cmocka_unit_test(test_loader_without_zesinit),
    };
    return cmocka_run_group_tests(tests, load_all, NULL);
}
