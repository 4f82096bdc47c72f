#include "topo/text.h"

#include <stddef.h>
#include <stdint.h>

/* Bytes of the UTF-8 character at text (RFC 3629), 0 where there is none or it is a control character. */
static size_t character_bytes(const unsigned char *text)
{
    if (text[0] < 0x80)
        return text[0] >= 0x20 && text[0] != 0x7f;
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
    return overlong || surrogate || code > 0x10ffff || (code >= 0x80 && code < 0xa0) ? 0 : count;
}

void weft_text_clean(char *text)
{
    while (*text) {
        size_t bytes = character_bytes((const unsigned char *)text);
        if (!bytes)
            *text = '?';
        text += bytes ? bytes : 1;
    }
}
