/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/lines.h"

#include <stdio.h>
#include <string.h>

int test_lines_with(const char *path, const char *text)
{
    char line[2048];
    int count = 0;
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        count += strstr(line, text) != NULL;
    if (file)
        fclose(file);
    return count;
}
