/* SPDX-License-Identifier: Apache-2.0 */
/* Sample files of topologies: ours, which are always there, and real ones, which may stand beside the repository. */
#ifndef WEFT_TESTS_TOPO_FILES_H
#define WEFT_TESTS_TOPO_FILES_H

#include <stddef.h>

/* A file of tests/topo/samples/, with a 0 behind it that *size (where it is not NULL) does not count. The caller frees it. Ends the
 * program where it cannot be read. */
char *topo_sample(const char *name, size_t *size);

/* The same for a real one. relative: from the folder of topologies, "fabric/ibnetdiscover-ndr.out". The folder is
 * $WEFT_SHARED_DATA/topologies, ../shared/data/topologies without. -1 after a line "SKIP: ..." where the file is not there. */
int topo_file(const char *relative, char **text, size_t *size);

#endif
