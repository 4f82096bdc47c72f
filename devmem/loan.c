#include "devmem/loan.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/error.h"

#define BUCKETS 64

struct loan {
    struct loan *next;
    uint64_t number;
    struct weft_lane *reader; /* NULL: nobody */
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

/* Who reads it: *reader is held then, or NULL. */
static void end(uint64_t number, struct weft_lane **reader)
{
    pthread_mutex_lock(&lock);
    struct loan **at = find(number), *loan = *at;
    if (loan)
        *at = loan->next;
    if (loan && reader)
        *reader = loan->reader;
    if (loan && reader && loan->reader)
        weft_lane_hold_on(loan->reader);
    pthread_mutex_unlock(&lock);
    free(loan);
}

void weft_loan_close(uint64_t number)
{
    end(number, NULL);
}

int weft_loan_recall(uint64_t number, int64_t timeout_ms)
{
    struct weft_lane *reader = NULL;
    end(number, &reader);
    if (!reader)
        return WEFT_OK;
    int status = weft_lane_stop(reader, timeout_ms);
    weft_lane_let_go(reader);
    return status;
}

int weft_loan_borrow(uint64_t number, struct weft_lane *lane)
{
    pthread_mutex_lock(&lock);
    struct loan *loan = *find(number);
    int is_free = loan && !loan->reader;
    if (is_free) {
        loan->reader = lane;
        weft_lane_borrows(lane);
    }
    pthread_mutex_unlock(&lock);
    return is_free ? WEFT_OK
                   : weft_fail(WEFT_PEER_FAILED, "a peer has taken back the device memory that it lent");
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

void weft_loans_return(const struct weft_lane *lane)
{
    pthread_mutex_lock(&lock);
    for (int b = 0; b < BUCKETS; b++) {
        for (struct loan *loan = loans[b]; loan; loan = loan->next)
            loan->reader = loan->reader == lane ? NULL : loan->reader;
    }
    pthread_mutex_unlock(&lock);
}
