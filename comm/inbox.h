/* SPDX-License-Identifier: Apache-2.0 */
/* Letters between the instances of a transport: tell() and told() of include/weft/transport.h, carried by the overlays of
 * the context's communicators (weft_bootstrap_tell()).
 *
 * The overlay's thread may not wait for the context's lock, so what arrives is queued with the communicator, and handed
 * over by whoever drives the transports. What comes before the communicator is complete, so that the sender's address
 * is not known yet, waits there for that.
 */
#ifndef WEFT_COMM_INBOX_H
#define WEFT_COMM_INBOX_H

#include <pthread.h>
#include <stddef.h>

struct weft_comm;
struct weft_context;
struct weft_letter;

/* Of a communicator: letters that have arrived over its overlay. */
struct weft_inbox {
    pthread_mutex_t lock; /* of all below; nothing is waited for with it held */
    struct weft_letter *first, *last;
    int count;
};

void weft_inbox_open(struct weft_inbox *inbox);
/* Once the overlay is closed. */
void weft_inbox_close(struct weft_inbox *inbox);

/* The bootstrap's told callback; arg is the communicator. */
void weft_inbox_put(void *arg, int rank, const void *letter, size_t size);

/* [lock] A communicator is complete: its letters can be handed over. */
void weft_inbox_look(struct weft_context *context);

/* [lock] Hands over what has arrived. Returns how many letters. Not from inside a transport's operation. */
int weft_inbox_deliver(struct weft_context *context);

/* The transport's tell hook; arg is the context. [lock] */
int weft_inbox_tell(void *arg, const void *address, size_t address_size, const void *letter, size_t size);

#endif
