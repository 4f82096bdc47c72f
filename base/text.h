/* SPDX-License-Identifier: Apache-2.0 */
/* Text of files, made fit to be shown. */
#ifndef WEFT_BASE_TEXT_H
#define WEFT_BASE_TEXT_H

#include <stddef.h>

/* Bytes of the UTF-8 character at text (RFC 3629); 0 where there is none, or one that is not shown: control characters,
 * those that turn the direction of writing or break lines (a name could read as another), and noncharacters. */
size_t weft_text_character_bytes(const char *text);

/* What is no printable UTF-8 becomes '?', byte by byte: outputs are valid, and no file steers a terminal. */
void weft_text_clean(char *text);

#endif
