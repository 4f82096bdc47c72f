/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the text of /proc/self/maps, in which names of files stand that others choose. The first byte says in how
 * large pieces it comes, which must not make a difference.
 */
#include <stdint.h>
#include "comm/regions/mappings.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uintptr_t read_all(const uint8_t *data, size_t size, size_t piece)
{
    struct weft_mappings_text text = {.at = 0x2000, .end = 0x5000};
    int more = 1;
    for (size_t at = 0; at < size && more; at += piece)
        more = weft_mappings_feed(&text, (const char *)data + at, size - at < piece ? size - at : piece);
    if (more && text.at >= text.end)
        __builtin_trap();
    return text.at;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    if (read_all(data + 1, size - 1, data[0] + 1u) != read_all(data + 1, size - 1, size))
        __builtin_trap();
    return 0;
}
