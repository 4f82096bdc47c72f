/* SPDX-License-Identifier: Apache-2.0 */
/* Out-of-band messages between the instances of a transport: oob_send() and oob_receive() of include/weft/transport.h, carried by the overlays of
 * the context's communicators (weft_bootstrap_send_oob()).
 *
 * The overlay's thread may not wait for the context's lock, so what arrives is queued with the communicator, and handed
 * over by whoever drives the transports. What comes before the communicator is complete, so that the sender's address
 * is not known yet, waits there for that.
 */
#ifndef WEFT_COMM_CORE_INBOX_H
#define WEFT_COMM_CORE_INBOX_H

#include <pthread.h>
#include <stddef.h>

struct weft_comm;
struct weft_context;
struct weft_driven;
struct weft_inbox_message;

/* Of a communicator: out-of-band messages that have arrived over its overlay. */
struct weft_inbox {
    pthread_mutex_t lock; /* of all below; nothing is waited for with it held */
    struct weft_inbox_message *first, *last;
    int count;
};

void weft_inbox_open(struct weft_inbox *inbox);
/* Once the overlay is closed. */
void weft_inbox_close(struct weft_inbox *inbox);

/* Takes a message from the bootstrap; arg is the communicator. */
void weft_inbox_put(void *arg, int rank, const void *message, size_t size);

/* [lock] A communicator is complete: its out-of-band messages can be handed over. */
void weft_inbox_look(struct weft_context *context);

/* As drive's deliver() and oob_send(). Not from inside a transport's operation. */
int weft_inbox_deliver(struct weft_driven *driven);
int weft_inbox_send(struct weft_driven *driven, const void *address, size_t address_size, const void *message,
                    size_t size);

#endif
