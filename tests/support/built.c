/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/built.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PROVIDER "tests/fakes/provider/libwefttest-fi.so"
#define ZE_FAKE  "tests/fakes/ze/libweft_ze_fake.so"

int test_built(const char *name, char *path, size_t capacity)
{
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length < 0)
        return -1;
    self[length] = '\0';
    char *tests = NULL;
    for (char *at = self; (at = strstr(at, "/tests/")) != NULL; at++)
        tests = at;
    if (!tests)
        return -1;
    return snprintf(path, capacity, "%.*s/%s", (int)(tests - self), self, name) < (int)capacity ? 0 : -1;
}

int test_provider_use(const char *demands)
{
    char path[PATH_MAX];
    if (test_built(PROVIDER, path, sizeof path) != 0 || access(path, R_OK) != 0)
        return 0;
    *strrchr(path, '/') = '\0';
    setenv("FI_PROVIDER_PATH", path, 1);
    setenv("FI_PROVIDER", "wefttest", 1); /* asking the others takes most of the time */
    if (demands)
        setenv("WEFT_TEST_PROVIDER", demands, 1);
    return 1;
}

int test_ze_use(const char *settings)
{
    char path[PATH_MAX];
    if (test_built(ZE_FAKE, path, sizeof path) != 0 || access(path, R_OK) != 0)
        return 0;
    setenv("ZE_ENABLE_ALT_DRIVERS", path, 1);
    setenv("ZE_ENABLE_VALIDATION_LAYER", "1", 1);
    setenv("ZE_ENABLE_PARAMETER_VALIDATION", "1", 1);
    setenv("ZE_ENABLE_HANDLE_LIFETIME", "1", 1);
    if (settings)
        setenv("WEFT_TEST_ZE", settings, 1);
    return 1;
}
