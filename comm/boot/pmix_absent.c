/* SPDX-License-Identifier: Apache-2.0 */
/* In the place of pmix.c where PMIx's headers were missing when weft was built. */
#include "base/error.h"
#include "comm/boot/pmix.h"

static int absent(void)
{
    return weft_fail(
        WEFT_NOT_FOUND,
        "PMIx: a PMIx launcher started this process, but this weft was built without PMIx; install "
        "the package libpmix-dev and build again, or set RANK, WORLD_SIZE, MASTER_ADDR and WEFT_PORT");
}

int weft_pmix_hold(int64_t deadline_ns)
{
    (void)deadline_ns;
    return absent();
}

void weft_pmix_release(void)
{
}

const struct weft_pmix_facts *weft_pmix_get_facts(void)
{
    return NULL;
}

int weft_pmix_put(const char *key, const void *value, size_t size)
{
    (void)key;
    (void)value;
    (void)size;
    return absent();
}

int weft_pmix_ask(uint32_t rank, const char *key, int fresh, int64_t deadline_ns,
                  struct weft_pmix_request **request)
{
    (void)rank;
    (void)key;
    (void)fresh;
    (void)deadline_ns;
    (void)request;
    return absent();
}

int weft_pmix_await(struct weft_pmix_request *request, int64_t until_ns, void *value, size_t capacity,
                    size_t *size)
{
    (void)request;
    (void)until_ns;
    (void)value;
    (void)capacity;
    (void)size;
    return absent();
}

void weft_pmix_forget(struct weft_pmix_request *request)
{
    (void)request;
}
