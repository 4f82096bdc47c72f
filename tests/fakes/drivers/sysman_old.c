/* SPDX-License-Identifier: Apache-2.0 */
/* The fake of tests/fakes/drivers/sysman.c as a loader without zesInit(), as Debian 12 has it. */
#define SYSMAN_FAKE_OLD
#include "tests/fakes/drivers/sysman.c"
