/* SPDX-License-Identifier: Apache-2.0 */
#include <weft/weft.h>

#define TEXT_OF(number) #number
#define TEXT(number)    TEXT_OF(number)

const char *weft_version(void)
{
    return TEXT(WEFT_VERSION_MAJOR) "." TEXT(WEFT_VERSION_MINOR) "." TEXT(WEFT_VERSION_PATCH);
}
