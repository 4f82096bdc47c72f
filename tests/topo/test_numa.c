/* SPDX-License-Identifier: Apache-2.0 */
/* The NUMA node of a set of processors, from a tree like sysfs that the test writes. */
#include "topo/live/numa.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char root[64];

static void put(const char *path, const char *text)
{
    char whole[256];
    snprintf(whole, sizeof whole, "%s/%s", root, path);
    for (char *slash = strchr(whole + strlen(root) + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(whole, 0700);
        *slash = '/';
    }
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fputs(text, file);
    assert_int_equal(fclose(file), 0);
}

static int make_tree(void **state)
{
    (void)state;
    strcpy(root, "/tmp/weft-numa-XXXXXX");
    assert_non_null(mkdtemp(root));
    put("devices/system/node/online", "0-1,4\n");
    put("devices/system/node/node0/cpulist", "0-1,8-9\n");
    put("devices/system/node/node1/cpulist", "2-3\n");
    put("devices/system/node/node4/cpulist", "\n"); /* memory without processors */
    return 0;
}

static int remove_tree(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -r %s", root);
    return system(command);
}

static int node_of(int a, int b, int c)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    const int processors[] = {a, b, c};
    for (int i = 0; i < 3; i++) {
        if (processors[i] >= 0)
            CPU_SET((size_t)processors[i], &set);
    }
    return weft_numa_of(&set, root);
}

static void test_one_node(void **state)
{
    (void)state;
    assert_int_equal(node_of(0, -1, -1), 0);
    assert_int_equal(node_of(8, 1, 9), 0);
    assert_int_equal(node_of(2, 3, -1), 1);
}

static void test_several_or_none(void **state)
{
    (void)state;
    assert_int_equal(node_of(0, 2, -1), -1);
    assert_int_equal(node_of(5, -1, -1), -1);
    assert_int_equal(node_of(-1, -1, -1), -1);
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(0, &set);
    assert_int_equal(weft_numa_of(&set, "/nonexistent"), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_node),
        cmocka_unit_test(test_several_or_none),
    };
    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
