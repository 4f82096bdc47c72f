/* SPDX-License-Identifier: Apache-2.0 */
#include "base/struct.h"

#include <string.h>

#include "base/error.h"

static size_t size_of(const void *given)
{
    size_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

int weft_struct_check(const struct weft_struct *about, const void *out)
{
    size_t size = size_of(out);
    if (size >= about->least)
        return WEFT_OK;
    return weft_fail(WEFT_INVALID, "%s.size is %zu: expected %zu, from %s", about->name, size, about->known,
                     about->init);
}

int weft_struct_read(const struct weft_struct *about, void *to, const void *given)
{
    if (!given)
        return WEFT_OK;
    int status = weft_struct_check(about, given);
    if (status != WEFT_OK)
        return status;
    size_t size = size_of(given);
    for (size_t i = about->known; i < size; i++) {
        if (((const unsigned char *)given)[i])
            return weft_fail(WEFT_UNSUPPORTED,
                             "%s has %zu bytes and byte %zu is not 0: this weft knows the first %zu bytes "
                             "and cannot do what the others ask for",
                             about->name, size, i, about->known);
    }
    memcpy(to, given, size < about->known ? size : about->known);
    memcpy(to, &about->known, sizeof about->known);
    return WEFT_OK;
}

void weft_struct_fill(const struct weft_struct *about, void *out, size_t index, const void *whole)
{
    size_t size = size_of(out), copied = size < about->known ? size : about->known;
    char *place = (char *)out + index * size;
    memcpy(place, &size, sizeof size);
    memcpy(place + sizeof size, (const char *)whole + sizeof size, copied - sizeof size);
    if (index > 0 &&
        size > copied) /* what this weft does not know stays as the program has it in the first one */
        memcpy(place + copied, (const char *)out + copied, size - copied);
}

void weft_struct_give(void *out, const void *from, size_t known)
{
    size_t size;
    memcpy(&size, out, sizeof size);
    if (size < known)
        known = size;
    if (known > sizeof size)
        memcpy((char *)out + sizeof size, (const char *)from + sizeof size, known - sizeof size);
}
