/* SPDX-License-Identifier: Apache-2.0 */
/* build: injected */
/* Each allocation and each call on files fails in turn, in the graph, laying, paths, all readers, writing, orders and discovery: no memory
 * is WEFT_NOMEM, what cannot be read is WEFT_SYSTEM, both with a reason, and nothing is left behind. Discovery does without what it
 * cannot read.
 *
 * Files of every kind come from the fuzz targets' corpora, so that a new reader is covered as soon as it has one; broken
 * ones among them keep their error or meet the fault before. All faults are tried: they take moments.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <weft/weft.h>

#include "base/error.h"
#include "tests/faults/every.h"
#include "tests/support/topo_made.h"
#include "topo/discover/discover.h"
#include "topo/order.h"
#include "topo/path.h"
#include "topo/read.h"
#include "topo/report/nccl_write.h"
#include "topo/report/order_load.h"
#include "topo/share.h"

#define CORPUS          "tests/fuzz/corpus"
#define FILE_SIZE_MAX   16384
#define FAULTS_EXPECTED 100 /* fewer would mean that nothing is injected */
#define RANKS           24

static struct weft_text text;
static struct weft_graph *machines, *fabric;
static struct weft_place places[RANKS];
static uint32_t networks[64]; /* by node */

/* --- the scenes: each cleans up after itself and returns the first status that is not 0 */

static int make_graph(void)
{
    struct weft_graph *graph = NULL;
    int status = weft_graph_new("a scene", "by hand", &graph);
    uint32_t host = 0, node = 0, last = 0;
    struct weft_node_given given = WEFT_NODE_GIVEN(WEFT_NODE_HOST, WEFT_NODE_NONE, "host");
    if (status)
        return status;
    status = weft_graph_add_node(graph, &given, &host);
    for (int i = 0; i < 200 && !status; i++) {
        char name[16];
        snprintf(name, sizeof name, "gpu%d", i);
        given = WEFT_NODE_GIVEN(WEFT_NODE_GPU, host, name);
        given.pci = "0000:01:00.0";
        status = weft_graph_add_node(graph, &given, &node);
        struct weft_edge edge = {.a = node, .b = last, .kind = WEFT_EDGE_GPU_LINK};
        if (!status && i)
            status = weft_graph_add_edge(graph, &edge, NULL);
        if (!status)
            status = weft_graph_set_attribute(graph, node, "sm", name);
        last = node;
    }
    if (!status)
        status = weft_graph_rename(graph, last, "renamed");
    char *large = malloc(100000);
    memset(large, 'x', 100000);
    large[99999] = '\0';
    if (!status && !weft_graph_string(graph, large))
        status = weft_fail(WEFT_NOMEM, "no string");
    free(large);
    if (!status)
        status = weft_graph_finish(graph);
    weft_graph_free(graph);
    return status;
}

static int read_given(void)
{
    struct weft_graph *graph = NULL;
    int status = weft_topo_read_text(&text, &graph);
    if ((status == 0) != (graph != NULL))
        fail_msg("%s: status %d, but graph %p", text.name, status, (void *)graph);
    weft_graph_free(graph);
    return status;
}

static int read_path(void)
{
    struct weft_graph *graph = NULL;
    int status = weft_topo_read(text.name, &graph);
    weft_graph_free(graph);
    return status;
}

static int lay_given(void)
{
    for (int everywhere = 0; everywhere < 2; everywhere++) {
        struct weft_graph *graph = NULL;
        uint32_t joined, added;
        int status = weft_fabric_lay(machines, fabric, everywhere, &graph, &joined, &added);
        weft_graph_free(graph);
        if (status)
            return status;
    }
    return 0;
}

static int find_paths(void)
{
    struct weft_path path;
    int status = weft_path_find(fabric, 0, fabric->node_count - 1, &path);
    return status ? status : weft_path_find(fabric, fabric->node_count / 2, fabric->node_count - 1, &path);
}

static int write_given(void)
{
    char *xml = NULL;
    size_t size = 0;
    int status = weft_nccl_write(machines, WEFT_NODE_NONE, &xml, &size);
    if ((status == 0) != (xml != NULL) || (xml && strlen(xml) != size))
        fail_msg("status %d, %zu bytes of XML at %p", status, size, (void *)xml);
    fault_block_remove(xml);
    free(xml);
    return status;
}

static int discover(void)
{
    struct weft_graph *graph = NULL;
    int status = weft_topo_discover(&graph);
    if ((status == 0) != (graph != NULL))
        fail_msg("status %d, but graph %p", status, (void *)graph);
    weft_graph_free(graph);
    return status;
}

/* The layout, NICs, loads and the least load on a fabric with something of everything. */
static int order_given(void)
{
    struct weft_layout *layout = NULL;
    struct weft_load load;
    struct weft_bound bound;
    uint32_t nic[RANKS];
    int status = weft_order_nics(fabric, places, RANKS, nic, NULL);
    if (!status)
        status = weft_order_ranks(fabric, places, RANKS, 0, &layout);
    assert_int_equal(layout != NULL, status == WEFT_OK);
    if (!status)
        status = weft_load_bound(fabric, places, RANKS, nic, 1, &bound);
    if (!status)
        status = weft_load_rings(fabric, places, layout, &load);
    if (!status)
        weft_load_free(&load);
    weft_layout_free(layout);
    return status;
}

/* Four ports of two networks among three ranks. */
static int share_given(void)
{
    struct weft_port_share shares[3];
    int status = weft_share_ports(fabric, places, 3, 4, networks, shares);
    for (int r = 0; r < 3 && !status; r++)
        assert_int_equal(shares[r].count, 2);
    return status;
}

/* --- every fault of a scene */

/* hwloc is loaded, and its files are tried in another process first: that may do without what fails, or not. */
static int expect_of_hwloc(const struct fault_report *report, int clean, int status)
{
    int is_refused = status == WEFT_SYSTEM || status == WEFT_NOT_FOUND;
    return fault_expect_memory_only(report, is_refused ? status : clean, status);
}

static int expect_of_file(const struct fault_report *report, int clean, int status)
{
    int is_no_file =
        report->call == FAULT_OPEN && report->value == ENOENT && text.data; /* a synthetic text */
    return is_no_file ? clean : fault_expect_error(report, clean, status);
}

static void test_graph(void **state)
{
    (void)state;
    assert_true(fault_try_all("a graph by hand", make_graph, expect_of_file) >= 10);
}

static void test_synthetic(void **state)
{
    (void)state;
    static const char *const texts[] = {"fat-tree:leaves=4,nodes-per-leaf=4,gpus=2,rails=2,tiers=3,cores=2",
                                        "machine:gpus=4,nvlink=2", "machine:gpus=x"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        text = (struct weft_text){texts[i], texts[i], strlen(texts[i])};
        fault_try_all(texts[i], read_given, expect_of_file);
        fault_try_all(texts[i], read_path, expect_of_file);
    }
}

static void test_file(void **state)
{
    (void)state;
    char path[] = "/tmp/weft-fault-topo-XXXXXX", line[81];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "machine:gpus=2\n", 15), 15);
    memset(line, '#', sizeof line);
    line[80] = '\n';
    for (int i = 0; i < 2000; i++) /* more than one buffer of the reader */
        assert_int_equal(write(fd, line, sizeof line), sizeof line);
    close(fd);
    text = (struct weft_text){path, NULL, 0};
    fault_try_all(path, read_path, expect_of_file);
    unlink(path);
}

static void test_fabric(void **state)
{
    (void)state;
    assert_int_equal(weft_topo_read("machine:gpus=2,nics=3", &machines), 0);
    assert_int_equal(weft_topo_read("fat-tree:leaves=2,nodes-per-leaf=2,nics=2", &fabric), 0);
    fault_try_all("laying", lay_given, expect_of_file);
    fault_try_all("paths", find_paths, expect_of_file);
    weft_graph_free(machines);
    assert_int_equal(weft_topo_read("fat-tree:leaves=2,nodes-per-leaf=1,nics=4,gpus=1", &machines), 0);
    fault_try_all("paths", find_paths, expect_of_file);
    weft_graph_free(machines);
    weft_graph_free(fabric);
}

/* One file of a corpus: whether it was small enough. */
static int try_file(const char *folder, const char *name, unsigned *faults)
{
    char path[512], data[FILE_SIZE_MAX];
    snprintf(path, sizeof path, CORPUS "/%.100s/%.300s", folder, name);
    FILE *file = fopen(path, "rb");
    if (!file)
        return 0;
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    if (size == sizeof data)
        return 0;
    text = (struct weft_text){path, data, size};
    int is_hwlocs = memmem(data, size, "<topology", 9) != NULL;
    *faults += fault_try_all(path, read_given, is_hwlocs ? expect_of_hwloc : expect_of_file);
    return 1;
}

static void test_corpora(void **state)
{
    (void)state;
    struct dirent **folders, **files;
    int tried = 0, folder_count = scandir(CORPUS, &folders, NULL, alphasort);
    unsigned faults = 0;
    assert_true(folder_count > 0);
    for (int i = 0; i < folder_count; i++) {
        char path[300];
        snprintf(path, sizeof path, CORPUS "/%.200s", folders[i]->d_name);
        int file_count =
            strncmp(folders[i]->d_name, "fuzz_topo_", 10) == 0 ? scandir(path, &files, NULL, alphasort) : 0;
        for (int k = 0; k < file_count; k++) {
            if (files[k]->d_name[0] != '.')
                tried += try_file(folders[i]->d_name, files[k]->d_name, &faults);
            free(files[k]);
        }
        if (file_count > 0)
            free(files);
        free(folders[i]);
    }
    free(folders);
    printf("%d files, %u faults\n", tried, faults);
    assert_true(tried >= 10 && faults >= FAULTS_EXPECTED);
}

static void test_writing(void **state)
{
    (void)state;
    assert_int_equal(weft_topo_read(CORPUS "/fuzz_topo_nccl/everything.xml", &machines), WEFT_OK);
    assert_true(fault_try_all("writing", write_given, fault_expect_error) >= 4);
    weft_graph_free(machines);
}

static void test_discovery(void **state)
{
    (void)state;
    assert_true(fault_try_first("discovery", discover, fault_expect_memory_only) > 40);
}

/* refined: whether the refinement keeps moves. */
static void order_faults(int refined)
{
    struct weft_layout *layout;
    uint32_t host = WEFT_NODE_NONE;
    for (uint32_t r = 0; r < RANKS; r++) {
        if (r % 4 == 0)
            host = weft_graph_next_below(fabric, WEFT_NODE_NONE, WEFT_NODE_HOST, host);
        places[RANKS - 1 - r] = (struct weft_place){.host = host, .near = WEFT_NODE_NONE};
    }
    assert_int_equal(weft_order_ranks(fabric, places, RANKS, 0, &layout), WEFT_OK);
    assert_int_equal(layout->refined > 0, refined);
    weft_layout_free(layout);
    assert_true(fault_try_first("an order", order_given, fault_expect_error) > 100);
}

static void test_order(void **state)
{
    (void)state;
    assert_int_equal(
        weft_topo_read("fat-tree:leaves=6,nodes-per-leaf=2,gpus=4,rails=2,rail-optimised=1", &fabric),
        WEFT_OK);
    order_faults(0);
    weft_graph_free(fabric);
    /* Six switches cabled in a ring that their names do not show, so that the order is refined. */
    struct made made = {0};
    static const uint32_t around[6] = {0, 2, 4, 1, 5, 3};
    uint32_t switches[6];
    for (uint32_t s = 0; s < 6; s++) {
        switches[s] = made_item(&made, WEFT_NODE_SWITCH, MADE_NONE, "s%u", s);
        uint32_t host = made_item(&made, WEFT_NODE_HOST, MADE_NONE, "h%u", s);
        made_cable(&made, made_nic(&made, host, "n", -1), switches[s], 1);
    }
    for (uint32_t s = 0; s < 6; s++)
        made_cable(&made, switches[around[s]], switches[around[(s + 1) % 6]], 1);
    made_build(&made, 0);
    fabric = made.graph;
    order_faults(1);
    made_free(&made);
}

static void test_share(void **state)
{
    (void)state;
    struct made made = {0};
    uint32_t host = made_item(&made, WEFT_NODE_HOST, MADE_NONE, "h");
    for (uint32_t p = 0; p < 4; p++)
        made_nic(&made, host, p == 0 ? "a" : p == 1 ? "b" : p == 2 ? "c" : "d", -1);
    made_build(&made, 0);
    assert_true(made.graph->node_count <= 64);
    networks[made.nodes[4]] = 1;
    for (uint32_t r = 0; r < 3; r++)
        places[r] = made_place(&made, host, MADE_NONE);
    fabric = made.graph;
    assert_in_range(fault_try_first("shares", share_given, fault_expect_error), 1, 200);
    made_free(&made);
}

int main(void)
{
    weft_discover_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph),     cmocka_unit_test(test_synthetic), cmocka_unit_test(test_file),
        cmocka_unit_test(test_fabric),    cmocka_unit_test(test_corpora),   cmocka_unit_test(test_writing),
        cmocka_unit_test(test_discovery), cmocka_unit_test(test_order),     cmocka_unit_test(test_share),
    };
    fault_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
