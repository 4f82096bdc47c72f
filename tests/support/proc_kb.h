/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes that the kernel writes in files of /proc: lines "Field:   1234 kB". */
#ifndef WEFT_TESTS_PROC_KB_H
#define WEFT_TESTS_PROC_KB_H

#include <stdio.h>
#include <string.h>

/* -1: there is no such line. */
static inline long test_proc_kb(const char *path, const char *field)
{
    char line[128];
    long kb = -1, value;
    size_t length = strlen(field);
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file)) {
        if (strncmp(line, field, length) == 0 && sscanf(line + length, ": %ld kB", &value) == 1)
            kb = value;
    }
    if (file)
        fclose(file);
    return kb;
}

#endif
