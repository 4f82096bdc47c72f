/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/ze_scene.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/support/built.h"

struct ze_fake *ze_scene_load(void)
{
    static char path[4096];
    if (test_built("tests/fakes/ze/libweft_ze_fake.so", path, sizeof path) != 0)
        return NULL;
    setenv("ZE_ENABLE_ALT_DRIVERS", path, 1);
    setenv("ZE_ENABLE_VALIDATION_LAYER", "1", 1);
    setenv("ZE_ENABLE_PARAMETER_VALIDATION", "1", 1);
    setenv("ZE_ENABLE_HANDLE_LIFETIME", "1", 1);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    struct ze_fake *fake = library ? dlsym(library, "ze_fake") : NULL;
    if (!fake)
        fprintf(stderr, "%s\n", dlerror());
    return fake;
}
