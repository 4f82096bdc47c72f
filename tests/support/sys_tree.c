/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/sys_tree.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <errno.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

void sys_tree_make(char root[SYS_TREE_ROOT_MAX])
{
    const char *folder = getenv("TMPDIR");
    snprintf(root, SYS_TREE_ROOT_MAX, "%s/weft-sys-XXXXXX", folder && strlen(folder) < 80 ? folder : "/tmp");
    assert_non_null(mkdtemp(root));
}

static int remove_one(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    return remove(path);
}

void sys_tree_remove(const char *root)
{
    assert_int_equal(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS), 0);
}

/* Root and path, with every folder on the way made. */
static void make_way(char whole[1024], const char *root, const char *path)
{
    snprintf(whole, 1024, "%s%s", root, path);
    for (char *at = whole + strlen(root) + 1; (at = strchr(at, '/')) != NULL; at++) {
        *at = '\0';
        assert_true(mkdir(whole, 0777) == 0 || errno == EEXIST);
        *at = '/';
    }
}

void sys_tree_file(const char *root, const char *path, const char *text)
{
    char whole[1024];
    make_way(whole, root, path);
    FILE *file = fopen(whole, "w");
    assert_non_null(file);
    fprintf(file, "%s\n", text);
    assert_int_equal(fclose(file), 0);
}

void sys_tree_link(const char *root, const char *path, const char *target)
{
    char whole[1024];
    make_way(whole, root, path);
    assert_int_equal(symlink(target, whole), 0);
}
