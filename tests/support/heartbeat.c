/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/heartbeat.h"

#include <stdio.h>
#include <stdlib.h>

/* Before main(): every rank, whether process or thread, has it from the start. */
__attribute__((constructor)) static void set_heartbeat(void)
{
    char text[16];
    snprintf(text, sizeof text, "%d", TEST_HEARTBEAT_MS);
    setenv("WEFT_HEARTBEAT_MS", text, 0);
}
