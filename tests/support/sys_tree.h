/* SPDX-License-Identifier: Apache-2.0 */
/* Trees of small files, as sysfs has them, in a folder of the test's own. */
#ifndef WEFT_TESTS_SYS_TREE_H
#define WEFT_TESTS_SYS_TREE_H

#define SYS_TREE_ROOT_MAX 128

/* A new empty folder in $TMPDIR or /tmp. */
void sys_tree_make(char root[SYS_TREE_ROOT_MAX]);
void sys_tree_remove(const char *root);

/* A file or a symbolic link below the root, with the folders above it. A file's text gets a line's end. */
void sys_tree_file(const char *root, const char *path, const char *text);
void sys_tree_link(const char *root, const char *path, const char *target);

#endif
