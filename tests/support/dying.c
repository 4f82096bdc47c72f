/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/dying.h"

#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <unistd.h>

static void *kill_soon(void *arg)
{
    usleep((unsigned)(uintptr_t)arg);
    kill(getpid(), SIGKILL);
    return NULL;
}

int test_die_soon(unsigned delay_us)
{
    pthread_t killer;
    return pthread_create(&killer, NULL, kill_soon, (void *)(uintptr_t)delay_us);
}
