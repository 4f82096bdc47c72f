/* SPDX-License-Identifier: Apache-2.0 */
/* A small fabric as ibnetdiscover prints it, for the tests of its reader. */
#ifndef WEFT_TESTS_TOPO_IBNET_SMALL_H
#define WEFT_TESTS_TOPO_IBNET_SMALL_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two hosts with two adapters each on a leaf, which has two cables to a spine. Lines are counted in the tests. */
#define HEAD                                                                                                 \
    "#\n# Topology file: generated on Thu Jan  1 00:00:00 2026\n#\n# Initiated from node "                   \
    "0000000000000a10\n\n"
#define LEAF_HEAD                                                                                            \
    "vendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x100\nswitchguid=0x100(100)\n"                                  \
    "Switch\t65 \"S-0000000000000100\"\t\t# \"MF0;leaf-1:MQM9700/U1\" enhanced port 0 lid 7 lmc 0\n"
#define LEAF_HOSTS                                                                                           \
    "[1]\t\"H-0000000000000a10\"[1](a11) \t\t# \"n1 mlx5_0\" lid 21 4xNDR\n"                                 \
    "[2]\t\"H-0000000000000a20\"[1](a21) \t\t# \"n1 mlx5_3\" lid 22 4xNDR\n"                                 \
    "[3]\t\"H-0000000000000b10\"[1](b11) \t\t# \"n2 HCA-1\" lid 23 2xNDR\n"
#define LEAF_UP                                                                                              \
    "[33]\t\"S-0000000000000200\"[1]\t\t# \"MF0;spine-1:MQM9700/U1\" lid 8 4xNDR\n"                          \
    "[34]\t\"S-0000000000000200\"[2]\t\t# \"MF0;spine-1:MQM9700/U1\" lid 8 4xNDR\n"
#define SPINE                                                                                                \
    "\nvendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x200\nswitchguid=0x200(200)\n"                                \
    "Switch\t65 \"S-0000000000000200\"\t\t# \"MF0;spine-1:MQM9700/U1\" enhanced port 0 lid 8 lmc 0\n"        \
    "[1]\t\"S-0000000000000100\"[33]\t\t# \"MF0;leaf-1:MQM9700/U1\" lid 7 4xNDR\n"                           \
    "[2]\t\"S-0000000000000100\"[34]\t\t# \"MF0;leaf-1:MQM9700/U1\" lid 7 4xNDR\n"
#define CA(system, guid, port_guid, description, number, speed)                                              \
    "\nvendid=0x2c9\ndevid=0x1021\nsysimgguid=0x" system "\ncaguid=0x" guid "\nCa\t1 \"H-0000000000000" guid \
    "\"\t\t# \"" description "\"\n[1](" port_guid ") \t\"S-0000000000000100\"[" number "]\t\t# lid 2" number \
    " lmc 0 \"MF0;leaf-1:MQM9700/U1\" lid 7 " speed "\n"
#define CAS                                                                                                  \
    CA("a10", "a10", "a11", "n1 mlx5_0", "1", "4xNDR")                                                       \
    CA("a20", "a20", "a21", "n1 mlx5_3", "2", "4xNDR")                                                       \
    CA("b10", "b10", "b11", "n2 HCA-1", "3", "2xNDR")
#define SMALL HEAD LEAF_HEAD LEAF_HOSTS LEAF_UP SPINE CAS

/* Text with one piece of it put another way. The caller frees it. */
static inline char *changed(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    size_t size = strlen(text) + strlen(to) + 1;
    char *made = malloc(size);
    assert_non_null(at);
    assert_non_null(made);
    snprintf(made, size, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    return made;
}

#endif
