/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/topo_files.h"

#include <stdio.h>
#include <stdlib.h>

/* NULL where there is no such file. */
static char *file_read(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
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
    if (size)
        *size = used;
    return bytes;
}

char *topo_sample(const char *name, size_t *size)
{
    char path[1024];
    snprintf(path, sizeof path, "tests/topo/samples/%s", name);
    char *text = file_read(path, size);
    if (!text) {
        fprintf(stderr, "FAIL: %s cannot be read: tests run in the project's folder\n", path);
        exit(1);
    }
    return text;
}

int topo_file(const char *relative, char **text, size_t *size)
{
    const char *shared = getenv("WEFT_SHARED_DATA");
    char path[1024];
    snprintf(path, sizeof path, "%s/topologies/%s", shared && *shared ? shared : "../shared/data", relative);
    *text = file_read(path, size);
    if (*text)
        return 0;
    printf("SKIP: no sample %s\n", path);
    fflush(stdout);
    return -1;
}
