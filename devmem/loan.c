/* SPDX-License-Identifier: Apache-2.0 */
#include "devmem/loan.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"

#define BUCKETS 64

struct loan {
    struct loan *next;
    uint64_t number;
    struct weft_lane *reader; /* NULL: nobody */
    int is_lost;              /* the reader has been left to the driver, with work */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct loan *loans[BUCKETS]; /* by number % BUCKETS */
static uint64_t last_number;

/* [lock] Where the loan is noted; what it points to is NULL when it is not. */
static struct loan **find(uint64_t number)
{
    struct loan **at = &loans[number % BUCKETS];
    while (*at && (*at)->number != number)
        at = &(*at)->next;
    return at;
}

int weft_loan_open(uint64_t *number)
{
    struct loan *loan = malloc(sizeof *loan);
    if (!loan)
        return weft_fail(WEFT_NOMEM, "no memory to note that a device's memory is lent");
    pthread_mutex_lock(&lock);
    *loan = (struct loan){.number = ++last_number};
    loan->next = loans[loan->number % BUCKETS];
    loans[loan->number % BUCKETS] = loan;
    *number = loan->number;
    pthread_mutex_unlock(&lock);
    return WEFT_OK;
}

/* Takes it out of the table; NULL: it was in none. Its reader is held on to, if that is wanted. */
static struct loan *end(uint64_t number, int holds)
{
    pthread_mutex_lock(&lock);
    struct loan **at = find(number), *loan = *at;
    if (loan)
        *at = loan->next;
    if (loan && holds && loan->reader)
        weft_lane_hold_on(loan->reader);
    pthread_mutex_unlock(&lock);
    return loan;
}

void weft_loan_close(uint64_t number)
{
    free(end(number, 0));
}

int weft_loan_recall(uint64_t number, int64_t timeout_ms)
{
    struct loan *loan = end(number, 1);
    int status = WEFT_OK;
    if (loan && loan->is_lost)
        status =
            weft_fail(WEFT_TRANSPORT, "the work of a queue that was left to the driver may not have ended");
    if (loan && loan->reader) {
        status = weft_lane_stop(loan->reader, timeout_ms);
        weft_lane_let_go(loan->reader);
    }
    free(loan);
    return status;
}

int weft_loan_gone(void)
{
    return weft_fail(WEFT_PEER_FAILED, "a peer has taken back the device memory that it lent");
}

int weft_loan_borrow(uint64_t number, struct weft_lane *lane)
{
    pthread_mutex_lock(&lock);
    struct loan *loan = *find(number);
    int is_free = loan && !loan->reader && !loan->is_lost;
    if (is_free) {
        loan->reader = lane;
        weft_lane_borrows(lane);
    }
    pthread_mutex_unlock(&lock);
    return is_free ? WEFT_OK : weft_loan_gone();
}

void weft_loan_return(uint64_t number)
{
    if (!number)
        return;
    pthread_mutex_lock(&lock);
    struct loan *loan = *find(number);
    if (loan)
        loan->reader = NULL;
    pthread_mutex_unlock(&lock);
}

void weft_loans_return(const struct weft_lane *lane, int is_done)
{
    pthread_mutex_lock(&lock);
    for (int b = 0; b < BUCKETS; b++) {
        for (struct loan *loan = loans[b]; loan; loan = loan->next) {
            if (loan->reader != lane)
                continue;
            loan->reader = NULL;
            loan->is_lost = !is_done;
        }
    }
    pthread_mutex_unlock(&lock);
}
