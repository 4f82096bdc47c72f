/* SPDX-License-Identifier: Apache-2.0 */
/* What --version of the tools prints. */
#ifndef WEFT_BASE_TOOL_VERSION_H
#define WEFT_BASE_TOOL_VERSION_H

#include <stdio.h>

/* Three parts: version, what of the optional parts this build has (mk/depends.mk), a line for each library of base/runtime.h:
 *
 *   weft-perf 0.3.0
 *   built with: verbs ofi pmix cuda ze spirv hwloc
 *   libfabric.so.1       found    library  the transport ofi; without it: ...
 *
 * "absent" in place of "found" where the loader does not find it. Loads each library, and keeps it. */
void weft_tool_version(const char *name, FILE *file);

/* Answers --help, -h and --version wherever they stand among the arguments: 1 when one does, and nothing else is to be done. */
int weft_tool_answers(const char *name, int argc, char **argv, void (*help)(void));

#endif
