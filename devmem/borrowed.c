/* SPDX-License-Identifier: Apache-2.0 */
#include "devmem/borrowed.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"

#define BUCKETS 64

struct borrowed {
    struct borrowed *next;
    uint64_t number;
    struct weft_command_queue *reader; /* NULL: nobody */
    int is_lost;                       /* the reader has been left to the driver, with work */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct borrowed *borrowed_list[BUCKETS]; /* by number % BUCKETS */
static uint64_t last_number;

/* [lock] Where the borrowed mapping is noted; what it points to is NULL when it is not. */
static struct borrowed **find(uint64_t number)
{
    struct borrowed **at = &borrowed_list[number % BUCKETS];
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

int weft_borrowed_open(uint64_t *number)
{
    struct borrowed *borrowed = malloc(sizeof *borrowed);
    if (!borrowed)
        return weft_fail(WEFT_NOMEM, "no memory to note a borrowed mapping");
    pthread_mutex_lock(&lock);
    *borrowed = (struct borrowed){.number = ++last_number};
    borrowed->next = borrowed_list[borrowed->number % BUCKETS];
    borrowed_list[borrowed->number % BUCKETS] = borrowed;
    *number = borrowed->number;
    pthread_mutex_unlock(&lock);
    return WEFT_OK;
}

/* Takes it out of the table; NULL: it was in none. Its reader is held on to, if that is wanted. */
static struct borrowed *end(uint64_t number, int holds)
{
    pthread_mutex_lock(&lock);
    struct borrowed **at = find(number), *borrowed = *at;
    if (borrowed)
        *at = borrowed->next;
    if (borrowed && holds && borrowed->reader)
        weft_command_queue_hold_on(borrowed->reader);
    pthread_mutex_unlock(&lock);
    return borrowed;
}

void weft_borrowed_close(uint64_t number)
{
    free(end(number, 0));
}

int weft_borrowed_recall(uint64_t number, int64_t timeout_ms)
{
    struct borrowed *borrowed = end(number, 1);
    int status = WEFT_OK;
    if (borrowed && borrowed->is_lost)
        status =
            weft_fail(WEFT_TRANSPORT, "the work of a queue that was left to the driver may not have ended");
    if (borrowed && borrowed->reader) {
        status = weft_command_queue_stop(borrowed->reader, timeout_ms);
        weft_command_queue_let_go(borrowed->reader);
    }
    free(borrowed);
    return status;
}

int weft_borrowed_gone(void)
{
    return weft_fail(WEFT_PEER_FAILED, "a peer has taken back the device memory that it shared");
}

int weft_borrowed_take(uint64_t number, struct weft_command_queue *commands)
{
    pthread_mutex_lock(&lock);
    struct borrowed *borrowed = *find(number);
    int is_free = borrowed && !borrowed->reader && !borrowed->is_lost;
    if (is_free) {
        borrowed->reader = commands;
        weft_command_queue_borrows(commands);
    }
    pthread_mutex_unlock(&lock);
    return is_free ? WEFT_OK : weft_borrowed_gone();
}

void weft_borrowed_return(uint64_t number)
{
    if (!number)
        return;
    pthread_mutex_lock(&lock);
    struct borrowed *borrowed = *find(number);
    if (borrowed)
        borrowed->reader = NULL;
    pthread_mutex_unlock(&lock);
}

void weft_borrowed_return_all(const struct weft_command_queue *commands, int is_done)
{
    pthread_mutex_lock(&lock);
    for (int b = 0; b < BUCKETS; b++) {
        for (struct borrowed *borrowed = borrowed_list[b]; borrowed; borrowed = borrowed->next) {
            if (borrowed->reader != commands)
                continue;
            borrowed->reader = NULL;
            borrowed->is_lost = !is_done;
        }
    }
    pthread_mutex_unlock(&lock);
}
