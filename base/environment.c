/* SPDX-License-Identifier: Apache-2.0 */
#include "base/environment.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/crypto.h"

/* "NAME=value", one behind the other, and "" at the end. */
static _Thread_local const char *used;

char *weft_environment_copy(void)
{
    size_t size = 1;
    for (char **at = environ; at && *at; at++)
        size += strlen(*at) + 1;
    char *copy = calloc(size, 1), *to = copy;
    for (char **at = environ; copy && at && *at; at++) {
        size_t length = strlen(*at);
        memcpy(to, *at, length);
        to += length ? length + 1 : 0;
    }
    return copy;
}

void weft_environment_free(char *copy)
{
    char *end = copy;
    while (end && *end)
        end += strlen(end) + 1;
    if (copy)
        weft_crypto_wipe(copy, (size_t)(end - copy));
    free(copy);
}

void weft_environment_use(const char *copy)
{
    used = copy;
}

const char *weft_environment_get(const char *name)
{
    size_t length = strlen(name);
    if (!used)
        return getenv(name);
    for (const char *at = used; *at; at += strlen(at) + 1) {
        if (strncmp(at, name, length) == 0 && at[length] == '=')
            return at + length + 1;
    }
    return NULL;
}
