/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank announces of its place: the NUMA node is read from sysfs once for each set of processors, and files that lead to
 * other layouts have other digests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <weft/weft.h>

#include "comm/form/arrange.h"
#include "comm/drive/context.h"
#include "tests/support/sys_tree.h"

static char root[SYS_TREE_ROOT_MAX];

/* NUMA nodes of two processors each, moved on by so many. */
static void nodes_write(int moved)
{
    sys_tree_file(root, "/sys/devices/system/node/online", "0-3");
    for (int i = 0; i < 4; i++) {
        char path[128], list[32];
        int first = 2 * ((i + moved) % 4);
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", i);
        snprintf(list, sizeof list, "%d-%d", first, first + 1);
        sys_tree_file(root, path, list);
    }
}

static int32_t announced_numa(struct weft_context *context, int first, int last)
{
    struct weft_announced_place place;
    char text[WEFT_PLACE_TEXT_MAX];
    cpu_set_t processors;
    CPU_ZERO(&processors);
    for (int i = first; i <= last; i++)
        CPU_SET((size_t)i, &processors);
    assert_true(weft_place_announce(context, &processors, &place, text) >= 2);
    return place.numa;
}

static void sysfs_is_read_once(void **state)
{
    (void)state;
    struct weft_context *context;
    assert_int_equal(weft_context_open(NULL, &context), WEFT_OK);
    nodes_write(0);
    assert_int_equal(announced_numa(context, 0, 1), 0);
    assert_int_equal(announced_numa(context, 2, 3), 1);
    assert_int_equal(announced_numa(context, 0, 7), -1);
    nodes_write(1); /* would be announced otherwise now */
    assert_int_equal(announced_numa(context, 0, 1), 0);
    assert_int_equal(announced_numa(context, 2, 3), 1);
    assert_int_equal(announced_numa(context, 0, 7), -1);
    /* Sets that were not asked for are read, however many there are; then the first ones are forgotten. */
    assert_int_equal(announced_numa(context, 4, 5), 1);
    assert_int_equal(announced_numa(context, 6, 6), 2);
    assert_int_equal(announced_numa(context, 7, 7), 2);
    assert_int_equal(announced_numa(context, 0, 1), 3);
    assert_int_equal(announced_numa(context, 7, 7), 2);
    assert_int_equal(weft_context_close(context), WEFT_OK);
}

/* Of a WEFT_TOPO_FILE whose one cable is like that. */
static uint64_t digest_with(const char *cable)
{
    char text[512], path[SYS_TREE_ROOT_MAX + 32];
    struct weft_context *context;
    snprintf(text, sizeof text,
             "vendid=0x2c9\ndevid=0xd2f2\nswitchguid=0x100(100)\n"
             "Switch\t65 \"S-0000000000000100\"\t\t# \"leaf\" enhanced port 0 lid 7 lmc 0\n"
             "[1]\t\"H-0000000000000a10\"[1]%s\n",
             cable);
    sys_tree_file(root, "/topology.txt", text);
    snprintf(path, sizeof path, "%s/topology.txt", root);
    assert_int_equal(setenv("WEFT_TOPO_FILE", path, 1), 0);
    if (weft_context_open(NULL, &context) != WEFT_OK)
        fail_msg("%s", weft_error_detail());
    uint64_t digest = context->form.fabric_digest;
    assert_int_equal(weft_context_close(context), WEFT_OK);
    unsetenv("WEFT_TOPO_FILE");
    return digest;
}

static void attributes_count(void **state)
{
    (void)state;
    uint64_t one = digest_with("(a11) # \"n1 mlx5_0\" lid 25 4xNDR");
    assert_true(one != 0 && one == digest_with("(a11) # \"n1 mlx5_0\" lid 25 4xNDR"));
    assert_true(one != digest_with("(a12) # \"n1 mlx5_0\" lid 25 4xNDR"));
    assert_true(one != digest_with("(a11) # \"n1 mlx5_0\" lid 25 4xHDR"));
}

static int tree_make(void **state)
{
    (void)state;
    sys_tree_make(root);
    return setenv("HWLOC_FSROOT", root, 1);
}

static int tree_remove(void **state)
{
    (void)state;
    sys_tree_remove(root);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sysfs_is_read_once),
                                       cmocka_unit_test(attributes_count)};
    return cmocka_run_group_tests(tests, tree_make, tree_remove);
}
