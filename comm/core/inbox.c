/* SPDX-License-Identifier: Apache-2.0 */
#include "comm/core/inbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "comm/core/comm.h"
#include "comm/drive/progress.h"

#define WAITING_MAX 1024 /* per communicator; more are lost, and sent again */

struct weft_inbox_message {
    struct weft_inbox_message *next;
    int rank;
    size_t size;
    unsigned char bytes[];
};

_Static_assert(WEFT_OOB_MAX <= WEFT_BOOTSTRAP_OOB_MAX, "the overlay carries what transports send");

void weft_inbox_open(struct weft_inbox *inbox)
{
    pthread_mutex_init(&inbox->lock, NULL);
}

static void free_messages(struct weft_inbox_message *first)
{
    while (first) {
        struct weft_inbox_message *next = first->next;
        free(first);
        first = next;
    }
}

void weft_inbox_close(struct weft_inbox *inbox)
{
    free_messages(inbox->first);
    pthread_mutex_destroy(&inbox->lock);
}

void weft_inbox_put(void *arg, int rank, const void *bytes, size_t size)
{
    struct weft_comm *comm = arg;
    struct weft_inbox *inbox = &comm->inbox;
    struct weft_inbox_message *message = malloc(sizeof *message + size);
    if (!message)
        return;
    *message = (struct weft_inbox_message){.rank = rank, .size = size};
    if (size)
        memcpy(message->bytes, bytes, size);
    pthread_mutex_lock(&inbox->lock);
    int room = inbox->count < WAITING_MAX;
    if (room) {
        if (inbox->last)
            inbox->last->next = message;
        else
            inbox->first = message;
        inbox->last = message;
        inbox->count++;
    }
    pthread_mutex_unlock(&inbox->lock);
    if (room)
        weft_inbox_look(comm->context);
    else
        free(message);
}

void weft_inbox_look(struct weft_context *context)
{
    atomic_store(&context->progress.oob, 1);
    weft_progress_linger(context); /* the service thread sees to it if nobody else does */
    weft_progress_wake(context);
}

static struct weft_inbox_message *take_all(struct weft_inbox *inbox)
{
    pthread_mutex_lock(&inbox->lock);
    struct weft_inbox_message *first = inbox->first;
    inbox->first = inbox->last = NULL;
    inbox->count = 0;
    pthread_mutex_unlock(&inbox->lock);
    return first;
}

/* A message does not say which transport it is for: those that the sender has an address for get it, and one that takes no
 * messages ignores it, as each does what is not its own. Returns 1 when somebody got it. */
static int deliver(struct weft_comm *comm, const struct weft_inbox_message *message)
{
    int delivered = 0;
    for (int t = 0; t < WEFT_TRANSPORT_COUNT; t++) {
        const struct weft_open_transport *transport = &comm->context->transports[t];
        size_t size;
        const void *address =
            weft_member_address(&comm->members[message->rank], (enum weft_transport_index)t, &size);
        if (!size || !(comm->context->working & 1u << t))
            continue;
        transport->ops.oob_receive(transport->instance, address, size, message->bytes, message->size);
        delivered = 1;
    }
    return delivered;
}

int weft_inbox_deliver(struct weft_driven *driven)
{
    struct weft_comm *comm = (struct weft_comm *)driven;
    struct weft_inbox_message *oob = take_all(&comm->inbox);
    int count = 0;
    for (const struct weft_inbox_message *message = oob; message; message = message->next)
        count += deliver(comm, message);
    free_messages(oob);
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

int weft_inbox_send(struct weft_driven *driven, const void *address, size_t address_size, const void *message,
                    size_t size)
{
    const struct weft_comm *comm = (const struct weft_comm *)driven;
    int rank = rank_of(comm, address, address_size);
    return rank < 0 ? 1 : weft_bootstrap_send_oob(comm->bootstrap, rank, WEFT_OOB_TRANSPORT, message, size);
}
