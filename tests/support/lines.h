/* SPDX-License-Identifier: Apache-2.0 */
/* The lines of a file, such as a log. */
#ifndef WEFT_TESTS_LINES_H
#define WEFT_TESTS_LINES_H

/* How many lines of the file have the text; 0 where there is no file. */
int test_lines_with(const char *path, const char *text);

#endif
