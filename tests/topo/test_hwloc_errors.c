/* SPDX-License-Identifier: Apache-2.0 */
/* build: needs hwloc; wrap dlopen */
/* hwloc's XML that is wrong: what is refused before hwloc sees it, what hwloc refuses, and what it says.
 *
 * The files are hwloc's own to judge. What is tested here is that a refusal has the file's name and a reason, and that nothing
 * is printed or left behind, whatever the loader does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/runtime.h"
#include "tests/support/hwloc_text.h"
#include "tests/support/topo_asks.h"
#include "topo/discover/discover.h"
#include "topo/discover/hwloc.h"
#include "topo/read.h"
#include <weft/weft.h>

static int is_missing;

void *__real_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags)
{
    return is_missing && path && strcmp(path, WEFT_RUNTIME_HWLOC) == 0 ? NULL : __real_dlopen(path, flags);
}

static const struct {
    const char *text, *detail;
} bad[] = {
    /* Refused before hwloc sees it, with the line. */
    {"<topology version=\"3.0\"/>",
     "file:1: version \"3.0\" of hwloc's XML, expected 1.x or 2.x (hwloc 3: lstopo --export-xml-flags v2)"},
    {"<topology version=\"2\"/>", "file:1: version \"2\" of hwloc's XML, expected 1.x or 2.x"},
    {HEAD SMALL "\n<object></topology>", "file:6: not well-formed XML: mismatched tag"},
    {FOUR_GPUS "<distances2hetero nbobjs=\"65536\"/></topology>",
     "<distances2hetero> has nbobjs=\"65536\", expected a whole number from 0 to 4096"},
    {HEAD SMALL "a &lt; b" END_ALL, "text with '<' or '&', expected numbers"},
    {HEAD MACHINE "<object type=\"NUMANode\"/>" END_ALL, "file:3: a NUMANode without os_index"},
    {HEAD MACHINE "<object type=\"PU\" os_index=\"4294967295\"/>" END_ALL,
     "file:3: <object> has os_index=\"4294967295\", expected a whole number from 0 to 1048576"},
    /* By hwloc. */
    {HEAD "</topology>", "file: libhwloc refuses it"},
    {HEAD "<object type=\"Machine\"/></topology>",
     "file: libhwloc refuses it: invalid normal object Machine P#0 without cpuset; expected XML as lstopo "
     "writes it"},
    {HEAD MACHINE "<object type=\"Core\"/>" END_ALL, "file: libhwloc refuses it: "},
    /* By what makes the graph. */
    {HEAD MACHINE NUMA(0, f, 1) NUMA(0, f0, 2) PU(0, 1, 1) END_ALL,
     "file: the name \"numa0\" is there twice in \"host\""},
    {HEAD SMALL OSDEV("", "1", "") END END_ALL, "file: an OSDev without name"},
};

static void test_errors(void **state)
{
    (void)state;
    int output = memfd_create("output", 0), saved = dup(STDERR_FILENO);
    assert_true(output >= 0 && saved >= 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct weft_graph *graph = (struct weft_graph *)&graph;
        dup2(output, STDERR_FILENO);
        int status = topo_try(bad[i].text, &graph);
        dup2(saved, STDERR_FILENO);
        if (status != WEFT_INVALID || !strstr(weft_error_detail(), bad[i].detail))
            print_message("case %zu: %d %s\n", i, status, weft_error_detail());
        assert_int_equal(status, WEFT_INVALID);
        assert_int_equal(strncmp(weft_error_detail(), "file:", 5), 0);
        assert_non_null(strstr(weft_error_detail(), bad[i].detail));
        assert_ptr_equal(graph, &graph);
    }
    assert_int_equal(lseek(output, 0, SEEK_END), 0);
    close(output);
    close(saved);
}

static int dies(void *user)
{
    (void)user;
    fprintf(stderr, "xmlbuffer: all is well\nprogram: topology.c:1: Assertion failed.\n");
    abort();
}

static int is_calm(void *user)
{
    return *(int *)user;
}

static void on_abort(int number)
{
    _exit(number);
}

/* What ends the loader ends a child process, in which no handler of the program's runs. */
static void test_loader_dies(void **state)
{
    (void)state;
    static const struct weft_text text = {.name = "file"};
    int refused = 0;
    signal(SIGABRT, on_abort);
    assert_int_equal(weft_hwloc_try(&text, is_calm, &refused), WEFT_OK);
    refused = 1;
    assert_int_equal(weft_hwloc_try(&text, is_calm, &refused), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "file: libhwloc refuses it; expected XML as lstopo writes it");
    assert_int_equal(weft_hwloc_try(&text, dies, NULL), WEFT_INVALID);
    assert_string_equal(weft_error_detail(),
                        "file: libhwloc ends on it with signal 6: program: topology.c:1: Assertion failed.; "
                        "expected XML as lstopo writes it");
    signal(SIGABRT, SIG_DFL);
}

static void test_limits(void **state)
{
    (void)state;
    char *text = malloc(1 << 20);
    assert_non_null(text);
    size_t at = (size_t)sprintf(text, "%s", HEAD MACHINE_OF(1));
    for (int i = 0; i < 201; i++)
        at += (size_t)sprintf(text + at, "<info name=\"n%d\" value=\"v\"/>", i);
    sprintf(text + at, NUMA(0, ff, 1) PU(0, 1, 1) END_ALL);
    struct weft_graph *graph;
    assert_int_equal(topo_try(text, &graph), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "file: more than 200 infos of one object");
    at = (size_t)sprintf(text, "%s", HEAD MACHINE);
    for (int i = 0; i < 300; i++)
        at += (size_t)sprintf(text + at, "<object type=\"Group\"" SETS(ff, 3) ">");
    assert_int_equal(topo_try(text, &graph), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "nested deeper than 256 elements"));
    free(text);
}

/* Without the library: what it is wanted for. The library itself reads no such file. */
static void test_without_hwloc(void **state)
{
    (void)state;
    struct weft_graph *graph = NULL;
    is_missing = 1;
    int status = topo_try(HEAD SMALL END_ALL, &graph);
    is_missing = 0;
    assert_int_equal(status, WEFT_NOT_FOUND);
    assert_string_equal(weft_error_detail(),
                        "file: hwloc's XML, which libhwloc 2.1 or later reads: it cannot be loaded");
    assert_null(graph);
}

static void test_not_in_the_library(void **state)
{
    (void)state;
    struct weft_graph *graph = NULL;
    assert_int_equal(topo_try(HEAD SMALL END_ALL, &graph), WEFT_INVALID);
    assert_string_equal(weft_error_detail(),
                        "file: hwloc's XML, which describes one machine: weft-topo reads "
                        "it, the library does not");
    assert_null(graph);
    weft_discover_begin();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_not_in_the_library), cmocka_unit_test(test_errors),
        cmocka_unit_test(test_loader_dies),        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_without_hwloc),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
