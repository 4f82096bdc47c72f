/* SPDX-License-Identifier: Apache-2.0 */
/* build: with topo/tool/draw*.c topo/tool/svg.c topo/tool/dot.c topo/tool/say.c tests/topo/picture.c tests/topo/sketch.c; wrap calloc realloc */
/* run: unthreaded (draws) */
/* Pictures of topologies: everything named is there, nothing meets or leaves the canvas, whatever the names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <weft/status.h>

#include "tests/support/topo_asks.h"
#include "tests/support/topo_files.h"
#include "tests/topo/picture.h"
#include "tests/topo/sketch.h"
#include "topo/discover/discover.h"
#include "topo/read.h"
#include "topo/tool/tool.h"

/* Draws, reads back and judges. */
static void check(const struct weft_graph *graph, struct picture *picture)
{
    char *svg = picture_draw(graph);
    picture_read(svg, picture);
    const char *wrong = picture_judge(picture);
    if (wrong)
        fail_msg("%s: %s", graph->source, wrong);
    free(svg);
}

static void assert_texts(const struct picture *picture, const char *text, size_t count)
{
    if (picture_count(picture, text) != count)
        fail_msg("'%s' stands there %zu times", text, picture_count(picture, text));
}

static void test_machine(void **state)
{
    (void)state;
    struct picture picture;
    struct weft_graph *graph = topo_read("machine:gpus=16,nics=16,nvlink=12,pci-switches=8,cores=64");
    check(graph, &picture);
    for (int i = 0; i < 16; i++) {
        char name[16];
        snprintf(name, sizeof name, "gpu%02d", i);
        assert_texts(&picture, name, 1);
        snprintf(name, sizeof name, "nic%02d", i);
        assert_texts(&picture, name, 1);
    }
    assert_texts(&picture, "PCI switch", 8);
    assert_texts(&picture, "NUMA 0", 1);
    assert_texts(&picture, "32 cores", 2);
    assert_texts(&picture, "400 Gb/s", 16);
    assert_texts(&picture,
                 "NVLink \xc3\x97"
                 "12 through NVSwitch, all to all, 25 GB/s each",
                 1);
    assert_texts(&picture, "socket link, ? GB/s", 1);
    assert_texts(&picture, "?: the source does not tell", 1);
    assert_texts(&picture,
                 "synthetic \xc2\xb7 1 host \xc2\xb7 2 NUMA nodes \xc2\xb7 16 GPUs \xc2\xb7 16 NICs", 1);
    assert_int_equal(picture.lines, 16 + 2);
    picture_free(&picture);
    weft_graph_free(graph);
}

static void test_sizes(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "machine:gpus=0,nics=0",
        "machine:gpus=1,nics=0",
        "machine:gpus=0,nics=64,pci-switches=1",
        "machine:gpus=64,nics=64,nvlink=2",
        "machine:gpus=64,nics=1,numas=64,pci-switches=0",
        "machine:gpus=13,nics=5,numas=3,pci-switches=2,nvlink=3",
        "fat-tree:leaves=1,nodes-per-leaf=1",
        "fat-tree:leaves=4,nodes-per-leaf=4,gpus=4,nvlink=4,rails=4,spines=2",
        "fat-tree:leaves=32,nodes-per-leaf=16,tiers=3,pods=4,gpus=8,rails=8,rail-optimised=1",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct picture picture;
        struct weft_graph *graph = topo_read(texts[i]);
        check(graph, &picture);
        picture_free(&picture);
        weft_graph_free(graph);
    }
}

static void test_fabric(void **state)
{
    (void)state;
    struct picture picture;
    struct weft_graph *graph =
        topo_read("fat-tree:leaves=64,nodes-per-leaf=32,gpus=8,rails=8,oversubscription=4");
    char *svg = picture_draw(graph);
    assert_true(strlen(svg) < 20000);
    free(svg);
    check(graph, &picture);
    assert_texts(&picture,
                 "64 \xc3\x97 "
                 "leaf",
                 1);
    assert_texts(&picture, "32 \xc3\x97 spine", 1);
    assert_texts(&picture, "32 hosts each", 1);
    assert_texts(&picture, "on 256 \xc3\x97 400 Gb/s", 1);
    assert_texts(&picture, "up 64 \xc3\x97 400 Gb/s", 1);
    assert_texts(&picture, "down 128 \xc3\x97 400 Gb/s", 1);
    assert_texts(&picture, "4 : 1 oversubscribed", 1);
    assert_texts(&picture, "2048 \xc3\x97 node[0000-2047]", 1);
    assert_int_equal(picture_count_look(&picture, "switch"), 2 + 1); /* and in the legend */
    picture_free(&picture);
    weft_graph_free(graph);
}

/* Eight GPUs in a cube with diagonals, of one and of two links: a track for each, numbers on them. */
static void test_cube(void **state)
{
    (void)state;
    static const struct sketch_link links[] = {
        {"gpu0", "gpu1", 1}, {"gpu0", "gpu2", 1}, {"gpu0", "gpu3", 2}, {"gpu0", "gpu4", 2},
        {"gpu1", "gpu2", 2}, {"gpu1", "gpu3", 1}, {"gpu1", "gpu5", 2}, {"gpu2", "gpu3", 2},
        {"gpu2", "gpu6", 1}, {"gpu3", "gpu7", 1}, {"gpu4", "gpu5", 1}, {"gpu4", "gpu6", 1},
        {"gpu4", "gpu7", 2}, {"gpu5", "gpu6", 2}, {"gpu5", "gpu7", 1}, {"gpu6", "gpu7", 2}};
    struct picture picture;
    struct weft_graph *graph = sketch_machine(8, links, sizeof links / sizeof *links);
    check(graph, &picture);
    assert_texts(&picture, "gpu[0-7]: NVLink, 25 GB/s", 1);
    assert_texts(&picture, "1", 8);
    assert_texts(&picture, "2", 8);
    assert_int_equal(picture.lines, 16);
    assert_int_equal(picture_count_look(&picture, "chip"), 16);
    picture_free(&picture);
    weft_graph_free(graph);
}

/* Pairs side by side, whose bars are wider than the pairs. */
static void test_pairs(void **state)
{
    (void)state;
    static const struct sketch_link links[] = {
        {"gpu0", "gpu1", 12}, {"gpu2", "gpu3", 12}, {"gpu4", "gpu5", 12}, {"gpu6", "gpu7", 12}};
    struct picture picture;
    struct weft_graph *graph = sketch_machine(8, links, sizeof links / sizeof *links);
    check(graph, &picture);
    assert_texts(&picture,
                 "NVLink \xc3\x97"
                 "12, 25 GB/s each",
                 4);
    assert_int_equal(picture.lines, 8);
    picture_free(&picture);
    weft_graph_free(graph);
}

/* More links than tracks are good for: a matrix, in which each link has two cells. */
static void test_matrix(void **state)
{
    (void)state;
    struct sketch_link links[60];
    char names[16][16];
    size_t count = 0;
    for (int i = 0; i < 16; i++)
        snprintf(names[i], sizeof names[i], "gpu%d", i);
    for (int i = 0; i < 16; i++) {
        for (int k = i + 1; k < 16 && count < 60; k++) {
            if (k - i <= 3)
                links[count++] = (struct sketch_link){names[i], names[k], (unsigned)(i + k)};
        }
    }
    assert_true(count > 24);
    struct picture picture;
    struct weft_graph *graph = sketch_machine(16, links, count);
    check(graph, &picture);
    assert_int_equal(picture_count_look(&picture, "full"), 2 * count);
    picture_free(&picture);
    weft_graph_free(graph);
}

static void test_ports(void **state)
{
    (void)state;
    struct picture picture;
    struct weft_graph *graph = sketch_ports();
    check(graph, &picture);
    assert_texts(&picture, "1: 200 Gb/s", 1);
    assert_texts(&picture, "2: down", 1);
    assert_texts(&picture, "down", 1);
    assert_texts(&picture, "? Gb/s", 1);
    assert_int_equal(picture_count_look(&picture, "down"), 1 + 1); /* and in the legend */
    assert_texts(&picture, "virtual machine: links between devices are not known", 1);
    assert_texts(&picture, "+ 1 other device", 1);
    assert_texts(&picture, "rank 5", 1);
    assert_texts(&picture, "C2C numa0: 450 GB/s", 1);
    picture_free(&picture);
    weft_graph_free(graph);
}

/* Names with everything that XML and a viewer could trip over, as long as they may be. */
static void test_hostile_names(void **state)
{
    (void)state;
    char hundreds[WEFT_NAME_SIZE_MAX];
    memset(hundreds, 'W', sizeof hundreds);
    hundreds[sizeof hundreds - 1] = 0;
    const char *const names[] = {
        "\"><script>alert(1)</script>",
        "a&b&amp;<!--]]>",
        "'single' \"double\"",
        "\xff\xfe\x80 broken \xc3",
        "\xed\xa0\x80 surrogate \xf4\x90\x80\x80 beyond",
        "\xe2\x80\xae turned \xef\xbf\xbe none",
        hundreds,
        "\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5\xad\x97\xe5"
        "\xad\x97\xe5\xad\x97",
        "%s%n%d \\n \\\" {|}<>",
    };
    struct picture picture;
    struct weft_graph *graph = sketch_names(names, sizeof names / sizeof *names);
    check(graph, &picture);
    assert_true(picture_count(&picture, "a&b&amp;<!--]]>") >= 2); /* as GPU and as NIC */
    assert_true(picture_count(&picture, "'single' \"double\"") >= 2);
    assert_true(picture_count(&picture, "WWWW") >= 3); /* and as the host */
    picture_free(&picture);
    char *svg = picture_draw(graph);
    assert_null(strstr(svg, "<script"));
    free(svg);
    weft_graph_free(graph);
}

static void test_shuffled(void **state)
{
    (void)state;
    char *first_svg = NULL, *first_dot = NULL;
    for (unsigned seed = 0; seed < 12; seed++) {
        struct weft_graph *graph = sketch_shuffled(seed);
        char *svg = picture_draw(graph), *dot = NULL;
        size_t size;
        FILE *file = open_memstream(&dot, &size);
        assert_non_null(file);
        assert_int_equal(weft_topo_dot(graph, file), 0);
        fclose(file);
        struct picture picture;
        check(graph, &picture);
        picture_free(&picture);
        if (first_svg) {
            assert_string_equal(svg, first_svg);
            assert_string_equal(dot, first_dot);
            free(svg);
            free(dot);
        } else {
            first_svg = svg;
            first_dot = dot;
        }
        weft_graph_free(graph);
    }
    free(first_svg);
    free(first_dot);
}

/* Machines that nobody would build: still nothing meets. */
static void test_random(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 300; seed++) {
        struct weft_graph *graph = sketch_random(seed);
        struct picture picture;
        char *svg = picture_draw(graph);
        picture_read(svg, &picture);
        const char *wrong = picture_judge(&picture);
        if (wrong)
            fail_msg("seed %u: %s", seed, wrong);
        picture_free(&picture);
        free(svg);
        weft_graph_free(graph);
    }
}

static void test_kinds(void **state)
{
    (void)state;
    struct picture picture;
    struct weft_graph *graph = sketch_kinds();
    check(graph, &picture);
    assert_texts(&picture, "3 \xc3\x97 node[8-10]", 1);
    assert_texts(&picture, "and 2 hosts of 2 other kinds", 1);
    assert_int_equal(picture_count_look(&picture, "host"), 4);
    picture_free(&picture);
    weft_graph_free(graph);
}

static void sample_is_drawn(const char *name, char *text, size_t size)
{
    struct weft_graph *graph;
    struct picture picture;
    int status = weft_topo_read_text(&(struct weft_text){name, text, size}, &graph);
    free(text);
    assert_int_equal(status, 0);
    check(graph, &picture);
    uint32_t switches = weft_graph_count_below(graph, WEFT_NODE_NONE, WEFT_NODE_SWITCH);
    for (uint32_t n = 0; n < graph->node_count && switches == 0; n++) {
        if (graph->nodes[n].kind == WEFT_NODE_GPU || graph->nodes[n].kind == WEFT_NODE_NIC)
            assert_true(picture_count(&picture, graph->nodes[n].name) > 0);
    }
    picture_free(&picture);
    weft_graph_free(graph);
}

static void test_samples(void **state)
{
    (void)state;
    static const char *const files[] = {"hwloc-2package.xml", "nvidia-4gpu-2nic.xml", "rocm-4gpu-3nic.xml",
                                        "ibnetdiscover-2leaf.out", "topograph-2block.yaml"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        size_t size;
        char *text = topo_sample(files[i], &size);
        sample_is_drawn(files[i], text, size);
    }
}

static void test_real_samples(void **state)
{
    (void)state;
    static const char *const files[] = {
        "hwloc-xml/16intel64-manyVFs.xml",   "hwloc-xml/32em64t-2n8c2t-pci-wholeio.xml",
        "hwloc-xml/power8gpudistances.xml",  "nccl-xml/aws-p4d-24xl.xml",
        "nccl-xml/azure-ndv4.xml",           "nccl-xml/rocm-16gpu-16nic.xml",
        "nccl-xml/rocm-8gpu-8nic-mi300.xml", "nccl-xml/rocm-8gpu-rome-7numa.xml",
        "fabric/ibnetdiscover-ndr.out",      "fabric/topograph-medium.yaml"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char *text;
        size_t size;
        if (topo_file(files[i], &text, &size) != 0)
            skip();
        sample_is_drawn(files[i], text, size);
    }
}

/* Memory that runs out at any place: an error, nothing written. The allocators of the picture are wrapped by the linker. */
static long long allocations_left = -1;
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *at, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *at, size_t size);

static int is_refused(void)
{
    return allocations_left >= 0 && allocations_left-- == 0;
}

void *__wrap_calloc(size_t count, size_t size)
{
    return is_refused() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *at, size_t size)
{
    return is_refused() ? NULL : __real_realloc(at, size);
}

static int (*const writers[])(const struct weft_graph *, FILE *) = {weft_topo_svg, weft_topo_dot};

static void test_no_memory(void **state)
{
    (void)state;
    struct weft_graph *graph = topo_read("fat-tree:leaves=3,nodes-per-leaf=2,gpus=4,nvlink=2,spines=2");
    for (size_t w = 0; w < sizeof writers / sizeof *writers; w++) {
        int status = -1;
        long long n = 0;
        for (; status != 0; n++) {
            char *text = NULL;
            size_t size = 0;
            FILE *file = open_memstream(&text, &size);
            assert_non_null(file);
            allocations_left = n;
            status = writers[w](graph, file);
            int used_up = allocations_left < 0;
            allocations_left = -1;
            fclose(file);
            assert_true(status == 0 ? !used_up && size > 0 : status == WEFT_NOMEM && size == 0);
            free(text);
        }
        assert_true(n > 10);
    }
    weft_graph_free(graph);
}

int main(void)
{
    weft_discover_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_machine),      cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_fabric),       cmocka_unit_test(test_cube),
        cmocka_unit_test(test_pairs),        cmocka_unit_test(test_matrix),
        cmocka_unit_test(test_ports),        cmocka_unit_test(test_kinds),
        cmocka_unit_test(test_random),       cmocka_unit_test(test_hostile_names),
        cmocka_unit_test(test_shuffled),     cmocka_unit_test(test_samples),
        cmocka_unit_test(test_real_samples), cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
