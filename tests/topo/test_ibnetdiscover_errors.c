/* SPDX-License-Identifier: Apache-2.0 */
/* ibnetdiscover's output: what is refused, with line and reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/error.h"
#include "tests/support/topo_asks.h"
#include "tests/topo/ibnet_small.h"
#include <weft/weft.h>

static void refuses(const char *text, const char *detail)
{
    topo_refuses(weft_read_ibnetdiscover, text, strlen(text), detail);
}

static void refuses_changed(const char *from, const char *to, const char *detail)
{
    char *text = changed(SMALL, from, to);
    refuses(text, detail);
    free(text);
}

static void test_cables_that_disagree(void **state)
{
    (void)state;
    refuses_changed("[1]\t\"S-0000000000000100\"[33]", "[1]\t\"S-0000000000000100\"[32]",
                    "file:14: port 33 of \"S-0000000000000100\" leads to port 1 of \"S-0000000000000200\", "
                    "but line 22 says that that one leads to port 32 of \"S-0000000000000100\"");
    refuses_changed("[2]\t\"S-0000000000000100\"[34]\t\t# \"MF0;leaf-1:MQM9700/U1\" lid 7 4xNDR\n", "",
                    "file:15: port 34 of \"S-0000000000000100\" leads to port 2 of \"S-0000000000000200\", "
                    "but what line 21 tells of that has no such port: the file is cut or was changed");
    refuses_changed("[2]\t\"S-0000000000000100\"[34]\t\t# \"MF0;leaf-1:MQM9700/U1\" lid 7 4xNDR",
                    "[2]\t\"S-0000000000000100\"[34]\t\t# \"MF0;leaf-1:MQM9700/U1\" lid 7 4xHDR",
                    "file:15: port 34 of \"S-0000000000000100\" runs at 4xNDR, but line 23 says that the "
                    "other end runs at 4xHDR");
    refuses_changed(
        "[1](a21)", "[1](a22)",
        "file:12: port 2 of \"S-0000000000000100\" leads to a port with the GUID a22, but line 37 says a21");
    refuses_changed("[33]\t\"S-0000000000000200\"[1]", "[33]\t\"S-0000000000000100\"[33]",
                    "file:14: port 33 of \"S-0000000000000100\" leads to itself");
    /* An adapter's line of which its switch says nothing. */
    refuses_changed("[3]\t\"H-0000000000000b10\"[1](b11) \t\t# \"n2 HCA-1\" lid 23 2xNDR\n", "",
                    "file:43: port 1 of \"H-0000000000000b10\" leads to port 3 of \"S-0000000000000100\", "
                    "but what line 10 tells of that has no such port: the file is cut or was changed");
}

static void test_cut_files(void **state)
{
    (void)state;
    refuses("", "file: no node in it, expected lines of ibnetdiscover (Switch, Ca, Rt)");
    refuses(HEAD, "file: no node in it, expected lines of ibnetdiscover (Switch, Ca, Rt)");
    refuses(HEAD LEAF_HEAD LEAF_HOSTS LEAF_UP,
            "file:14: port 33 of \"S-0000000000000100\" leads to \"S-0000000000000200\", of which the file "
            "does not tell: it is cut, or ibnetdiscover did not get an answer");
    refuses("Ca\t1 \"H-0000000000000a10\"\t\t# \"n1 mlx5_0\"\n",
            "file:1: \"H-0000000000000a10\" (\"n1 mlx5_0\") has no cable, expected a line like [1] for at "
            "least one of its 1 ports: the file is cut, or its maker's own port is down");
    /* Every place where a small file can be cut ends in an error or in a graph of what is left. */
    for (size_t size = 0; size < strlen(SMALL); size++) {
        struct weft_text text = {"file", SMALL, size};
        struct weft_graph *graph;
        weft_error_clear();
        int status = weft_topo_read_text(&text, &graph);
        if (status == 0)
            weft_graph_free(graph);
        else
            assert_memory_equal(weft_error_detail(), "file:", 5);
    }
    refuses(HEAD LEAF_HEAD LEAF_HOSTS "[4]\t\"H-0000000000000b10\"[1](b11) \t\t# \"n2 HCA-1\" lid 23 2xNDR\n",
            "file:14: port 4 of \"S-0000000000000100\" leads to port 1 of \"H-0000000000000b10\", but line "
            "13 says that "
            "of another one");
    /* Only switches: hosts are as their switches tell. */
    struct weft_graph *graph = topo_read(HEAD LEAF_HEAD LEAF_HOSTS LEAF_UP SPINE);
    assert_int_equal(topo_count(graph, WEFT_NODE_HOST), 2);
    assert_int_equal(topo_count_edges(graph, WEFT_EDGE_FABRIC), 5);
    assert_int_equal(graph->nodes[topo_node(graph, "mlx5_3")].rail, 3);
    weft_graph_free(graph);
}

static void test_other_reports(void **state)
{
    (void)state;
    refuses("SW   236  1 0x2c5eab0300c26280 4x NDR - SW    73 35 0x2c5eab0300b87b40 ( 'a' - 'b' )\n",
            "file:1: a line of the ports report (ibnetdiscover -p), expected ibnetdiscover without -p");
    refuses("CA   1  1 0x1 4x NDR 'n1'\n",
            "file:1: a line of the ports report (ibnetdiscover -p), expected ibnetdiscover without -p");
    refuses("Switch\t : 0x2c5eab0300c26280 ports 65 devid 0xd2f2 vendid 0x2c9 \"leaf\"\n",
            "file:1: found \": 0x2c5eab0300c26280 ports 65 devid 0xd2f2 vendid 0x2c9 \"lea\", expected a "
            "number of ports from 1 to 254, as ibnetdiscover prints without -l");
    refuses("< vendid=0x2c9\n",
            "file:1: a line of a comparison (ibnetdiscover --diff), expected ibnetdiscover without it");
    refuses(HEAD "hello world\n", "file:6: found \"hello world\", expected a line of ibnetdiscover: "
                                  "vendid=0x..., Switch, Ca, Rt or a port like [1]");
}

static void test_bad_nodes(void **state)
{
    (void)state;
    refuses_changed("vendid=0x2c9", "vendid=2c9", "file:6: found \"2c9\", expected a number like 0x2c9");
    refuses_changed("vendid=0x2c9", "vendid=0x", "file:6: the line ends, expected a number like 0x2c9");
    refuses_changed("switchguid=0x100(100)", "switchguid=0x101(101)",
                    "file:10: \"S-0000000000000100\" follows the GUID 0000000000000101, expected the same");
    refuses_changed("Switch\t65", "Switch\t255",
                    "file:10: found \"255 \"S-0000000000000100\"??# \"MF0;leaf-1:MQM9700/U1\" enhanced\", "
                    "expected a number of ports from 1 to 254, as ibnetdiscover prints without -l");
    refuses("Switch\t0 \"S-0000000000000100\"\t\t# \"a\"\n",
            "file:1: found \"0 \"S-0000000000000100\"??# \"a\"\", expected a number of ports from 1 to 254, "
            "as ibnetdiscover prints without -l");
    refuses("Switch\t65 \"H-0000000000000100\"\t\t# \"a\"\n",
            "file:1: \"H-0000000000000100\" in the line of a switch, expected \"S-...\"");
    refuses("Ca\t2 \"S-0000000000000100\"\t\t# \"a\"\n",
            "file:1: \"S-0000000000000100\" in the line of a channel adapter, expected \"H-...\"");
    refuses("Rt\t2 \"S-0000000000000100\"\t\t# \"a\"\n",
            "file:1: \"S-0000000000000100\" in the line of a router, expected \"R-...\"");
    static const char *const keys[] = {
        "\"S-100\"",          "\"S-00000000000001000\"", "\"X-0000000000000100\"",
        "S-0000000000000100", "\"S-0000000000000100",    "\"S-000000000000010g\""};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        char text[128], detail[256];
        snprintf(text, sizeof text, "Switch\t65 %s # \"a\"\n", keys[i]);
        snprintf(detail, sizeof detail,
                 "file:1: found \"%s # \"a\"\", expected a node like \"S-0002c90000000001\"", keys[i]);
        refuses(text, detail);
    }
    refuses("Switch\t65 \"S-0000000000000100\"\n",
            "file:1: the line ends, expected # and the node's description in quotes");
    refuses("Switch\t65 \"S-0000000000000100\" # \"leaf\n",
            "file:1: found \" \"leaf\", expected the node's description in quotes");
    refuses(LEAF_HEAD LEAF_HEAD, "file:10: \"S-0000000000000100\" is in line 5 already");
}

static void test_bad_ports(void **state)
{
    (void)state;
    refuses("[1]\t\"S-0000000000000100\"[33]\t\t# \"a\" lid 7 4xNDR\n",
            "file:1: a port's line without a node's (Switch, Ca, Rt) before it");
    refuses_changed("\n[2]\t\"H-", "\nvendid=0x1\n[2]\t\"H-",
                    "file:13: a port's line without a node's (Switch, Ca, Rt) before it");
    refuses_changed("[34]", "[66]", "file:15: port 66 of \"S-0000000000000100\", which has 65");
    refuses_changed("[34]", "[33]", "file:15: port 33 of \"S-0000000000000100\" is in line 14 already");
    refuses_changed("[1]\t\"H-0000000000000a10\"", "[0]\t\"H-0000000000000a10\"",
                    "file:11: found \"[0]?\"H-0000000000000a10\"[1](a11) ??# \"n1 mlx5_0\" lid 21 4xND\", "
                    "expected a port's number in brackets, from 1 to 254");
    refuses_changed("\"[1](a11)", "\"[255](a11)",
                    "file:11: found \"[255](a11) ??# \"n1 mlx5_0\" lid 21 4xNDR\", expected a port's number "
                    "in brackets, from 1 to 254");
    refuses_changed("\"[1](a11)", "\"[1][ext x](a11)",
                    "file:11: found \"[1][ext x](a11) ??# \"n1 mlx5_0\" lid 21 4xNDR\", expected a port's "
                    "number on its chassis like [ext 3]");
    refuses_changed("(a11)", "(a1100000000000000a)",
                    "file:11: found \"(a1100000000000000a) ??# \"n1 mlx5_0\" lid 21 4xNDR\", expected a "
                    "port's GUID in parentheses, at most 16 hexadecimal digits");
    refuses_changed("[33]\t\"S-0000000000000200\"[1]\t\t# \"MF0;spine-1:MQM9700/U1\" lid 8 4xNDR",
                    "[33]\t\"S-0000000000000200\"[1]",
                    "file:14: the line ends, expected # and the description of the node at the other end");
    refuses_changed("[33]\t\"S-0000000000000200\"[1]\t\t# \"MF0;spine-1:MQM9700/U1\" lid 8 4xNDR",
                    "[33]\t\"S-0000000000000200\"[1] # spine-1",
                    "file:14: found \"spine-1\", expected the node's description in quotes");
    refuses_changed("lid 21 4xNDR", "lid 99999 4xNDR",
                    "file:11: found \"99999 4xNDR\", expected the LID of the port at the other end");
}

static void test_bytes_that_are_no_text(void **state)
{
    (void)state;
    static const char zero[] = "Switch\t65 \"S-0000000000000100\" # \"a\0b\"\n";
    topo_refuses(weft_read_ibnetdiscover, zero, sizeof zero - 1, "file:1: a zero byte, expected text");
    char text[600] = "Switch\t65 \"S-0000000000000100\" # \"";
    size_t used = strlen(text);
    memset(text + used, 'x', 256);
    strcpy(text + used + 256, "\"\n");
    refuses(text, "file:1: found \" \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\", expected "
                  "a description of at most 255 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cables_that_disagree),
        cmocka_unit_test(test_cut_files),
        cmocka_unit_test(test_other_reports),
        cmocka_unit_test(test_bad_nodes),
        cmocka_unit_test(test_bad_ports),
        cmocka_unit_test(test_bytes_that_are_no_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
