/* SPDX-License-Identifier: Apache-2.0 */
/* hwloc's XML that is wrong: every error with its line, and what could grow beyond what the text pays for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/support/hwloc_text.h"
#include "topo/read.h"
#include <weft/weft.h>

static int read_text(const char *document, struct weft_graph **graph)
{
    struct weft_text text = {"m.xml", document, strlen(document)};
    return weft_topo_read_text(&text, graph);
}

static const struct {
    const char *text, *detail;
} bad[] = {
    {"<topology>\n<object type=\"Machine\"/></topology>",
     "m.xml:1: version \"1\" of hwloc's XML, expected 2.x: let lstopo of hwloc 2 write it (hwloc 3: with "
     "--export-xml-flags v2)"},
    {"<topology version=\"3.0\"/>",
     "m.xml:1: version \"3.0\" of hwloc's XML, expected 2.x: let lstopo of hwloc 2 write "
     "it (hwloc 3: with --export-xml-flags v2)"},
    {HEAD "</topology>", "m.xml: a topology of hwloc without objects"},
    {HEAD "<object/></topology>", "m.xml:2: an object without type"},
    {HEAD "<object type=\"Core\"/></topology>", "m.xml:2: the first object is a Core, expected the Machine"},
    {HEAD "<object type=\"Machine\"/>\n<object type=\"Core\"/></topology>",
     "m.xml:3: a second object outside the Machine, which line 2 begins"},
    {HEAD MACHINE "<x><object type=\"Core\"/></x></object></topology>",
     "m.xml:3: an <object> outside the topology's objects"},
    {HEAD MACHINE MACHINE "</object></object></topology>",
     "m.xml:3: a Machine cannot lie in what line 2 begins"},
    {HEAD MACHINE
     "<object type=\"PCIDev\" pci_busid=\"1:0.0\">\n<object type=\"Core\"/></object></object></topology>",
     "m.xml:4: a Core cannot lie in what line 3 begins"},
    {HEAD MACHINE HOST_BRIDGE(
         "0:[00-01]") "\n<object type=\"NUMANode\" os_index=\"0\"/></object></object></topology>",
     "m.xml:4: a NUMANode cannot lie in what line 3 begins"},
    {HEAD MACHINE "<object type=\"NUMANode\"/></object></topology>", "m.xml:3: a NUMANode without os_index"},
    {HEAD MACHINE "<object type=\"PU\"/></object></topology>", "m.xml:3: a PU without os_index"},
    {HEAD MACHINE NUMA(0, 1) NUMA(0, 1) "</object></topology>",
     "m.xml: two objects NUMANode have os_index 0"},
    {HEAD MACHINE "<object type=\"Core\" nodeset=\"3\"/></object></topology>",
     "m.xml:3: nodeset is \"3\", expected words as in 0x00000001,0x00000003"},
    {HEAD MACHINE NUMA(0, 1) "<object type=\"Package\" nodeset=\"0x8\">\n" HOST_BRIDGE("0:[00-01]")
         END END END "</topology>",
     "m.xml:3: nodeset names NUMA node 3, which no object NUMANode is"},
    {HEAD MACHINE "<object type=\"PCIDev\"/></object></topology>", "m.xml:3: a PCIDev without pci_busid"},
    {HEAD MACHINE "<object type=\"PCIDev\" pci_busid=\"0000:00\"/></object></topology>",
     "m.xml:3: pci_busid is \"0000:00\", expected an address as in 0000:0c:00.0"},
    {HEAD MACHINE PCI("0:0.0", "03 [10de:20b0]", "1", "0") END END "</topology>",
     "m.xml:3: pci_type is \"03 [10de:20b0] [0000:0000] 00\", expected class and numbers as in 0302 "
     "[10de:1db1] "
     "[10de:1212] a1"},
    {HEAD MACHINE PCI("0:0.0", "0302 [10de:20b0]", "1,5", "0") END END "</topology>",
     "m.xml:3: pci_link_speed is \"1,5\", expected GB/s from 0 to 1000000 as in 15.753846"},
    {HEAD MACHINE PCI("0:0.0", "0302 [10de:20b0]", "99999999", "0") END END "</topology>",
     "m.xml:3: pci_link_speed is \"99999999\", expected GB/s from 0 to 1000000 as in 15.753846"},
    {HEAD MACHINE "<object type=\"Bridge\" bridge_type=\"2-1\"/></object></topology>",
     "m.xml:3: a Bridge with bridge_type \"2-1\", expected 0-1 (of the processor) or 1-1 (PCI)"},
    {HEAD MACHINE "<object type=\"Bridge\" bridge_type=\"1-1\"/></object></topology>",
     "m.xml:3: a PCI Bridge without pci_busid"},
    {HEAD MACHINE HOST_BRIDGE("0000:00") END END "</topology>",
     "m.xml:3: a host Bridge with bridge_pci \"0000:00\", expected buses as in 0000:[00-1f]"},
    {HEAD MACHINE "<object type=\"OSDev\" name=\"x\"/></object></topology>",
     "m.xml:3: an OSDev without osdev_type"},
    {HEAD MACHINE OSDEV("", "1", "") END END "</topology>", "m.xml:3: an OSDev without name"},
    {HEAD MACHINE "<info name=\"x\"/></object></topology>", "m.xml:3: an info without value"},
    {HEAD MACHINE "<info value=\"x\"/></object></topology>", "m.xml:3: an info without name"},
    {FOUR_GPUS "<distances2 name=\"x\"/></topology>", "m.xml:10: <distances2> without nbobjs"},
    {FOUR_GPUS MATRIX("2", "NVLinkBandwidth", "PCIDev:31 PCIDev:99", "0 1 1 0") "</topology>",
     "m.xml:10: NVLinkBandwidth names gp_index 99, which no object has"},
    {FOUR_GPUS MATRIX("2", "NVLinkBandwidth", "PCIDev:31", "0 1 1 0") "</topology>",
     "m.xml:13: <distances2hetero> ends with 1 indexes and 4 values, expected 2 and its square"},
    {FOUR_GPUS MATRIX("2", "x", "PCIDev:31 PCIDev:32", "0 1 1") "</topology>",
     "m.xml:13: <distances2hetero> ends with 2 indexes and 3 values, expected 2 and its square"},
    {FOUR_GPUS MATRIX("2", "x", "PCIDev:31 PCIDev:32", "0 1 1 0 0") "</topology>",
     "m.xml:12: more than 4 numbers in <u64values>, as nbobjs is 2"},
    {FOUR_GPUS MATRIX("2", "x", "PCIDev:31 32 33", "0") "</topology>",
     "m.xml:11: more than 2 numbers in <indexes>, as nbobjs is 2"},
    {FOUR_GPUS MATRIX("2", "x", "PCIDev:31 PCIDev:", "0") "</topology>",
     "m.xml:11: \"PCIDev:\" in <indexes>, expected numbers between blanks"},
    {FOUR_GPUS MATRIX("2", "x", "1 2", "-1") "</topology>",
     "m.xml:12: \"-1\" in <u64values>, expected numbers between blanks"},
    {FOUR_GPUS MATRIX("2", "x", "1 2", "99999999999999999999") "</topology>",
     "m.xml:12: \"99999999999999999999\" in <u64values>, expected numbers between blanks"},
    {HEAD MACHINE PACKAGE(0, 1) END PACKAGE(0, 1) END END "</topology>",
     "m.xml:4: gp_index 10 is also that of the object at line 3"},
    {HEAD MACHINE
     "<object type=\"PU\" os_index=\"1\"/><object type=\"PU\" os_index=\"1\"/></object></topology>",
     "m.xml: the name \"core1\" is there twice in \"host\""},
};

static void test_errors(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct weft_graph *graph = (struct weft_graph *)&graph;
        int status = read_text(bad[i].text, &graph);
        if (status != WEFT_INVALID || strcmp(weft_error_detail(), bad[i].detail) != 0)
            print_message("case %zu: %d %s\n", i, status, weft_error_detail());
        assert_int_equal(status, WEFT_INVALID);
        assert_string_equal(weft_error_detail(), bad[i].detail);
        assert_ptr_equal(graph, &graph);
    }
}

static void test_limits(void **state)
{
    (void)state;
    char *text = malloc(1 << 20);
    assert_non_null(text);
    size_t at = (size_t)sprintf(text, "%s", HEAD MACHINE);
    for (int i = 0; i < 201; i++)
        at += (size_t)sprintf(text + at, "<info name=\"n%d\" value=\"v\"/>", i);
    sprintf(text + at, "</object></topology>");
    struct weft_graph *graph;
    assert_int_equal(read_text(text, &graph), WEFT_INVALID);
    assert_string_equal(weft_error_detail(), "m.xml:3: more than 200 infos of one object");
    at = (size_t)sprintf(text, "%s", HEAD MACHINE);
    for (int i = 0; i < 300; i++)
        at += (size_t)sprintf(text + at, "<object type=\"Group\">");
    assert_int_equal(read_text(text, &graph), WEFT_INVALID);
    assert_non_null(strstr(weft_error_detail(), "m.xml:3: "));
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
