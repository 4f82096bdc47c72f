/* SPDX-License-Identifier: Apache-2.0 */
/* Each allocation and each call on files fails in turn, in the graph, laying, paths and all readers: no memory is
 * WEFT_NOMEM, what cannot be read is WEFT_SYSTEM, both with a reason, and nothing is left behind.
 *
 * Files of every kind come from the fuzz targets' corpora, so that a new reader is covered as soon as it has one; broken
 * ones among them keep their error or meet the fault before. All faults are tried: they take moments.
 */
#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <weft/weft.h>

#include "base/error.h"
#include "tests/faults/inject.h"
#include "topo/path.h"
#include "topo/read.h"

#define CORPUS          "tests/fuzz/corpus"
#define FILE_SIZE_MAX   16384
#define FAULTS_EXPECTED 100 /* fewer would mean that nothing is injected */

static struct weft_text text;
static struct weft_graph *machines, *fabric;
static unsigned faults;

/* --- the scenes: each cleans up after itself and returns the first status that is not 0 */

static int make_graph(void)
{
    struct weft_graph *graph = NULL;
    int status = weft_graph_new("a scene", "by hand", &graph);
    uint32_t host = 0, node = 0, last = 0;
    struct weft_node_told told = WEFT_NODE_TOLD(WEFT_NODE_HOST, WEFT_NODE_NONE, "host");
    if (status)
        return status;
    status = weft_graph_add_node(graph, &told, &host);
    for (int i = 0; i < 200 && !status; i++) {
        char name[16];
        snprintf(name, sizeof name, "gpu%d", i);
        told = WEFT_NODE_TOLD(WEFT_NODE_GPU, host, name);
        told.pci = "0000:01:00.0";
        status = weft_graph_add_node(graph, &told, &node);
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

/* --- every fault of a scene */

static int is_memory(int call)
{
    return call == FAULT_MALLOC || call == FAULT_CALLOC || call == FAULT_REALLOC || call == FAULT_STRDUP ||
           call == FAULT_YAML_PARSER_INITIALIZE || call == FAULT_YAML_PARSER_PARSE;
}

static void judge(const char *name, int clean, int status, const struct fault_report *report)
{
    char what[80];
    fault_describe(report->call, report->value, what, sizeof what);
    int is_no_file =
        report->call == FAULT_OPEN && report->value == ENOENT && text.data; /* a synthetic text */
    int expected = fault_transient(report->value) || is_no_file ? clean
                   : is_memory(report->call)                    ? WEFT_NOMEM
                                                                : WEFT_SYSTEM;
    if (status == expected && (status == 0 || *weft_error_detail()))
        return;
    fault_print_stack(report->frame, report->frames);
    fail_msg("%s: %s: status %d (%s), expected %d", name, what, status, weft_error_detail(), expected);
}

static void try_all(const char *name, int (*run)(void))
{
    size_t blocks = fault_blocks_live();
    int fds = fault_fds_open(), clean = run();
    fault_blocks_mark();
    assert_int_equal(fault_blocks_live(), blocks);
    for (int kind = 0; kind < FAULT_WAYS_MAX * 2; kind++) {
        struct fault_aim aim = {.call = FAULT_ANY, .way = kind / 2, .stubborn = kind % 2};
        struct fault_report report = {.reached = 1};
        for (aim.k = 1; report.reached; aim.k++) {
            fault_arm(&aim);
            int status = run();
            fault_disarm(&report);
            if (!report.reached)
                assert_int_equal(status, clean);
            else if (report.call != FAULT_CLOSE) /* whose failure is nothing to a file that was only read */
                judge(name, clean, status, &report);
            if (fault_blocks_live() != blocks || fault_fds_open() != fds) {
                fault_print_stack(report.frame, report.frames);
                fault_blocks_print();
                fail_msg("%s: fault %u leaves %zu blocks and %d descriptors", name, aim.k,
                         fault_blocks_live() - blocks, fault_fds_open() - fds);
            }
            faults += report.reached != 0;
        }
    }
}

static void test_graph(void **state)
{
    (void)state;
    faults = 0;
    try_all("a graph by hand", make_graph);
    assert_true(faults >= 10);
}

static void test_synthetic(void **state)
{
    (void)state;
    static const char *const texts[] = {"fat-tree:leaves=4,nodes-per-leaf=4,gpus=2,rails=2,tiers=3,cores=2",
                                        "machine:gpus=4,nvlink=2", "machine:gpus=x"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        text = (struct weft_text){texts[i], texts[i], strlen(texts[i])};
        try_all(texts[i], read_given);
        try_all(texts[i], read_path);
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
    try_all(path, read_path);
    unlink(path);
}

static void test_fabric(void **state)
{
    (void)state;
    assert_int_equal(weft_topo_read("machine:gpus=2,nics=3", &machines), 0);
    assert_int_equal(weft_topo_read("fat-tree:leaves=2,nodes-per-leaf=2,nics=2", &fabric), 0);
    try_all("laying", lay_given);
    try_all("paths", find_paths);
    weft_graph_free(machines);
    assert_int_equal(weft_topo_read("fat-tree:leaves=2,nodes-per-leaf=1,nics=4,gpus=1", &machines), 0);
    try_all("paths", find_paths);
    weft_graph_free(machines);
    weft_graph_free(fabric);
}

/* One file of a corpus: 1 when it was small enough. */
static int try_file(const char *folder, const char *name)
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
    try_all(path, read_given);
    return 1;
}

static void test_corpora(void **state)
{
    (void)state;
    struct dirent **folders, **files;
    int tried = 0, folder_count = scandir(CORPUS, &folders, NULL, alphasort);
    assert_true(folder_count > 0);
    faults = 0;
    for (int i = 0; i < folder_count; i++) {
        char path[300];
        snprintf(path, sizeof path, CORPUS "/%.200s", folders[i]->d_name);
        int file_count =
            strncmp(folders[i]->d_name, "fuzz_topo_", 10) == 0 ? scandir(path, &files, NULL, alphasort) : 0;
        for (int k = 0; k < file_count; k++) {
            if (files[k]->d_name[0] != '.')
                tried += try_file(folders[i]->d_name, files[k]->d_name);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_graph),  cmocka_unit_test(test_synthetic), cmocka_unit_test(test_file),
        cmocka_unit_test(test_fabric), cmocka_unit_test(test_corpora),
    };
    fault_start();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
