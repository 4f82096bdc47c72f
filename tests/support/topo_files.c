/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/topo_files.h"

#include <stdio.h>
#include <stdlib.h>

int topo_file(const char *relative, char **text, size_t *size)
{
    const char *shared = getenv("WEFT_SHARED_DATA");
    char path[1024];
    snprintf(path, sizeof path, "%s/topologies/%s", shared && *shared ? shared : "../shared/data", relative);
    FILE *file = fopen(path, "rb");
    if (!file) {
        printf("SKIP: no sample %s\n", path);
        fflush(stdout);
        return -1;
    }
    size_t used = 0, room = 1 << 16;
    char *bytes = malloc(room);
    for (size_t got; bytes && (got = fread(bytes + used, 1, room - used - 1, file)) > 0;) {
        used += got;
        if (used == room - 1)
            bytes = realloc(bytes, room *= 2);
    }
    fclose(file);
    if (!bytes)
        abort();
    bytes[used] = '\0';
    *text = bytes;
    *size = used;
    return 0;
}
