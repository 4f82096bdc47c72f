/* SPDX-License-Identifier: Apache-2.0 */
#include "base/secure.h"

#include <stddef.h>
#include <sys/auxv.h>

#include "base/environment.h"
#include "base/log.h"

int weft_secure_mode(void)
{
    return getauxval(AT_SECURE) != 0;
}

const char *weft_secure_getenv(const char *name)
{
    const char *value = weft_environment_get(name);
    if (!value || !*value)
        return NULL;
    if (!weft_secure_mode())
        return value;
    weft_log_once(
        WEFT_LOG_WARN,
        "%s is ignored, and so is every variable that names a file, descriptor or library: this program "
        "runs with more rights than its caller",
        name);
    return NULL;
}
