/* SPDX-License-Identifier: Apache-2.0 */
/* Sample files of topologies: shared data that is not in the repository. */
#ifndef WEFT_TESTS_TOPO_FILES_H
#define WEFT_TESTS_TOPO_FILES_H

#include <stddef.h>

/* The file's bytes, with a 0 behind them that *size does not count; the caller frees them. relative: from the folder of
 * topologies, "fabric/ibnetdiscover-ndr.out". The folder is $WEFT_SHARED_DATA/topologies, ../shared/data/topologies
 * without. -1 after a line "SKIP: ..." where the file is not there. */
int topo_file(const char *relative, char **text, size_t *size);

#endif
