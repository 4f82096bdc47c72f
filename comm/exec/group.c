/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/exec/group.h"

#include <pthread.h>
#include <string.h>

#include "base/error.h"

_Thread_local int weft_group_depth;

static pthread_mutex_t leaving_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_key_t leaving;
static int leaving_made;                                  /* under the lock */
static _Thread_local void (*leavers[WEFT_LEAVERS])(void); /* who is called at the end of this thread */

static void leave_all(void *arg)
{
    (void)arg;
    weft_group_depth = 0;
    for (int who = 0; who < WEFT_LEAVERS; who++) {
        if (leavers[who])
            leavers[who]();
    }
    memset(leavers, 0, sizeof leavers);
}

__attribute__((destructor)) static void forget_key(void)
{
    if (leaving_made) /* threads may live longer than the library, where a program unloads it */
        pthread_key_delete(leaving);
}

int weft_group_notice_leaving(enum weft_leaver who, void (*leave)(void))
{
    if (leavers[who])
        return WEFT_OK;
    pthread_mutex_lock(&leaving_lock);
    int error = leaving_made ? 0 : pthread_key_create(&leaving, leave_all);
    leaving_made |= !error;
    pthread_mutex_unlock(&leaving_lock);
    if (!error)
        error = pthread_setspecific(leaving, &leaving);
    if (error)
        return weft_fail(WEFT_SYSTEM, "cannot begin a group: no room for a thread's own data: %s",
                         weft_errno_text(error));
    leavers[who] = leave;
    return WEFT_OK;
}
