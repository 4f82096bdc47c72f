/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text.h"

#include <stddef.h>
#include <stdint.h>

static int is_shown(uint32_t code)
{
    int control = code < 0x20 || (code >= 0x7f && code < 0xa0);
    int turns = code == 0x061c || code == 0x200e || code == 0x200f || (code >= 0x2028 && code <= 0x202e) ||
                (code >= 0x2066 && code <= 0x2069);
    return !control && !turns && code != 0xfeff && (code & 0xfffe) != 0xfffe;
}

size_t weft_text_character_bytes(const char *from)
{
    const unsigned char *text = (const unsigned char *)from;
    if (text[0] < 0x80)
        return is_shown(text[0]);
    size_t count = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    if (text[0] < 0xc2 || text[0] > 0xf4)
        return 0;
    for (size_t i = 1; i < count; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    }
    uint32_t code = text[0] & (0xffu >> (count + 1));
    for (size_t i = 1; i < count; i++)
        code = code << 6 | (text[i] & 0x3fu);
    int overlong = (count == 3 && code < 0x800) || (count == 4 && code < 0x10000);
    int surrogate = code >= 0xd800 && code < 0xe000;
    return overlong || surrogate || code > 0x10ffff || !is_shown(code) ? 0 : count;
}

void weft_text_clean(char *text)
{
    while (*text) {
        size_t bytes = weft_text_character_bytes(text);
        if (!bytes)
            *text = '?';
        text += bytes ? bytes : 1;
    }
}
