/* SPDX-License-Identifier: Apache-2.0 */
/* Level Zero's own loader with the fake driver of tests/fakes/ze/. */
#ifndef WEFT_TESTS_ZE_SCENE_H
#define WEFT_TESTS_ZE_SCENE_H

#include "tests/fakes/ze/ze_fake.h"

/* Has the loader find the fake driver, and look for mistakes by its own layers as well: before the loader is loaded. What the driver
 * has, to be set before it is initialised; NULL with a text on stderr. */
struct ze_fake *ze_scene_load(void);

#endif
