/* SPDX-License-Identifier: Apache-2.0 */
#include "base/signals.h"

#include <pthread.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards taken, and has_turn of everybody */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static int taken;

void weft_signals_save(struct weft_signals *signals)
{
    pthread_mutex_lock(&lock);
    while (taken)
        pthread_cond_wait(&ended, &lock);
    taken = 1;
    memset(signals, 0, sizeof *signals);
    signals->has_turn = 1;
    for (int i = 1; i <= WEFT_SIGNALS; i++)
        sigaction(i, NULL, &signals->actions[i]);
    pthread_mutex_unlock(&lock);
}

static void put_back(const struct weft_signals *signals)
{
    for (int i = 1; i <= WEFT_SIGNALS; i++) {
        const struct sigaction *before = &signals->actions[i];
        struct sigaction now;
        memset(&now, 0, sizeof now);
        if (sigaction(i, NULL, &now) == 0 &&
            (now.sa_handler != before->sa_handler || now.sa_flags != before->sa_flags))
            sigaction(i, before, NULL);
    }
}

static void end_turn(struct weft_signals *signals, int restore)
{
    pthread_mutex_lock(&lock);
    if (signals->has_turn) {
        if (restore)
            put_back(signals);
        signals->has_turn = taken = 0;
        pthread_cond_signal(&ended);
    }
    pthread_mutex_unlock(&lock);
}

void weft_signals_restore(struct weft_signals *signals)
{
    end_turn(signals, 1);
}

void weft_signals_give_up(struct weft_signals *signals)
{
    end_turn(signals, 0);
}
