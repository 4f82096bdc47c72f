/* SPDX-License-Identifier: Apache-2.0 */
/* Where the build has put what tests load and run. */
#ifndef WEFT_TESTS_BUILT_H
#define WEFT_TESTS_BUILT_H

#include <stddef.h>

/* The path of a file of the build folder by its name there ("tests/fakes/plugins/least.so"): the folder is the one whose tests/ has this program
 * in it. 0, or -1 where there is none. The file itself may be missing. */
int test_built(const char *name, char *path, size_t capacity);

/* Lets libfabric use the test provider alone, with these demands (tests/fakes/provider/provider.c). 0: it was not built. */
int test_provider_use(const char *demands);

/* Has Level Zero's loader find the fake driver (tests/fakes/ze/), and look for mistakes by its own layers as well, in this process and what
 * it starts: before the loader is loaded. Settings are those of WEFT_TEST_ZE, NULL: as they are. 0: the build has no Level Zero. */
int test_ze_use(const char *settings);

#endif
