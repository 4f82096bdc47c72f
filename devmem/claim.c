/* SPDX-License-Identifier: Apache-2.0 */
#include "devmem/claim.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define CLAIMS_MAX     64 /* devices in use at a time; a further one is never had */
#define NAME_MAX_BYTES 32

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char kind[NAME_MAX_BYTES]; /* "": free */
    int ordinal;
} claims[CLAIMS_MAX];

/* NULL: nobody has it. [lock] */
static char *find(const char *kind, int ordinal)
{
    for (int i = 0; i < CLAIMS_MAX; i++) {
        if (claims[i].ordinal == ordinal && strncmp(claims[i].kind, kind, NAME_MAX_BYTES - 1) == 0)
            return claims[i].kind;
    }
    return NULL;
}

int weft_claim_take(const char *kind, int ordinal)
{
    int taken = 0;
    pthread_mutex_lock(&lock);
    int is_free = !find(kind, ordinal);
    for (int i = 0; i < CLAIMS_MAX && !taken && is_free; i++) {
        if (claims[i].kind[0])
            continue;
        snprintf(claims[i].kind, NAME_MAX_BYTES, "%s", kind);
        claims[i].ordinal = ordinal;
        taken = 1;
    }
    pthread_mutex_unlock(&lock);
    return taken;
}

void weft_claim_give(const char *kind, int ordinal)
{
    pthread_mutex_lock(&lock);
    char *claim = find(kind, ordinal);
    if (claim)
        memset(claim, 0, NAME_MAX_BYTES);
    pthread_mutex_unlock(&lock);
}
