/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/heartbeat.h"

#include <stdio.h>
#include <stdlib.h>

#include "tests/support/patience.h"

#define SILENCE_MS_MAX 10000 /* less than what the tests of silence have in all */

int test_silence_ms(void)
{
    int64_t ms = test_patient(2000);
    return ms < SILENCE_MS_MAX ? (int)ms : SILENCE_MS_MAX;
}

void test_silence_set(void)
{
    char text[16];
    snprintf(text, sizeof text, "%d", test_silence_ms());
    setenv("WEFT_HEARTBEAT_MS", text, 1);
}

/* Before main(): every rank, whether process or thread, has it from the start. */
__attribute__((constructor)) static void set_heartbeat(void)
{
    char text[16];
    snprintf(text, sizeof text, "%d", TEST_HEARTBEAT_MS);
    setenv("WEFT_HEARTBEAT_MS", text, 0);
}
