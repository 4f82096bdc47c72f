/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/inbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/comm.h"
#include "comm/progress.h"

#define WAITING_MAX 1024 /* per communicator; more are lost, and told again */

struct weft_letter {
    struct weft_letter *next;
    int rank;
    size_t size;
    unsigned char bytes[];
};

_Static_assert(WEFT_LETTER_MAX <= WEFT_BOOTSTRAP_TELL_MAX, "the overlay carries a transport's letters");

void weft_inbox_open(struct weft_inbox *inbox)
{
    pthread_mutex_init(&inbox->lock, NULL);
}

static void free_letters(struct weft_letter *first)
{
    while (first) {
        struct weft_letter *next = first->next;
        free(first);
        first = next;
    }
}

void weft_inbox_close(struct weft_inbox *inbox)
{
    free_letters(inbox->first);
    pthread_mutex_destroy(&inbox->lock);
}

void weft_inbox_put(void *arg, int rank, const void *bytes, size_t size)
{
    struct weft_comm *comm = arg;
    struct weft_inbox *inbox = &comm->inbox;
    struct weft_letter *letter = malloc(sizeof *letter + size);
    if (!letter)
        return;
    *letter = (struct weft_letter){.rank = rank, .size = size};
    if (size)
        memcpy(letter->bytes, bytes, size);
    pthread_mutex_lock(&inbox->lock);
    int room = inbox->count < WAITING_MAX;
    if (room) {
        if (inbox->last)
            inbox->last->next = letter;
        else
            inbox->first = letter;
        inbox->last = letter;
        inbox->count++;
    }
    pthread_mutex_unlock(&inbox->lock);
    if (room)
        weft_inbox_look(comm->context);
    else
        free(letter);
}

void weft_inbox_look(struct weft_context *context)
{
    atomic_store(&context->letters, 1);
    weft_progress_linger(context); /* the service thread sees to it if nobody else does */
    weft_progress_wake(context);
}

static struct weft_letter *take_all(struct weft_inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    struct weft_letter *first = inbox->first;
    inbox->first = inbox->last = NULL;
    inbox->count = 0;
    pthread_mutex_unlock(&inbox->lock);
    return first;
}

/* A letter does not say which transport it is for: those that the sender has an address for get it, and one that takes no
 * letters ignores it, as each does what is not its own. Returns 1 when somebody got it. */
static int deliver(struct weft_comm *comm, const struct weft_letter *letter)
{
    int delivered = 0;
    for (int t = 0; t < WEFT_TRANSPORT_COUNT; t++) {
        const struct weft_open_transport *transport = &comm->context->transports[t];
        size_t size;
        const void *address =
            weft_member_address(&comm->members[letter->rank], (enum weft_transport_index)t, &size);
        if (!size || !(comm->context->working & 1u << t))
            continue;
        transport->ops.told(transport->instance, address, size, letter->bytes, letter->size);
        delivered = 1;
    }
    return delivered;
}

static int deliver_to(struct weft_comm *comm)
{
    struct weft_letter *letters = take_all(&comm->inbox);
    int count = 0;
    for (const struct weft_letter *letter = letters; letter; letter = letter->next)
        count += deliver(comm, letter);
    free_letters(letters);
    return count;
}

int weft_inbox_deliver(struct weft_context *context)
{
    int count = 0;
    atomic_store(&context->letters, 0); /* first: what comes meanwhile is for the next time */
    for (uint32_t i = 0; i < context->comm_count; i++)
        count += deliver_to(context->all[i]);
    return count;
}

static int rank_of(const struct weft_comm *comm, const void *address, size_t address_size)
{
    for (int i = 0; i < comm->ranks * WEFT_TRANSPORT_COUNT; i++) {
        const struct weft_member *member = &comm->members[i / WEFT_TRANSPORT_COUNT];
        size_t size;
        const void *theirs =
            weft_member_address(member, (enum weft_transport_index)(i % WEFT_TRANSPORT_COUNT), &size);
        if (size == address_size && memcmp(theirs, address, size) == 0)
            return i / WEFT_TRANSPORT_COUNT;
    }
    return -1;
}

int weft_inbox_tell(void *arg, const void *address, size_t address_size, const void *letter, size_t size)
{
    struct weft_context *context = arg;
    int status = WEFT_PEER_FAILED, known = 0;
    for (uint32_t i = 0; i < context->comm_count && status != WEFT_OK; i++) {
        struct weft_comm *comm = context->all[i];
        int rank = address_size ? rank_of(comm, address, address_size) : -1;
        if (rank < 0)
            continue;
        int result = weft_bootstrap_tell(comm->bootstrap, rank, letter, size);
        if (!known || result != WEFT_PEER_FAILED) /* another's overlay may still lead there */
            status = result;
        known = 1;
    }
    return known ? status : weft_fail(status, "no communicator has a rank of this address");
}
