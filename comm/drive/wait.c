/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/drive/wait.h"

#include "base/clock.h"
#include "comm/drive/progress.h"

#define FIRST_LOOK_NS INT64_C(10000000) /* what ends sooner is not looked at */

int weft_wait_ends(void *arg, int64_t *deadline_ns)
{
    (void)arg, (void)deadline_ns;
    return WEFT_TIMEOUT;
}

int weft_wait_never(void *arg)
{
    (void)arg;
    return 0;
}

/* Returns when to look again. */
static int64_t look(const struct weft_wait *wait, int64_t now_ns)
{
    int64_t next_ns = wait->driven->ops->look(wait->driven, now_ns);
    int64_t own_ns = wait->look ? wait->look(wait->arg, now_ns) : WEFT_NEVER_NS;
    return own_ns < next_ns ? own_ns : next_ns;
}

int weft_wait(struct weft_context *context, const struct weft_wait *wait)
{
    int64_t deadline_ns = wait->deadline_ns, look_ns = 0;
    struct weft_idle idle = {0};
    while (!wait->done(wait->arg)) {
        int moved = weft_progress_once(context);
        if (moved && wait->done(wait->arg))
            break;
        int status = atomic_load_explicit(wait->driven->status, memory_order_relaxed);
        if (status != WEFT_OK)
            return status;
        weft_progress_step_aside(context);
        if (moved)
            idle = (struct weft_idle){0};
        else if (!weft_idle_pause(context, &idle))
            continue;
        int64_t now_ns = weft_clock_ns();
        if (!deadline_ns)
            deadline_ns = weft_deadline_ns(wait->timeout_ms);
        if (!look_ns)
            look_ns = now_ns + FIRST_LOOK_NS;
        else if (now_ns >= look_ns)
            look_ns = look(wait, now_ns);
        if (now_ns >= deadline_ns && !wait->done(wait->arg))
            status = wait->late(wait->arg, &deadline_ns);
        if (status != WEFT_OK)
            return status;
        if (!moved)
            weft_progress_sleep(context, &idle, look_ns < deadline_ns ? look_ns : deadline_ns, wait);
    }
    return WEFT_OK;
}
