/* SPDX-License-Identifier: Apache-2.0 */
/* Fuzz target: the record of rank 0, from a shared file or a caller's store. What was read must survive being
 * written and read again.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "comm/boot/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct weft_boot_record record, again;
    char text[WEFT_BOOT_RECORD_MAX];
    if (size > sizeof text || weft_boot_record_parse((const char *)data, size, &record) != 0)
        return 0;
    size_t length = weft_boot_record_format(&record, text, sizeof text);
    if (length >= sizeof text || weft_boot_record_parse(text, length, &again) != 0 ||
        memcmp(&record, &again, sizeof record) != 0)
        __builtin_trap();
    return 0;
}
