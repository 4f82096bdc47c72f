/* SPDX-License-Identifier: Apache-2.0 */
/* Runs weft-topo as people do. */
#ifndef WEFT_TESTS_SUPPORT_TOPO_TOOL_H
#define WEFT_TESTS_SUPPORT_TOPO_TOOL_H

#define TOPO_TOOL_OUTPUT_MAX (8u << 20)
extern char topo_tool_output[TOPO_TOOL_OUTPUT_MAX]; /* of the last run, ended by 0 */

/* Finds build/weft-topo beside the test program; a new folder for files becomes the working directory's $T. Of a group's
 * set-up and tear-down. */
int topo_tool_find(void **state);
int topo_tool_leave(void **state);

/* The shell runs weft-topo with the words; both streams are in topo_tool_output unless the words lead them elsewhere. $T is the
 * folder of files. Returns the exit status. */
int topo_tool_run(const char *words);

/* Runs, and fails the test where status or output differ: the output must contain the text. */
void topo_tool_expect(const char *words, int status, const char *text);

/* Writes a file of that name into $T. */
void topo_tool_file(const char *name, const char *text);

#endif
