/* SPDX-License-Identifier: Apache-2.0 */
/* Runs weft-topo or weft-plan as people do. */
#ifndef WEFT_TESTS_SUPPORT_TOOL_H
#define WEFT_TESTS_SUPPORT_TOOL_H

#define TOOL_OUTPUT_MAX (8u << 20)
extern char tool_output[TOOL_OUTPUT_MAX]; /* of the last run, ended by 0 */

/* Of a group's set-up: finds weft-topo, or weft-plan, in the build of the test program, and makes a new folder for files, $T. And of its
 * tear-down. */
int tool_topo(void **state);
int tool_plan(void **state);
int tool_leave(void **state);

/* The shell runs the tool with the words; both streams are in tool_output unless the words lead them elsewhere. $T is the
 * folder of files. Returns the exit status. */
int tool_run(const char *words);

/* Runs, and fails the test where status or output differ: the output must contain the text. */
void tool_expect(const char *words, int status, const char *text);

/* Writes a file of that name into $T. */
void tool_file(const char *name, const char *text);

#endif
