/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: what a peer announces of its place, the two strings behind its introduction. What is taken must be two words
 * that lie within the bytes.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "comm/form/arrange.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_announced_place place = {0};
    char *text = malloc(size ? size : 1); /* exactly as large, so that reading on shows */
    if (!text)
        return 0;
    memcpy(text, data, size);
    if (weft_place_read_text(text, size, &place)) {
        if (strlen(place.address) + strlen(place.pattern) + 2 != size || strpbrk(place.address, " \n\t"))
            __builtin_trap();
    }
    free(text);
    return 0;
}
